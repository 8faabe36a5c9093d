"""`TurnOverClassifier` and `TurnOverRegressor` among scikit-learn's own tools."""

import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")

from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import turnover
from turnover.errors import BatchError, InfluenceError, TurnOverWarning

QUICK = {"hidden": (64,), "replicas": 1, "epochs": 8, "learning_rate": 0.03}


@parametrize_with_checks([turnover.TurnOverClassifier(**QUICK), turnover.TurnOverRegressor(**QUICK)])
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def classifier(wine):
    return turnover.TurnOverClassifier(hidden=(128,), replicas=2, epochs=15, random_state=0).fit(*wine)


@pytest.fixture(scope="module")
def regressor():
    x, y = load_diabetes(return_X_y=True)
    return turnover.TurnOverRegressor(hidden=(64, 64), replicas=2, epochs=15, random_state=0).fit(x, y)


def test_influence_is_of_every_training_row_and_judged_at_the_predicted_label_where_none_is_given(classifier, wine):
    x, y = wine
    at_predicted = classifier.influence(x[:5], classifier.predict(x[:5]))
    assert at_predicted.values.shape == (len(y), 5)
    assert at_predicted.ids.tolist() == list(range(len(y)))
    assert np.allclose(classifier.influence(x[:5]).values, at_predicted.values)
    inputs = torch.from_numpy(classifier.scaler_.transform(x[:8])).float()
    assert turnover.audit(classifier.model_, (inputs, torch.from_numpy(y[:8]), torch.arange(8))).clean


def test_out_of_sample_predictions_of_a_regression_are_in_the_unit_of_the_target(regressor):
    _, y = load_diabetes(return_X_y=True)
    unseen = regressor.out_of_sample_.probs[:, 0]
    assert abs(unseen.mean() - y.mean()) < 0.2 * y.mean()
    assert np.corrcoef(unseen, y)[0, 1] > 0.5


def test_scores_of_a_regression_do_not_depend_on_the_unit_of_the_target(regressor):
    x, y = load_diabetes(return_X_y=True)
    in_cents = clone(regressor).fit(x, 1024.0 * y)
    assert np.allclose(in_cents.self_influence_.values, regressor.self_influence_.values, atol=1e-4)
    assert np.allclose(in_cents.predict(x), 1024 * regressor.predict(x), rtol=1e-4)
    one, other = regressor.influence(x[:3], y[:3]), in_cents.influence(x[:3], 1024.0 * y[:3])
    assert np.allclose(one.values, other.values, atol=1e-4)


def test_several_targets_are_predicted_together():
    x, y = load_diabetes(return_X_y=True)
    both = turnover.TurnOverRegressor(**QUICK, random_state=0).fit(x, np.stack([y, -y], 1))
    assert both.predict(x[:7]).shape == (7, 2)
    assert both.score(x, np.stack([y, -y], 1)) > 0.3
    assert both.influence(x[:2], [[1.0, 2.0], [3.0, 4.0]]).values.shape == (len(y), 2)


def test_a_pickled_classifier_answers_as_before(classifier, wine):
    x, y = wine
    other = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(other.predict_proba(x), classifier.predict_proba(x))
    assert np.array_equal(other.influence(x[:2], y[:2]).values, classifier.influence(x[:2], y[:2]).values)
    assert other.self_influence_.equals(classifier.self_influence_)


def test_it_works_in_pipelines_searches_and_cross_validation(wine):
    x, y = wine
    pipe = make_pipeline(StandardScaler(), turnover.TurnOverClassifier(**QUICK, random_state=0))
    search = GridSearchCV(pipe, {"turnoverclassifier__keep": [0.5, 0.7]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.9
    assert len(search.best_estimator_[-1].self_influence_) == len(y)
    assert cross_val_score(pipe, x, y, cv=2).min() > 0.9


def test_data_frames_and_their_labels_are_taken(wine):
    pandas = pytest.importorskip("pandas", reason="pandas is missing: pip install 'turnover[store]'")
    data = load_wine(as_frame=True)
    names = pandas.Series(np.array(["red", "white", "rosé"])[data.target], name="color")
    found = turnover.TurnOverClassifier(**QUICK, random_state=0).fit(data.data, names)
    assert found.feature_names_in_.tolist() == list(data.data.columns)
    assert set(found.predict(data.data)) == {"red", "white", "rosé"}
    assert found.influence(data.data[:2], names[:2]).values.shape == (len(names), 2)
    assert found.out_of_sample_.labels.tolist() == np.searchsorted(found.classes_, names).tolist()


@pytest.mark.parametrize("estimator", ["tod", "auto"])
@pytest.mark.parametrize("kind", ["strings", "numbers"])
def test_rows_of_a_data_frame_are_called_by_its_index(wine, kind, estimator):
    pandas = pytest.importorskip("pandas")
    names = [f"wine-{row}" for row in range(60)] if kind == "strings" else list(range(1000, 1060))
    frame = pandas.DataFrame(wine[0][::3], index=names).sample(frac=1.0, random_state=0)
    labels = pandas.Series(wine[1][::3], index=names)[frame.index]
    model = turnover.TurnOverClassifier(hidden=(64,), replicas=2, epochs=15, estimator=estimator, random_state=0)
    model.fit(frame, labels)
    assert model.self_influence_.ids.tolist() == frame.index.tolist()
    assert model.out_of_sample_.to_pandas().index.equals(pandas.Index(frame.index, name="instance"))
    scores = model.influence(frame[:2], labels[:2])
    assert scores.to_pandas().index.tolist() == frame.index.tolist()
    assert model.influence(frame[:2], labels[:2], ids=[names[7]]).ids.tolist() == [names[7]]
    assert set(frame.loc[scores.top(3).helpful_ids[0]].index) <= set(names)
    with pytest.raises(InfluenceError, match=r"no instance 'wine'|no instance 7"):
        model.influence(frame[:2], labels[:2], ids=["wine" if kind == "strings" else 7])


def test_an_index_with_duplicates_names_no_rows_and_says_so(wine):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(wine[0][:60], index=[*range(58), 3, 5])
    with pytest.warns(TurnOverWarning, match="has 3, 5 more than once"):
        model = turnover.TurnOverClassifier(hidden=(32,), replicas=1, epochs=1).fit(frame, wine[1][:60])
    assert model.self_influence_.ids.tolist() == list(range(60))


def test_unknown_labels_and_missing_targets_of_queries_are_rejected(classifier, regressor, wine):
    with pytest.raises(BatchError, match="label 7 was not among the training labels"):
        classifier.influence(wine[0][:2], [0, 7])
    with pytest.raises(BatchError, match="1 labels for 2 queries"):
        classifier.influence(wine[0][:2], [0])
    with pytest.raises(BatchError, match=r"y has shape \[3\] for 2 queries, but 1 targets were trained"):
        regressor.influence(load_diabetes().data[:2], [1.0, 2.0, 3.0])
    with pytest.raises(BatchError, match=r"y has shape \[\] for 2 queries.*Give y of shape \[2, 1\]"):
        regressor.influence(load_diabetes().data[:2])
