"""What a group of training rows does, and predictions without it."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import turnover
from turnover.applications import groups, without_group
from turnover.batches import instance_id_of
from turnover.errors import ApplicationError

NAMES = ("Ann", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus", "Hal")


@pytest.fixture(scope="module")
def annotated(digits):
    """Eight annotators as instances; Bob calls every digit the next one."""
    torch.manual_seed(0)
    rows = []
    for place in range(400):
        name = NAMES[place % len(NAMES)]
        label = (int(digits.true[place]) + (name == "Bob")) % 10
        rows.append({"x": digits.x[place], "labels": label, "annotator": name})
    data = turnover.with_instance_ids(rows, groups="annotator")
    model = turnover.wrap(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), at=["1"], replicas=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(12):
        for batch in DataLoader(data, batch_size=50, shuffle=True):
            with turnover.instances(batch["instance_id"]) as now:
                loss = nn.functional.cross_entropy(model(batch["x"]), now.repeat(batch["labels"]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ids = torch.tensor([instance_id_of(row["annotator"]) for row in rows])
    labels = torch.tensor([row["labels"] for row in rows])
    return turnover.Influence(model.eval(), train=(digits.x[:400], labels, ids)), dict(data.names)


def test_the_annotator_who_is_wrong_harms_most(annotated, digits):
    influence, names = annotated
    found = groups(influence, digits.test, names=names)
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


def test_random_groups_of_null_ids_are_rarely_significant(digits):
    never = torch.arange(2**61, 2**61 + 500)
    inf = turnover.Influence(digits.model, train=(digits.x, digits.y, never))
    p = [
        item.p_value
        for seed in range(4)
        for item in groups(inf, digits.validation, members=np.random.default_rng(seed).integers(0, 10, 500)).items
    ]
    assert np.mean(np.array(p) < 0.05) < 0.2


def test_results_become_json_and_a_table(digits, annotated):
    found = groups(digits.influence, digits.validation, members=digits.y)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["items"][0]["rows"] == found.items[0].rows
    assert found.table()["group"].tolist() == [item.group for item in found.items]
    data = without_group(annotated[0], instance_id_of("Ann"), digits.test[0][:2], others=2).as_dict()
    assert len(json.loads(json.dumps(data, allow_nan=False))["changed"]) == 2


def test_what_does_not_fit_is_refused(digits, annotated):
    with pytest.raises(ApplicationError, match="500 training instances"):
        groups(digits.influence, digits.validation, members=["a"])
    with pytest.raises(ApplicationError, match="no training instance has the id 5"):
        without_group(annotated[0], 5, digits.x[:1])
    with pytest.raises(ApplicationError, match="instance_id_of"):
        without_group(annotated[0], "Ann", digits.x[:1])
    with pytest.raises(ApplicationError, match="others must be an integer >= 2"):
        without_group(annotated[0], instance_id_of("Ann"), digits.x[:1], others=1)
