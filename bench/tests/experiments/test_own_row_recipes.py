"""Recipes for flipped subnetworks: a toy run, each recipe's own part, and what the page says by the numbers."""

import numpy as np
import torch

import turnover
from turnover_bench.experiments.networks import masked_mlp
from turnover_bench.experiments.own_row_recipes.experiment import (
    Recipe,
    Task,
    _lacking,
    _objective,
    _one_mask,
    _Setting,
)


def test_steps_on_rows_that_share_a_mask_do_not_change_its_flipped_subnetwork():
    found = _one_mask(_setting())
    assert found["after"]["flip"] == found["before"]["flip"]
    assert found["after"]["keep"] < found["before"]["keep"]
    assert found["trained"]["flip"] != found["before"]["flip"]


def test_what_is_frozen_keeps_what_the_rows_taught():
    found = _one_mask(_setting())
    assert found["trained_frozen"]["keep"] == found["after"]["keep"] != found["trained"]["keep"]
    assert found["without_frozen"]["keep"] == found["before"]["keep"] != found["without"]["keep"]


def test_rows_lack_their_most_similar_ones_or_as_many_at_random():
    setting = _setting()
    chosen, asked = setting.rows(1.0)
    lacking = _lacking(setting, Recipe(lacking=2), chosen, asked)
    nearest = [
        sorted(
            (row for row in chosen.tolist() if row not in asked and setting.y[row] == setting.y[one]),
            key=lambda row, one=one: float((setting.x[row] - setting.x[one]).norm()),
        )[:2]
        for one in asked
    ]
    assert set(lacking.tolist()) == {row for rows in nearest for row in rows}
    at_random = _lacking(setting, Recipe(lacking=2, lacking_at_random=True), chosen, asked)
    assert len(at_random) == len(lacking)
    assert not torch.isin(at_random, asked).any()
    assert not len(_lacking(setting, Recipe(), chosen, asked))


def _setting():
    torch.manual_seed(0)
    labels = np.arange(40) % 2
    x = torch.randn(40, 6) + torch.from_numpy(labels)[:, None]
    return _Setting(Task("", 40, (16, 16), 0.1, 40), (x, labels, torch.randn(300, 6), np.arange(300) % 2), 0.2, 0)


def test_the_penalty_is_what_masks_alone_make_of_one_input():
    torch.manual_seed(0)
    model, x, y = masked_mlp(4, (16,), 3), torch.randn(6, 4), torch.tensor([0, 1, 2] * 2)
    same, other = torch.zeros(6, dtype=torch.long), torch.arange(6)
    for ids, zero in ((same, True), (other, False)):
        with_penalty, without = (_objective(model, Recipe(penalty=p), x, y, ids, "keep") for p in (1.0, 0.0))
        assert bool((with_penalty - without).abs() < 1e-6) == zero


def test_ordinary_dropout_beside_masks_leaks_nothing():
    torch.manual_seed(0)
    x, y, ids = torch.randn(6, 4), torch.tensor([0, 1, 2] * 2), torch.arange(6)
    model = masked_mlp(4, (16, 16), 3, dropout=0.5).train()
    with turnover.instances(ids[:1]):
        torch.nn.functional.cross_entropy(model(x[:1]), y[:1]).backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    assert any(gradient.any() for gradient in gradients)
    model.zero_grad()
    with turnover.instances(ids[:1], view="flip"):
        model.eval()(x[:1]).sum().backward()
    assert not any((one * parameter.grad).any() for one, parameter in zip(gradients, model.parameters(), strict=True))
