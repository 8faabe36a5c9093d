"""Which rows harm a validation set."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import turnover
from turnover import Scores
from turnover.applications import cleanse, drop_amount
from turnover.errors import ApplicationError


@pytest.fixture(scope="module")
def unseen(digits):
    return digits.influence.out_of_sample(progress=False)


@pytest.fixture(scope="module")
def mean(digits):
    return digits.influence.mean(digits.validation, progress=False)


@pytest.fixture(scope="module")
def tenth(digits, unseen):
    return cleanse(digits.influence, digits.validation, drop="10%", out_of_sample=unseen)


@pytest.fixture(scope="module")
def cleansed(digits, unseen, mean):
    return partial(cleanse, digits.influence, digits.validation, mean=mean, out_of_sample=unseen)


def test_the_most_harmful_rows_go_in_their_order(tenth, mean):
    assert [row.position for row in tenth.dropped] == np.argsort(mean.values, kind="stable")[:50].tolist()
    assert all(row.score < 0 for row in tenth.dropped)
    assert (~tenth.kept).sum() == 50
    assert not tenth.kept[[row.position for row in tenth.dropped]].any()
    assert tenth.validation_rows == 200


def test_significantly_harmful_rows_are_those_that_scores_mark(cleansed, mean):
    found = cleansed(drop="significant")
    assert sorted(row.id for row in found.dropped) == np.flatnonzero(mean.significant() & (mean.values < 0)).tolist()
    assert found.significant == len(found.dropped) > 0
    assert all(row.significant for row in found.dropped)


@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")  # as it should
def test_where_nothing_is_significant_nothing_goes_and_it_says_so(digits):
    never = torch.arange(2**61, 2**61 + 500)
    inf = turnover.Influence(digits.model, estimator="tod", train=(digits.x, digits.y, never))
    found = cleanse(inf, digits.validation, drop="significant", level=0.001)
    assert not found.dropped
    assert found.kept.all()
    assert found.significant == 0
    assert found.requested is None


def test_protected_rows_stay_and_others_take_their_place(tenth, cleansed):
    worst = tenth.dropped_ids[:3]
    found = cleansed(drop=50, protect=worst)
    assert len(found.dropped) == 50
    assert not set(worst.tolist()) & set(found.dropped_ids.tolist())
    assert found.protected == 3


def test_no_class_loses_its_last_row_and_it_says_so(tenth, cleansed):
    labels = np.zeros(500, np.int64)
    rare = [tenth.dropped[0].position, tenth.dropped[4].position]
    labels[rare] = 1
    found = cleansed(drop=20, train_labels=labels)
    assert found.kept[rare].sum() == 1
    assert found.kept[rare[1]]  # the less harmful of the two
    assert len(found.dropped) == 20
    assert found.spared_classes == (1,)


def test_more_than_the_harmful_rows_are_never_dropped(cleansed, mean):
    found = cleansed(drop="99%")
    assert len(found.dropped) == (mean.values < 0).sum() < 495
    assert (found.drop, found.requested) == ("99%", 495)


def test_a_regression_is_cleansed_without_classes(digits):
    torch.manual_seed(0)
    model = turnover.wrap(
        torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)), at=["1"]
    )
    with turnover.instances(range(40)):
        model(digits.x[:40])
    target = digits.y[:40, None].float()
    inf = turnover.Influence(model, estimator="tod", train=(digits.x[:40], target, torch.arange(40)))
    found = cleanse(inf, (digits.x[40:60], digits.y[40:60, None].float()), drop=2)
    assert len(found.dropped) == 2
    assert found.dropped[0].held_out_label is None


@given(st.integers(2, 10_000), st.floats(0.001, 99.9))
def test_a_share_leaves_a_row_and_takes_one(count, percent):
    _, rows = drop_amount(f"{percent}%", count)
    assert 1 <= rows < count
    assert abs(rows - percent / 100 * count) <= 1
    assert drop_amount(percent / 100, count)[1] == rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": "1 percent"}, 'such as "1%"'),
        *(({"drop": drop}, "must be an amount of rows") for drop in ("a few", True, float("nan"), None)),
        *(({"drop": drop}, "must be between 0% and 100%") for drop in ("0%", "150%", 0.0, 1.5)),
        *(({"drop": drop}, "must be from 1 to 499 of 500") for drop in (500, -3)),
        ({"protect": [10**6]}, "ids of training instances, got 1000000"),
        ({"protect": ["a"]}, "must hold instance ids"),
        ({"train_labels": np.zeros(500, int)}, "two classes or more"),
        ({"train_labels": [0, 1]}, "Give one label for each"),
        ({"level": -1}, "level must be a share"),
    ],
)
def test_what_does_not_fit_is_refused(cleansed, options, message):
    with pytest.raises(turnover.TurnOverError, match=message):
        cleansed(**options)


@pytest.mark.parametrize(
    ("validation", "message"),
    [((torch.empty(0, 64), torch.empty(0, dtype=torch.int64)), "empty"), (torch.zeros(2, 64), "no targets")],
)
def test_validation_without_rows_or_labels_is_refused(digits, validation, message):
    with pytest.raises(turnover.TurnOverError, match=message):
        cleanse(digits.influence, validation)


@pytest.mark.parametrize("replicas", [8, 2, 1])
def test_without_null_ids_replicas_judge_and_too_few_of_them_judge_nothing(digits, unseen, mean, replicas):
    stderr = None if replicas < 3 else np.full(len(mean), 1e-6, np.float32)
    own = Scores(mean.values, ids=mean.ids, stderr=stderr, replicas=replicas, unit=mean.unit)
    options = {"mean": own, "out_of_sample": unseen}
    found = cleanse(digits.influence, digits.validation, drop=5, **options)
    assert {one.p_value for one in found.dropped} == {None}
    if replicas < 3:
        assert (found.noise_from, found.significant) == (None, 0)
        assert not any(one.significant for one in found.dropped)
        with pytest.raises(ApplicationError, match=r"which rows are significant is not known: .* have no interval"):
            cleanse(digits.influence, digits.validation, drop="significant", **options)
    else:
        assert found.noise_from == "replicas"
        assert all(one.significant for one in found.dropped)
        assert "(significant)" in str(found.dropped[0])
