"""Null ids, trials and chunks in proportion to the job: nothing but the size of the null changes."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import turnover
from tests.influence.models import mlp, trained
from turnover.batches import Batch
from turnover.errors import InfluenceError, ScoresError
from turnover.influence import NULL_IDS, Member
from turnover.influence.blocks import null_count
from turnover.influence.paths import routes
from turnover.scores import Top


@pytest.fixture(autouse=True)
def large_jobs():
    """Leave jobs as small as they are."""


@pytest.fixture
def tried_at_once(monkeypatch):
    """Try faster paths with the first question to a model."""
    monkeypatch.setattr(routes, "_WORTH", 0.0)


def queries():
    """Return four queries of the MLP."""
    torch.manual_seed(1)
    return torch.randn(4, 6), torch.tensor([0, 1, 2, 0])


def bert():
    """Return a small Hugging Face BERT with masked adapters, and queries for it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    base = BertForSequenceClassification(BertConfig(**sizes, vocab_size=50, num_labels=3))
    tokens = {"input_ids": torch.randint(50, (3, 7)), "labels": torch.tensor([0, 2, 1])}
    return trained(base, adapters=16), tokens


@pytest.mark.parametrize(
    ("instances", "asked", "saving", "count"),
    [(10, 1, 1.0, 2), (1000, 1, 9.0, 31), (10_000, 1, 1.1, 312), (2000, 1, 5.0, NULL_IDS), (10**6, 1, 1.0, NULL_IDS)],
)
def test_null_ids_are_in_proportion_to_the_job(instances, asked, saving, count):
    assert null_count(instances, asked, saving) == count


def test_the_first_questions_take_the_plainest_path_until_a_trial_is_worth_its_time():
    model = trained(mlp(), at=["1", "3"])
    answers = [turnover.Influence(model, nulls=4).pairwise(queries(), ids=range(6)) for _ in range(7)]
    # Four passes of 25 million multiplications each, where a trial has five: the fifth question makes up for four.
    plainest = [scores.path == "expanded batch" for scores in answers]
    assert plainest == [True] * 4 + [False] * 3
    for scores in answers[1:]:
        assert np.allclose(scores.values, answers[0].values, atol=1e-5)
        assert np.allclose(scores.null, answers[0].null, atol=1e-5)
    assert answers[1].equals(answers[0])
    assert answers[6].equals(answers[5])


def test_work_is_estimated_by_weights_tokens_and_pixels():
    image = Batch(args=(torch.zeros(1, 3, 4, 5),), kwargs={}, target=None, ids=None, rows=1)
    network = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(40, 7))
    assert routes._products_of_row(network, image) == 6 * 20 + 280
    tokens = Batch(args=(), kwargs={"input_ids": torch.zeros(1, 9, dtype=torch.int64)}, target=None, ids=None, rows=1)
    assert routes._products_of_row(nn.Linear(4, 2), tokens) == 8 * 9


@pytest.mark.usefixtures("tried_at_once")
def test_few_pairs_are_those_of_a_larger_job_and_say_how_many_null_ids_they_had():
    model = trained(mlp(), at=["1", "3"])
    few = turnover.Influence(model, nulls=8).pairwise(queries(), ids=range(6))
    many = turnover.Influence(model, nulls=8).pairwise(queries(), ids=range(600))
    assert few.path == many.path
    assert "shared" in few.path
    assert np.allclose(few.values, many.values[:6], atol=1e-5)
    assert np.allclose(few.null, many.null, atol=1e-5)
    assert "standard deviation of 8 null ids" in repr(few)


@pytest.mark.usefixtures("tried_at_once")
@pytest.mark.parametrize("at", [["3"], ["1", "3"]], ids=["last layer", "two sites"])
def test_a_later_question_gives_the_bytes_of_the_first(at):
    model = trained(mlp(), at=at)
    first, second = (turnover.Influence(model).pairwise(queries(), ids=range(9)) for _ in range(2))
    assert first.equals(second)


