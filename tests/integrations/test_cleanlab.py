"""Out-of-sample predictions as input of cleanlab."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="scikit-learn is missing: pip install 'turnover[sklearn]'")
pytest.importorskip("cleanlab", reason="cleanlab is missing: pip install 'turnover[cleanlab]'")

from cleanlab.filter import find_label_issues
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import turnover
from turnover.errors import ScoresError

EXAMPLE = Path(__file__).parents[2] / "examples" / "cleanlab_digits.py"
ROWS, WRONG = 500, 50


@pytest.fixture(scope="module")
def digits():
    x, true = (part[:ROWS] for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    y = true.copy()
    wrong = rng.choice(ROWS, WRONG, replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, 10, WRONG)) % 10
    return x, y, y != true


@pytest.fixture(scope="module")
def classifier(digits):
    x, y, _ = digits
    return turnover.TurnOverClassifier(replicas=4, epochs=15, random_state=0).fit(x, y)


def test_find_label_issues_takes_the_predictions_and_finds_most_changed_labels(classifier, digits):
    unseen = classifier.out_of_sample_
    issues = find_label_issues(unseen.labels, unseen.probs)
    assert (issues & digits[2]).sum() > 0.8 * WRONG


@pytest.fixture
def lab(digits):
    pytest.importorskip("datasets", reason="Datalab needs datasets: pip install 'turnover[text]'")
    from cleanlab import Datalab

    import turnover.integrations

    assert turnover.integrations.LikelyLabelErrorIssues.issue_name == "likely_label_error"  # known from here on
    return Datalab({"label": digits[1]}, label_name="label", verbosity=0)


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")  # cleanlab 2.9 with pandas 3.1
def test_datalab_finds_likely_label_errors_and_harmful_rows_by_name(classifier, digits, lab, capsys):
    wrong = digits[2]
    x, y = (part[ROWS : ROWS + 200] for part in load_digits(return_X_y=True))
    influence = turnover.Influence(classifier.model_, train=classifier.train_rows_)
    mean = influence.mean((torch.from_numpy(classifier.scaler_.transform(x)).float(), torch.from_numpy(y)))
    kinds = {"likely_label_error": {"out_of_sample": classifier.out_of_sample_}, "harmful": {"scores": mean}}
    lab.find_issues(issue_types=kinds)
    assert not capsys.readouterr().out  # Datalab prints what fails
    found = lab.get_issues("likely_label_error")
    np.testing.assert_allclose(found["likely_label_error_score"], classifier.out_of_sample_.label_quality)
    assert (found["is_likely_label_error_issue"] & wrong).sum() > 0.8 * WRONG
    harmful = lab.get_issues("harmful")
    assert (mean.values[harmful["is_harmful_issue"]] < 0).all()
    assert wrong[harmful["harmful_score"].to_numpy().argsort()[:25]].mean() > 2 * wrong.mean()
    lab.report(verbosity=1)
    assert "likely_label_error issues" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")
@pytest.mark.parametrize(
    ("kinds", "part"),
    [
        ({"likely_label_error": {}}, "needs held-out predictions"),
        ({"harmful": {}}, "needs one score per row"),
    ],
)
def test_datalab_is_told_what_an_issue_needs(lab, kinds, part):
    with pytest.raises(ScoresError, match=part):
        lab.find_issues(issue_types=kinds)


@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")
def test_scores_of_other_rows_are_rejected(lab, capsys):
    lab.find_issues(issue_types={"harmful": {"scores": turnover.Scores([-1.0, 2.0], ids=[0, 1], null=np.arange(50.0))}})
    assert "2 scores for the 500 rows" in capsys.readouterr().out  # Datalab goes on without what fails


def test_the_example_runs_and_finds_changed_labels(monkeypatch):
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 60
    spec = importlib.util.spec_from_file_location("cleanlab_digits", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    quick = partial(MLPClassifier, solver="lbfgs")  # in a tenth of the example's time
    monkeypatch.setattr(example, "MLPClassifier", lambda widths, **options: quick((32,), **options))
    results = example.main(seeds=1, epochs=4, rows=200)
    assert [result["way"].startswith("5 folds") for result in results] == [False, True, True]
    assert all(0.5 * result["wrong"] < result["right"] <= result["wrong"] == 20 for result in results)
