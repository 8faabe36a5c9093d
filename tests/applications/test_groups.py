"""What a group of training rows does, and predictions without it."""

import numpy as np
import pytest
import torch

import turnover
from turnover.applications import groups, without_group
from turnover.batches import instance_id_of
from turnover.errors import ApplicationError

NAMES = ("Ann", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus", "Hal")


@pytest.fixture(scope="module")
def annotated(digits, train_mlp):
    """Eight annotators as instances; Bob calls every digit the next one."""
    annotators = [{"annotator": name} for name in NAMES * 50]
    data = turnover.with_instance_ids(annotators, groups="annotator")
    ids = torch.tensor([row["instance_id"] for row in data])
    x, y = digits.x[:400], (digits.true[:400] + (ids == instance_id_of("Bob"))) % 10
    model = train_mlp(x, y, ids=ids, epochs=12)
    return turnover.Influence(model, estimator="tod", train=(x, y, ids)), dict(data.names)


def test_the_annotator_who_is_wrong_harms_most(annotated, digits):
    influence, names = annotated
    found = groups(influence, digits.validation, names=names)
    assert found.as_instances
    assert {item.group for item in found.items} == set(NAMES)
    assert found.items[0].group == "Bob"
    assert found.items[0].score < 0
    assert [item.score for item in found.items] == sorted(item.score for item in found.items)


def test_without_the_wrong_annotator_predictions_believe_his_labels_less(annotated, digits):
    influence, _ = annotated
    x, true = digits.test[0][:150], digits.test[1][:150]
    found = without_group(influence, instance_id_of("Bob"), x)
    his = (np.arange(150), (true.numpy() + 1) % 10)
    assert found.without[his].mean() < found.usual[his].mean()
    assert found.full.shape == found.without.shape == found.spread.shape == (150, 10)
    assert np.allclose(found.without.sum(1), 1, atol=1e-5)


def test_predictions_without_a_group_are_the_flipped_view_of_its_id(annotated, digits):
    influence, _ = annotated
    x, bob = digits.test[0][:5], instance_id_of("Bob")
    with torch.no_grad(), turnover.instances([bob] * 5, view="flip"):
        outputs = influence.models[0](x).unflatten(0, (4, 5)).mean(0)
    assert np.allclose(without_group(influence, bob, x, others=2).without, outputs.softmax(1), atol=1e-5)


def test_groups_of_rows_are_sums_with_the_errors_of_independent_masks(digits):
    members = np.where(digits.wrong, "wrong", "right")
    found = groups(digits.influence, digits.validation, members=members)
    mean = digits.influence.mean(digits.validation, progress=False)
    by_name = {item.group: item for item in found.items}
    assert by_name["wrong"].score == pytest.approx(mean.values[digits.wrong].sum(), rel=1e-4)
    assert by_name["wrong"].per_row == pytest.approx(mean.values[digits.wrong].mean(), rel=1e-4)
    assert by_name["wrong"].stderr >= np.sqrt(np.square(mean.stderr[digits.wrong]).sum()) * 0.999
    assert by_name["wrong"].rows == 50
    assert by_name["wrong"].score < 0 < by_name["right"].score
    assert by_name["wrong"].significant


@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")
def test_random_groups_of_null_ids_are_rarely_significant(digits):
    never = torch.arange(2**61, 2**61 + 500)
    inf = turnover.Influence(digits.model, estimator="tod", train=(digits.x, digits.y, never))
    found = groups(inf, digits.validation, members=np.random.default_rng(0).integers(0, 40, 500))
    assert np.mean([item.p_value < 0.05 for item in found.items]) < 0.2


def test_not_one_group_per_instance_is_refused(digits):
    with pytest.raises(ApplicationError, match="500 training instances"):
        groups(digits.influence, digits.validation[0][:2], members=["a"])


@pytest.mark.parametrize(
    ("group", "others", "message"),
    [
        (5, 32, "no training instance has the id 5"),
        ("Anne", 32, "no training instance has the id 'Anne'"),
        (None, 32, "must be a name or an integer"),
        (instance_id_of("Ann"), 1, "others must be an integer >= 2"),
    ],
)
def test_predictions_without_what_is_no_group_are_refused(digits, annotated, group, others, message):
    with pytest.raises(ApplicationError, match=message):
        without_group(annotated[0], group, digits.x[:1], others=others)


def test_sums_of_scores_without_null_ids_have_the_largest_error_that_replicas_allow(digits):
    influence = turnover.Influence(digits.model, train=(digits.x, digits.y, digits.influence.train_ids))
    found = groups(influence, digits.validation, members=np.where(digits.wrong, "wrong", "right"))
    mean = influence.mean(digits.validation, progress=False)
    assert (found.method, found.noise_from) == ("curvature", "replicas")
    wrong = found.items[0]
    assert (wrong.group, wrong.significant, wrong.p_value) == ("wrong", True, None)
    assert wrong.stderr == pytest.approx(mean.stderr[digits.wrong].sum(), rel=1e-4)