@pytest.mark.usefixtures("tried_at_once")
def test_the_path_that_is_kept_is_that_of_the_weights_and_of_the_form_of_queries():
    model = trained(mlp(), at=["1", "3"])
    turnover.Influence(model).pairwise(queries(), ids=range(9))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    later = turnover.Influence(model, nulls=8).pairwise(queries(), ids=range(9))
    twin = turnover.Influence(model, nulls=8).pairwise(queries(), ids=range(600))
    assert np.allclose(later.values, twin.values[:9], atol=1e-5)
    with pytest.raises(InfluenceError, match="fails on the first query"):
        turnover.Influence(model).pairwise((torch.randn(4, 5), queries()[1]), ids=range(9))


class Branching(nn.Module):
    """A network whose layer after the first depends on its input: what holds for one query may not for the next."""

    def __init__(self, *, is_deep: bool) -> None:
        super().__init__()
        self.first, self.relu = nn.Linear(6, 64), nn.ReLU()
        self.positive, self.negative = nn.Linear(64, 3), nn.Linear(64, 3)
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(3, 3)) if is_deep else nn.Identity()

    def forward(self, x):
        hidden = self.relu(self.first(x))
        return self.last(self.positive(hidden) if x.sum() > 0 else self.negative(hidden))


@pytest.mark.usefixtures("tried_at_once")
@pytest.mark.parametrize("is_deep", [False, True], ids=["last layer", "shared product"])
def test_a_query_on_which_the_kept_path_fails_takes_the_plainest(is_deep):
    torch.manual_seed(0)
    model, (x, y) = trained(Branching(is_deep=is_deep), at=["relu"]), queries()
    x[0], x[1] = x[0].abs(), -x[1].abs()
    for place in (0, 1):
        query = x[place : place + 1], y[place : place + 1]
        scores = turnover.Influence(model, nulls=2).pairwise(query, ids=range(5))
        losses = {}
        for view in ("keep", "flip"):
            with torch.no_grad(), turnover.instances(range(5), view=view):
                logits = model(x[place].expand(5, -1))
            losses[view] = nn.functional.cross_entropy(logits, y[place].expand(5), reduction="none")
        assert np.allclose(scores.values[:, 0], losses["flip"] - losses["keep"], atol=1e-5)


@pytest.mark.usefixtures("tried_at_once")
@pytest.mark.parametrize("ids", [5, 40, 700], ids=str)
def test_a_bert_scores_as_the_plain_loop_does_at_every_size(ids):
    model, tokens = bert()
    scores = turnover.Influence(model, nulls=4, center=False).pairwise(tokens, ids=range(ids))
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
    with pytest.raises(ScoresError, match=r"Compute all parts with the same: Influence\(\.\.\., nulls=1024\)"):
        Top.merge(*(turnover.Influence(model).top(queries(), ids=ids) for ids in ranges))
    inf = turnover.Influence(model, nulls=64)
    parts = Top.merge(*(inf.top(queries(), ids=ids) for ids in ranges))
    whole = inf.top(queries(), ids=range(2100))
    assert np.array_equal(parts.helpful_ids, whole.helpful_ids)
    assert np.allclose(parts.helpful_scores, whole.helpful_scores, atol=1e-5)


def test_another_number_of_null_ids_is_another_folder(tmp_path):
    model = trained(mlp(), at=["1", "3"])
    turnover.Influence(model).pairwise(queries(), ids=range(30), out=tmp_path)
    with pytest.raises(turnover.errors.StoreError, match="nulls"):
        turnover.Influence(model, nulls=64).pairwise(queries(), ids=range(30), out=tmp_path)


@pytest.mark.parametrize("nulls", [0, 1, -3, 2.5, True, "many"])
def test_a_wrong_number_of_null_ids_is_rejected(nulls):
    with pytest.raises(InfluenceError, match="nulls must be an integer >= 2"):
        turnover.Influence(trained(mlp(), at=["1"]), nulls=nulls)


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
