"""An `Influence` where captum's `DataInfluence` is expected."""

import pytest
import torch

pytest.importorskip("captum", reason="captum is missing: pip install 'turnover[captum]'")

from captum.influence import TracInCP

from turnover.errors import InfluenceError
from turnover.integrations import CaptumDataInfluence


@pytest.fixture(scope="module")
def method(trained):
    return CaptumDataInfluence(trained.influence)


@pytest.fixture(scope="module")
def queries(trained):
    return trained.x[:6], trained.y[:6]


@pytest.mark.filterwarnings("ignore")  # captum's own
def test_it_answers_in_the_shapes_and_with_the_signs_of_tracin(method, trained, queries):
    def load(model, path):
        return 1.0

    plain = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    theirs = TracInCP(plain, trained.rows, ["none"], load, loss_fn=loss, batch_size=60)
    for how in ({}, {"aggregate": True}, {"k": 4}, {"k": 4, "aggregate": True}, {"k": 4, "proponents": False}):
        ours, expected = method.influence(queries, **how), theirs.influence(queries, **how)
        assert type(ours) is type(expected)
        parts = zip(*([one] if isinstance(one, torch.Tensor) else one for one in (ours, expected)), strict=True)
        assert all(mine.shape == other.shape and mine.dtype == other.dtype for mine, other in parts), how
    assert method.self_influence().shape == theirs.self_influence().shape
    assert method.influence(queries)[torch.arange(6), torch.arange(6)].mean() > 0  # a row helps itself


@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("proponents", [True, False])
def test_the_k_most_influential_are_those_of_all_scores(method, queries, proponents, aggregate):
    scores = method.influence(queries, aggregate=aggregate)
    expected = scores.topk(5, largest=proponents)
    found = method.influence(queries, k=5, proponents=proponents, aggregate=aggregate)
    torch.testing.assert_close(found.influence_scores, expected.values, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(scores.gather(1, found.indices), expected.values, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("k", [0, 61])
def test_a_k_that_cannot_be_is_told(method, queries, k):
    with pytest.raises(InfluenceError, match=f"from 1 to 60, the training rows, got {k}"):
        method.influence(queries, k=k)
