"""Likely label errors by the record of one training."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.applications import RowRecord, TrainingRecord, memorized, ridge_heads, training_record, wrong_labels
from turnover.applications.wrong_labels import (
    bent,
    centered,
    expected_error,
    fit_rate,
    fit_scale,
    fit_weights,
    likelihood,
    rate_is_higher,
)
from turnover.errors import ApplicationError
from turnover.training import TrainingRecipe


def recorded(x, y, validation, *, epochs):
    plain = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10, bias=False))
    adam = partial(torch.optim.Adam, lr=5e-3)
    recipe = TrainingRecipe(
        partial(turnover.wrap, plain, at=["1"], replicas=3), x, y, optimizer=adam, epochs=epochs, batch_size=50
    )
    batches, records = len(y) // 50, []

    def note(step):
        if step.number == 0:
            records.append(TrainingRecord(step.model, train=(x, y, torch.arange(len(y))), validation=validation))
        elif step.number % batches == 0:
            records[0](step.model)

    model = recipe.fit(on_step=note)
    records[0](model)
    return model, records[0].finish()


@pytest.fixture(scope="module")
def record(digits):
    return recorded(digits.x, digits.y, digits.validation, epochs=6)[1]


def test_as_many_labels_are_called_wrong_as_are_and_the_expected_precision_is_the_true_one(record, digits):
    found = wrong_labels(record)
    called = int(found.likely.sum())
    true = digits.wrong[found.likely].mean()
    assert abs(found.rate - digits.wrong.mean()) < 0.03
    assert abs(found.expected / called - true) < 0.05
    assert digits.wrong[found.likely].sum() > 0.8 * digits.wrong.sum()
    assert set(found.order[:called]) == set(np.flatnonzero(found.likely))
    assert (np.diff(found.p_wrong[found.order]) <= 0).all()
    low, high = found.expected_range
    assert low <= digits.wrong[found.likely].sum() <= high
    assert low <= found.expected <= high <= called
    assert high - low < 0.2 * called


def test_the_expected_precision_is_the_true_one_with_noisy_validation_labels_too(record, digits):
    rng = np.random.default_rng(0)
    changed = rng.random(len(record.validation_labels)) < digits.wrong.mean()
    noisy = np.where(changed, rng.integers(0, 10, len(changed)), record.validation_labels)
    found = wrong_labels(replace(record, validation_labels=noisy))
    true = digits.wrong[found.likely].mean()
    assert abs(found.expected / found.likely.sum() - true) < 0.05
    assert digits.wrong[found.likely].sum() > 0.8 * digits.wrong.sum()


def test_without_heads_the_rate_is_that_of_the_validation_labels(record, digits):
    found = wrong_labels(replace(record, left_out=None, validation_left_out=None))
    assert found.rate < 0.01  # they are correct
    assert found.likely.sum() < digits.wrong.sum() / 2
    assert digits.wrong[found.likely].all()
    assert found.expected_range[0] == 0


def test_of_correct_labels_hardly_any_is_called_wrong(digits):
    _, record = recorded(digits.x, digits.true, digits.validation, epochs=3)
    assert wrong_labels(record).likely.sum() <= 2


def test_more_of_the_rows_listed_by_the_record_are_wrong_than_of_those_that_disagree(record, digits):
    found = wrong_labels(record)
    by_record, without = memorized(digits.influence, wrong_labels=found), memorized(digits.influence)
    assert digits.wrong[by_record.likely].mean() > digits.wrong[without.likely].mean() + 0.1
    errors = by_record.find_label_errors()
    assert (errors.count, errors.expected_errors) == (int(found.likely.sum()), round(found.expected))
    assert errors.as_dict()["expected_errors_range"] == list(found.expected_range)
    assert all(one.likely_label_error and one.p_wrong > 0.5 for one in errors.items)
    assert without.find_label_errors().expected_errors is None
    assert without.find_label_errors().expected_errors_range is None


def test_held_out_predictions_of_any_origin_give_p_wrong(digits):
    held_out = digits.influence.out_of_sample(progress=False)
    for source in (held_out, held_out.probs):
        found = wrong_labels(predictions=source, labels=digits.y)
        assert np.allclose(found.p_wrong, 1 - held_out.label_quality)
        assert np.array_equal(found.likely, held_out.probs.argmax(1) != digits.y.numpy())
        assert digits.wrong[found.order[:50]].mean() > 0.7
        assert found.expected is None


def test_numbers_are_wrong_with_probability_one_half_at_three_times_the_usual_distance():
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0, 10, (300, 1)).astype(np.float32)
    labels = predicted[:, 0].astype(float) + rng.normal(0, 0.1, 300)
    labels[:5] += 4
    found = wrong_labels(predictions=predicted, labels=labels)
    assert set(found.order[:5]) == set(range(5))
    assert np.array_equal(found.likely, found.p_wrong > 0.5)
    assert np.array_equal(found.likely, np.abs(found.standardized) > 3)
    assert (np.diff(found.p_wrong[found.order]) <= 0).all()


def test_recording_changes_nothing_of_a_training_and_a_resumed_record_is_the_same(digits):
    model, record = recorded(digits.x[:100], digits.y[:100], digits.validation, epochs=2)
    recipe = TrainingRecipe(
        partial(
            turnover.wrap,
            nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10, bias=False)),
            at=["1"],
            replicas=3,
        ),
        digits.x[:100],
        digits.y[:100],
    )
    untrained = recipe.build().train()
    before = {name: value.clone() for name, value in untrained.state_dict().items()}
    state = torch.get_rng_state()
    rows = digits.x[:100], digits.y[:100], torch.arange(100)
    one = TrainingRecord(untrained, train=rows, validation=digits.validation)
    one(untrained)
    assert torch.equal(torch.get_rng_state(), state)
    assert untrained.training
    assert all(torch.equal(value, before[name]) for name, value in untrained.state_dict().items())
    other = TrainingRecord(model, train=rows, validation=digits.validation)
    other.load_state_dict(one.state_dict())
    one(model)
    other(model)
    for name, value in vars(one.finish()).items():
        assert np.array_equal(value, getattr(other.finish(), name))
    assert record.full.shape == one.finish().full.shape


def test_a_record_is_saved_and_opened(record, tmp_path):
    record.save(tmp_path / "record.npz")
    for name, value in vars(RowRecord.open(tmp_path / "record.npz")).items():
        assert np.array_equal(value, getattr(record, name))


def test_a_leave_one_out_head_is_the_ridge_regression_fitted_without_the_row():
    rng = np.random.default_rng(0)
    features, targets, strengths = rng.normal(size=(12, 4)), rng.normal(size=(12, 3)), np.array([0.01, 2.0])
    centered_rows = features - features.mean(0)
    scale = np.linalg.eigvalsh(centered_rows.T @ centered_rows).mean()
    for strength, found in zip(strengths, ridge_heads(features, targets, strengths)[0], strict=True):
        for row in range(12):
            others = np.arange(12) != row
            x, y = features[others], targets[others]
            inner, ridge = x - x.mean(0), strength * scale * np.eye(4)
            weights = np.linalg.solve(inner.T @ inner + ridge, inner.T @ (y - y.mean(0)))
            np.testing.assert_allclose(found[row], (features[row] - x.mean(0)) @ weights + y.mean(0), atol=1e-9)


def test_heads_fitted_on_some_rows_predict_the_others_as_the_ridge_regression_does(digits):
    rows = DataLoader(TensorDataset(digits.x, digits.y), batch_size=50)
    net = turnover.wrap(nn.Sequential(nn.Linear(digits.x.shape[1], 16), nn.ReLU(), nn.Linear(16, 10)), at=["1"]).eval()
    record = TrainingRecord(net, train=rows, validation=digits.validation, most_fitted=200)
    batches = np.linspace(0, -(-len(digits.y) // 50) - 1, 4).astype(int)
    fitted = np.flatnonzero(np.isin(np.arange(len(digits.y)) // 50, batches))
    assert 150 < len(fitted) <= 200
    with torch.no_grad():
        features = net[:2](digits.x).double().numpy()
    one_hot = np.eye(10)[digits.y.numpy()]
    all_left_out, weights, constants = ridge_heads(features[fitted], one_hot[fitted], training_record._STRENGTHS)
    best = np.abs(all_left_out - record.left_out[fitted]).max((1, 2)).argmin()
    np.testing.assert_allclose(record.left_out[fitted], all_left_out[best], atol=1e-5)
    others = np.setdiff1d(np.arange(len(digits.y)), fitted)
    np.testing.assert_allclose(record.left_out[others], (features @ weights[best] + constants[best])[others], atol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25])
def test_the_rate_of_changed_labels_is_found_beside_the_weight_of_a_prediction(rate):
    rng = np.random.default_rng(0)
    scores = centered(rng.normal(size=(6000, 4)) * 3)
    probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    true = (probs.cumsum(1) > rng.random((6000, 1))).argmax(1)
    changed = rng.random(6000) < rate
    given = np.where(changed, (true + rng.integers(1, 4, 6000)) % 4, true)
    fitted = fit_weights([scores / 2], given)
    assert fitted.weights[0] == pytest.approx(2, rel=0.1)
    assert fitted.rate == pytest.approx(rate, abs=0.015)
    own = probs[np.arange(6000), given]
    grid = np.linspace(0, 0.5, 501)
    slow = grid[np.argmax([np.log(likelihood(own, one, 4)).sum() for one in grid])]
    assert not rate_is_higher(own, slow + 2e-3, 4)
    assert slow == 0 or rate_is_higher(own, slow - 2e-3, 4)


def predicted(rng, rows, *, sharpness=3.0):
    scores = centered(rng.normal(size=(rows, 4)) * sharpness)
    probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return scores, (probs.cumsum(1) > rng.random((rows, 1))).argmax(1)


def test_a_scale_is_the_true_one_with_many_rows_and_stays_near_1_with_few_that_tell_nothing():
    rng = np.random.default_rng(0)
    scores, labels = predicted(rng, 6000)
    equally_likely, best = fit_scale(scores / 1.5, labels, 0.0, count=5)
    assert best == pytest.approx(1.5, rel=0.05)
    assert equally_likely == pytest.approx(np.full(5, 1.5), rel=0.1)
    assert (np.diff(equally_likely) > 0).all()
    certain = centered(3.0 * np.eye(4)[np.arange(60) % 4])  # all are predicted: the likeliest scale has no bound
    labels = np.arange(60) % 4
    labels[:6] = (labels[:6] + 1) % 4  # but for some, which the rate explains
    equally_likely, best = fit_scale(certain, labels, 0.1, count=5)
    assert 0.7 < best < 1.5
    assert equally_likely[-1] > 1.5 * equally_likely[0]
    assert fit_weights([certain], labels, rates=(0.1,)).weights[0] > 3


def test_the_rate_of_a_weak_prediction_is_hardly_known():
    rng = np.random.default_rng(0)
    guessed = rng.integers(0, 2, 400)
    scores = centered(np.eye(2)[guessed] * rng.uniform(0.5, 1.5, (400, 1)))  # it knows not how good a guess is
    correct = np.where(rng.random(400) < 0.65, guessed, 1 - guessed)
    found = fit_rate([scores], correct)
    assert found.rate < 0.25 < found.rate + 2 * found.stderr


def test_a_rate_has_the_standard_error_at_which_the_likelihood_falls_by_a_half():
    scores, labels = predicted(np.random.default_rng(1), 4000)
    labels[:400] = (labels[:400] + 1) % 4
    found = fit_rate([scores], labels)
    assert found.rate == pytest.approx(0.1, abs=2 * found.stderr)
    for sign in (-1, 1):
        near = fit_weights([scores], labels, rates=(found.rate + sign * found.stderr,))
        assert 2 * 4000 * (near.loss - found.loss) == pytest.approx(1.0, abs=0.35)
    assert fit_rate([scores], scores.argmax(1)).rate < 1e-3
    assert expected_error([scores], (1.0,)) == pytest.approx(
        (scores.argmax(1) != predicted_again(scores)).mean(), abs=0.02
    )


def predicted_again(scores):
    probs = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return (probs.cumsum(1) > np.random.default_rng(7).random((len(scores), 1))).argmax(1)


@pytest.mark.parametrize("sharpness", [0.9, 2.0])
def test_the_number_of_wrong_labels_lies_in_its_interval_where_predictions_often_err(sharpness):
    covered, widths = 0, []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scores, true = predicted(rng, 2200, sharpness=sharpness)
        changed = rng.random(2000) < 0.1
        labels = np.where(changed, (true[:2000] + rng.integers(1, 4, 2000)) % 4, true[:2000])
        rows, held = scores[:2000], scores[2000:]
        found = wrong_labels(RowRecord(labels, rows, rows, true[2000:], held, held))
        low, high = found.expected_range
        covered += low <= changed[found.likely].sum() <= high
        widths += [(high - low) / found.likely.sum()] if found.likely.any() else []
    assert covered >= 7
    assert len(widths) >= 5
    assert 0.15 < np.mean(widths) < 0.9


def test_rows_that_are_not_noisy_have_no_part_in_the_rate():
    scores, labels = predicted(np.random.default_rng(2), 4000)
    labels[:400] = (labels[:400] + 1) % 4
    noisy = np.arange(4000) < 2000
    assert fit_weights([scores], labels, noisy=noisy).rate == pytest.approx(0.2, abs=0.02)
    assert fit_weights([scores], labels).rate == pytest.approx(0.1, abs=0.02)


def test_scores_that_are_nearly_probabilities_need_to_be_bent_to_find_the_rate():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(4000, 10))
    probs = np.square(np.logaddexp(0, 2 * scores))
    probs /= probs.sum(1, keepdims=True)
    true = (probs.cumsum(1) > rng.random((4000, 1))).argmax(1)
    given = np.where(rng.random(4000) < 0.15, (true + rng.integers(1, 10, 4000)) % 10, true)
    straight, found = (fit_weights(parts, given).rate for parts in ([centered(scores)], bent(scores)))
    assert straight < 0.12 < found < 0.17


def test_bad_input_is_rejected_with_what_to_give(record, digits):
    few = RowRecord(
        *(getattr(record, name) for name in ("labels", "full", "left_out")),
        record.validation_labels[:3],
        record.validation_full[:3],
        None,
    )
    net = nn.Linear(64, 10)
    rows = digits.x, digits.y, torch.arange(len(digits.y))
    cases = [
        (lambda: wrong_labels(few), "3 validation rows are too few"),
        (lambda: wrong_labels(record, predictions=[[1.0, 0.0]]), "either a record"),
        (lambda: wrong_labels(predictions=np.eye(3), labels=[0, 1, 3]), "from 0 to 2"),
        (lambda: wrong_labels(predictions=np.ones((2, 1)), labels=[0.0, np.nan]), "must be finite numbers"),
        (
            lambda: TrainingRecord(net, train=rows, validation=rows, most_fitted=0),
            "most_fitted must be an integer >= 1",
        ),
        (lambda: TrainingRecord(net, train=rows, validation=digits.validation).finish(), "no epoch is recorded"),
        (lambda: TrainingRecord(net, train=(digits.x, digits.x[:, 0], rows[2]), validation=rows), "one class number"),
        (
            lambda: memorized(
                digits.influence, wrong_labels=wrong_labels(recorded_rows(record, slice(300))), progress=False
            ),
            "wrong_labels are of 300 rows",
        ),
    ]
    for call, message in cases:
        with pytest.raises(ApplicationError, match=message):
            call()


def recorded_rows(record, chosen):
    rows = {name: getattr(record, name)[chosen] for name in ("labels", "full", "left_out")}
    return RowRecord(**{**vars(record), **rows})
