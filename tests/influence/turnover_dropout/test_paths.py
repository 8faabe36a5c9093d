"""The path of a job, and its null ids, follow from its size: nothing but the size of the null changes."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import turnover
from tests.influence.models import mlp, trained
from turnover.errors import InfluenceError, ScoresError
from turnover.influence import NULL_IDS, Member, TurnOver
from turnover.scores import Top


@pytest.fixture(autouse=True)
def large_jobs():
    """Leave jobs as small as they are."""


def queries():
    torch.manual_seed(1)
    return torch.randn(4, 6), torch.tensor([0, 1, 2, 0])


def bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    base = BertForSequenceClassification(BertConfig(**sizes, vocab_size=50, num_labels=3))
    tokens = {"input_ids": torch.randint(50, (3, 7)), "labels": torch.tensor([0, 2, 1])}
    return trained(base, adapters=16), tokens


@pytest.mark.parametrize(
    ("at", "instances", "count"),
    [(["1", "3"], 10, 2), (["1", "3"], 1000, 125), (["1", "3"], 9000, NULL_IDS), (["3"], 10, NULL_IDS)],
)
def test_null_ids_are_in_proportion_to_the_job_and_many_where_they_cost_nearly_nothing(at, instances, count):
    scores = turnover.Influence(trained(mlp(), at=at)).mean(queries(), ids=range(instances))
    assert len(scores.null) == count


def test_few_pairs_are_those_of_a_larger_job_and_say_how_many_null_ids_they_had():
    inf = turnover.Influence(trained(mlp(), at=["1", "3"]), estimator=TurnOver(nulls=8))
    few, many = inf.pairwise(queries(), ids=range(6)), inf.pairwise(queries(), ids=range(600))
    assert (few.path, many.path) == ("expanded batch", "broadcast at the first site")
    assert np.allclose(few.values, many.values[:6], atol=1e-5)
    assert np.allclose(few.null, many.null, atol=1e-5)
    assert "standard deviation of 8 null ids" in repr(few)


class Branching(nn.Module):
    """A network whose last layer depends on its input: what holds for one query may not for the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.relu = nn.Linear(6, 64), nn.ReLU()
        self.positive, self.negative = nn.Linear(64, 3), nn.Linear(64, 3)

    def forward(self, x):
        hidden = self.relu(self.first(x))
        return self.positive(hidden) if x.sum() > 0 else self.negative(hidden)


@pytest.mark.parametrize("ids", [5, 600])
def test_queries_that_end_in_different_layers_have_the_scores_of_their_own(ids):
    torch.manual_seed(0)
    model, (x, y) = trained(Branching(), at=["relu"]), queries()
    x[0], x[1] = x[0].abs(), -x[1].abs()
    scores = turnover.Influence(model, estimator=TurnOver(nulls=2)).pairwise((x, y), ids=range(ids))
    for place in (0, 1):
        losses = {}
        for view in ("keep", "flip"):
            with torch.no_grad(), turnover.instances(range(5), view=view):
                logits = model(x[place].expand(5, -1))
            losses[view] = nn.functional.cross_entropy(logits, y[place].expand(5), reduction="none")
        assert np.allclose(scores.values[:5, place], losses["flip"] - losses["keep"], atol=1e-5)


@pytest.mark.parametrize("at", [["3"], ["1", "3"]], ids=["last layer", "two sites"])
def test_a_later_question_gives_the_bytes_of_the_first(at):
    model = trained(mlp(), at=at)
    first, second = (turnover.Influence(model).pairwise(queries(), ids=range(9)) for _ in range(2))
    assert first.equals(second)


@pytest.mark.parametrize("ids", [5, 40, 700], ids=str)
def test_a_bert_scores_as_the_plain_loop_does_at_every_size(ids):
    model, tokens = bert()
    scores = turnover.Influence(model, estimator=TurnOver(nulls=4, center=False)).pairwise(tokens, ids=range(ids))
    rows = [0, 1, ids - 1]
    for place in range(3):
        with torch.no_grad():
            losses = {}
            for view in ("keep", "flip"):
                with turnover.instances(rows, view=view):
                    logits = model(tokens["input_ids"][place].expand(3, -1)).logits
                losses[view] = nn.functional.cross_entropy(logits, tokens["labels"][place].expand(3), reduction="none")
        assert np.allclose(scores.values[rows, place], losses["flip"] - losses["keep"], atol=1e-5)


def test_lists_of_ranges_of_other_sizes_are_merged_where_the_number_of_null_ids_is_given():
    model = trained(mlp(), at=["1", "3"])
    ranges = [range(2000), range(2000, 2100)]
    with pytest.raises(ScoresError, match=r"Compute all parts with the same: .*TurnOver\(nulls=1024\)"):
        Top.merge(*(turnover.Influence(model).top(queries(), ids=ids) for ids in ranges))
    inf = turnover.Influence(model, estimator=TurnOver(nulls=64))
    parts = Top.merge(*(inf.top(queries(), ids=ids) for ids in ranges))
    whole = inf.top(queries(), ids=range(2100))
    assert np.array_equal(parts.helpful_ids, whole.helpful_ids)
    assert np.allclose(parts.helpful_scores, whole.helpful_scores, atol=1e-5)


def test_another_number_of_null_ids_is_another_folder(tmp_path):
    model = trained(mlp(), at=["1", "3"])
    turnover.Influence(model).pairwise(queries(), ids=range(30), out=tmp_path)
    with pytest.raises(turnover.errors.StoreError, match="options"):
        turnover.Influence(model, estimator=TurnOver(nulls=64)).pairwise(queries(), ids=range(30), out=tmp_path)


@pytest.mark.parametrize("nulls", [0, 1, -3, 2.5, True, "many"])
def test_a_wrong_number_of_null_ids_is_rejected(nulls):
    with pytest.raises(InfluenceError, match=r"nulls=\) must be an integer >= 2"):
        turnover.Influence(trained(mlp(), at=["1"]), estimator=TurnOver(nulls=nulls))


def test_the_checksum_of_a_model_sees_every_write():
    model = trained(mlp(), at=["1"])
    seen = {Member(model).digest()}
    with torch.no_grad():
        next(model.parameters()).add_(1)
    seen.add(Member(model).digest())
    next(model.parameters()).data.mul_(2)
    seen.add(Member(model).digest())
    assert len(seen) == 3
    assert Member(model).digest() in seen
