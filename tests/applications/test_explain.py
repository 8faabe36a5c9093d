"""The training rows behind a prediction."""

import numpy as np
import pytest
import torch

import turnover
from turnover.applications import explain, predictions, row_magnitudes
from turnover.errors import ApplicationError


@pytest.fixture(scope="module")
def queries(digits):
    x, y = digits.test
    return x[:80], y[:80]


@pytest.fixture(scope="module")
def scores(digits, queries):
    return digits.influence.pairwise(queries, at_label="predicted", progress=False)


@pytest.fixture(scope="module")
def explained(digits, queries):
    return explain(digits.influence, queries, k=5)


@pytest.fixture(scope="module")
def of_all_labels(digits, queries):
    return explain(digits.influence, queries, k=5, same_label=False)


def test_reasons_have_the_predicted_label_and_push_the_way_they_are_listed(explained, digits):
    for one in explained:
        assert one.supporting
        assert {reason.label for reason in one.supporting + one.opposing} == {one.predicted}
        assert all(reason.score > 0 for reason in one.supporting)
        assert all(reason.score < 0 for reason in one.opposing)
        assert all(int(digits.y[reason.position]) == reason.label for reason in one.supporting)
        assert [r.score for r in one.supporting] == sorted((r.score for r in one.supporting), reverse=True)


def test_scores_are_those_of_all_pairs_at_the_predicted_label(explained, digits, scores):
    for column, one in enumerate(explained):
        own = np.where(digits.y.numpy() == one.predicted, scores.values[:, column], -np.inf)
        assert one.supporting[0].id == own.argmax()
        assert one.supporting[0].score == pytest.approx(own.max(), rel=1e-4)


def test_the_prediction_is_that_of_the_whole_network(explained, digits, queries):
    with torch.no_grad():
        probs = digits.model(queries[0]).softmax(1)
    assert [one.predicted for one in explained] == probs.argmax(1).tolist()
    assert np.allclose([one.probability for one in explained], probs.max(1).values, atol=1e-5)
    assert [one.label for one in explained] == queries[1].tolist()
    assert sum(one.error for one in explained) == int((probs.argmax(1) != queries[1]).sum())


def test_rows_that_stand_out_come_first_and_p_values_are_those_of_all_pairs(explained, scores):
    every = scores.p_values()
    for column, one in enumerate(explained):
        assert all(reason.significant for reason in one.supporting[: one.significant_supporting])
        assert not any(reason.significant for reason in one.supporting[one.significant_supporting :])
        p = every[:, column]
        assert all(reason.p_value == pytest.approx(p[reason.position], rel=0.05, abs=1e-6) for reason in one.supporting)


@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")  # as it should
def test_noise_alone_hardly_ever_stands_out(digits, queries):
    never = torch.arange(2**61, 2**61 + 500)
    strangers = turnover.Influence(digits.model, estimator="tod", train=(digits.x, digits.y, never))
    found = explain(strangers, queries, k=5)
    assert np.mean([one.significant_supporting + one.significant_opposing > 0 for one in found]) < 0.1


def test_rows_against_a_prediction_may_have_any_label_while_those_toward_it_have_its_own(
    digits, queries, explained, of_all_labels
):
    found = explain(digits.influence, queries, k=5, same_label="supporting")
    assert any(one.opposing and {reason.label for reason in one.opposing} != {one.predicted} for one in found)
    for both, toward, against in zip(found, explained, of_all_labels, strict=True):
        assert [reason.id for reason in both.supporting] == [reason.id for reason in toward.supporting]
        assert [reason.id for reason in both.opposing] == [reason.id for reason in against.opposing]
        assert both.significant_supporting == toward.significant_supporting
        assert both.significant_opposing == against.significant_opposing


def test_relative_scores_are_scores_over_magnitudes_and_p_values_stay(digits, queries, scores):
    scale = row_magnitudes(digits.influence)
    found = explain(digits.influence, queries, k=3, magnitudes=scale, same_label=False)
    p = scores.p_values()
    for column, one in enumerate(found):
        for reason in one.supporting:
            assert reason.score == pytest.approx(
                scores.values[reason.position, column] / scale[reason.position], rel=1e-4
            )
            assert reason.p_value == pytest.approx(p[reason.position, column])


def test_magnitudes_are_roots_of_self_influence_above_the_noise(digits):
    own = digits.influence.self_influence(progress=False)
    scale = row_magnitudes(digits.influence, own)
    strong = own.values > own.null_spread
    assert np.allclose(scale[strong], np.sqrt(own.values[strong]))
    assert np.allclose(scale[~strong], np.sqrt(own.null_spread))


def test_an_ensemble_predicts_by_the_mean_of_all_its_replicas(digits, queries):
    torch.manual_seed(1)
    alone = turnover.wrap(
        torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)), at=["1"], seed=5
    )
    with turnover.instances(range(4)):
        alone(digits.x[:4])
    both = turnover.Influence(
        [digits.model, alone.eval()], estimator="tod", train=(digits.x, digits.y, torch.arange(500))
    )
    with torch.no_grad():
        outputs = (4 * digits.model(queries[0]) + alone(queries[0])) / 5
    found = explain(both, queries, k=2)
    assert [one.predicted for one in found] == outputs.argmax(1).tolist()
    assert np.allclose([one.probability for one in found], outputs.softmax(1).max(1).values, atol=1e-5)
    assert found.replicas == 5


def test_queries_without_labels_are_explained(digits, queries):
    found = explain(digits.influence, queries[0][:3], k=2)
    assert [one.label for one in found] == [None] * 3
    assert not any(one.error for one in found)


def test_the_most_confident_errors_come_first(digits, queries):
    said = predictions(digits.influence, queries)
    with torch.no_grad():
        wrong = digits.model(queries[0]).argmax(1) != queries[1]
    assert sorted(said.errors.tolist()) == wrong.nonzero()[:, 0].tolist()
    sure = said.probs[said.errors].max(1)
    assert (np.diff(sure) <= 0).all()
    with pytest.raises(ApplicationError, match="no labels"):
        _ = predictions(digits.influence, queries[0]).errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"same_label": "all"}, "True, False or 'supporting', got 'all'"),
        ({"k": 0}, "k must be an integer >= 1, got 0"),
        ({"k": True}, "Give k=10"),
        ({"train_labels": [1, 2, 3]}, r"shape \[3\] for 500 training instances"),
        ({"magnitudes": [1.0, 2.0]}, r"row_magnitudes\(influence\)"),
        ({"level": 2}, "level must be a share"),
    ],
)
def test_what_does_not_fit_is_refused(digits, queries, options, message):
    with pytest.raises(turnover.TurnOverError, match=message):
        explain(digits.influence, queries, **options)


def test_no_queries_are_refused(digits):
    with pytest.raises(turnover.TurnOverError, match="empty"):
        explain(digits.influence, torch.empty(0, 64))


def test_a_regression_is_refused(digits):
    model = turnover.wrap(torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)), at=["1"])
    with turnover.instances(range(4)):
        model(digits.x[:4])
    inf = turnover.Influence(model, estimator="tod", train=(digits.x[:4], digits.y[:4].float(), torch.arange(4)))
    with pytest.raises(ApplicationError, match="one output"):
        explain(inf, digits.x[:2], same_label=False)
