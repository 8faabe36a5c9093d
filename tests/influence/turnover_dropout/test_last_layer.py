"""The looked-up product equals the matrix product, and the last layer serves weights and queries that change."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import turnover
from turnover.influence.turnover_dropout._last_layer import _MOST_COLUMNS, ByteSums
from turnover.layers.instances import KEEP, factors_by_table


@pytest.mark.parametrize("width", [1, 31, 32, 33, 100, 512])
@pytest.mark.parametrize("columns", [1, 5, _MOST_COLUMNS])
def test_sums_over_bytes_equal_the_product_with_unpacked_masks(width, columns):
    words = torch.randint(-(2**31), 2**31 - 1, (200, -(-width // 32)), dtype=torch.int64).int()
    values = torch.randn(width, columns)
    wanted = factors_by_table(words, width, KEEP, 0.5, torch.float64) @ values.double()
    found = ByteSums(values, scale=2.0)(words)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)


def test_many_columns_are_left_to_the_matrix_product():
    assert ByteSums.fits(torch.zeros(8, _MOST_COLUMNS))
    assert not ByteSums.fits(torch.zeros(8, _MOST_COLUMNS + 1))
    assert not ByteSums.fits(torch.zeros(8, 1, dtype=torch.float64))


def _trained(replicas: int = 1) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    x, y = torch.randn(60, 6), torch.randint(3, (60,))
    net = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3))
    net = turnover.wrap(net, at=["1"], replicas=replicas)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(5):
        with turnover.instances(range(60)) as now:
            loss = functional.cross_entropy(net(x), now.repeat(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net, x, y


@pytest.mark.parametrize("replicas", [1, 4])
def test_one_query_alone_gets_the_scores_that_it_gets_among_many(replicas):
    net, x, y = _trained(replicas)
    queries = torch.randn(40, 6), torch.randint(3, (40,))
    influence = turnover.Influence(net, estimator="tod", train=(x, y, torch.arange(60)))
    together = influence.pairwise(queries).values  # 80 columns: one matrix product
    for place in (0, 39):
        alone = influence.pairwise((queries[0][place : place + 1], queries[1][place : place + 1])).values
        np.testing.assert_allclose(alone[:, 0], together[:, place], rtol=1e-4, atol=1e-5)


def test_a_second_question_sees_weights_that_changed_since_the_first():
    net, x, y = _trained()
    influence = turnover.Influence(net, estimator="tod", train=(x, y, torch.arange(60)))
    query = torch.randn(1, 6), torch.tensor([1])
    before = influence.pairwise(query).values
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.5)
    after = influence.pairwise(query).values
    fresh = turnover.Influence(net, estimator="tod", train=(x, y, torch.arange(60))).pairwise(query).values
    assert abs(after - before).max() > 1e-3
    assert (after == fresh).all()


def test_a_second_question_may_have_queries_of_another_form():
    net, x, y = _trained()
    influence = turnover.Influence(net, estimator="tod", train=(x, y, torch.arange(60)))
    of_class = influence.pairwise((torch.randn(1, 6), torch.tensor([1])))
    of_shares = influence.pairwise((torch.randn(1, 6), torch.tensor([[0.2, 0.3, 0.5]])))
    assert of_class.values.shape == of_shares.values.shape
