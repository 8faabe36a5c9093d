"""Recipes for flipped subnetworks: a toy run, each recipe's own part, and what the page says by the numbers."""

import re

import numpy as np
import pytest
import torch

import turnover
from turnover_bench.experiments.networks import masked_mlp
from turnover_bench.experiments.own_row_recipes.experiment import (
    RECIPES,
    Recipe,
    Task,
    _lacking,
    _loss,
    _objective,
    _one_mask,
    _others,
    _Setting,
    _trained,
    _without,
)
from turnover_bench.experiments.own_row_recipes.page import _similar_sentence, findings


def found(*, trained=1.0, left_out=1.0, accuracy=0.98, wrong=0.95, same=0.0, lds=0.1):
    numbers = {"trained": trained, "left_out": left_out, "accuracy": accuracy, "wrong_labels": wrong}
    numbers |= {"lds": lds, "lds_recommended": 2 * lds}
    changes = {"change_own": trained - left_out, "change_same_label": same, "change_other_label": 0.0}
    return [{**numbers, **changes, "change_nearest": same}]


ARMS = ("before", "after", "trained", "trained_frozen", "without", "without_frozen")


def result(*, flips=(1.0, 1.0, 2.0), shared=(1.0, 1.0, 2.0, 3.0, 0.5, 0.5), **recipes):
    phases, arms = ([{"flip": flip, "keep": 0.1, "full": 0.1} for flip in every] for every in (flips, shared))
    task = {"title": "Digits", "rows": 10, "plain": [0.98], "phases": [phases], "recipes": recipes}
    return {"seeds": [0], "tasks": {"digits": {**task, "shared": [dict(zip(ARMS, arms, strict=True))]}}}


@pytest.mark.parametrize(
    ("other", "verdict", "words"),
    [
        (found(), "holds", "Unbiased, accurate and as good"),
        (found(accuracy=0.9), "does not hold here", "No training with masks in every step is unbiased at no cost"),
        (found(wrong=0.8), "does not hold here", "No training with masks in every step is unbiased at no cost"),
        (found(trained=1.5), "does not hold here", "No training tried"),
    ],
)
def test_a_cure_is_unbiased_accurate_and_useful(other, verdict, words):
    *_, cure = findings(result(base=found(trained=2.0, same=0.9), other=other))
    assert cure.verdict == verdict
    assert cure.agreement.startswith(words)


def test_steps_without_masks_are_said_to_balance_two_biases():
    *_, cure = findings(result(base=found(trained=2.0), **{"full steps 0.5": found(wrong=0.8)}))
    assert "not that the row is held out." in cure.agreement


def test_a_training_that_balances_two_biases_is_no_cure():
    *_, cure = findings(result(base=found(trained=2.0), **{"full steps 0.5": found()}))
    assert cure.verdict == "does not hold here"


def test_the_nearest_training_loses_no_accuracy():
    recipes = {"penalty": found(accuracy=0.5), "keep 0.7": found(trained=1.3), "full steps 0.5": found()}
    *_, cure = findings(result(base=found(trained=2.0), **recipes))
    assert "keep 0.7 comes nearest at no loss of accuracy: +30% of the loss instead of +100%" in cure.agreement


def test_a_cure_on_one_task_alone_holds_in_part():
    both = result(base=found(trained=2.0), other=found())
    both["tasks"]["sst2"] = {
        **both["tasks"]["digits"],
        "title": "SST-2",
        "recipes": {"base": found(trained=2.0), "other": found(trained=3.0)},
    }
    *_, cure = findings(both)
    assert cure.verdict == "holds in part"
    assert cure.agreement.startswith("No training is unbiased at no cost on all tasks; on one: other (Digits).")


@pytest.mark.parametrize(
    ("same", "flips", "words"),
    [
        (0.9, (1.0, 1.0, 2.0), r"for any row of its label .* the steps of other rows"),
        (0.1, (1.0, 2.0, 2.1), r"for the row itself .* steps on the other rows of this group cause the rise"),
    ],
)
def test_the_cause_is_told_by_other_rows_and_by_phases(same, flips, words):
    first, *_ = findings(result(flips=flips, base=found(trained=2.0, same=same)))
    assert re.search(words, first.agreement)


def test_more_bias_without_similar_rows_is_told_only_where_seeds_agree():
    def recipes(*fewer):
        names = ("base", "1 copy", "5 copies", "as many fewer")
        return {
            **{name: [{"trained": 1.0, "left_out": 0.5}] * len(fewer) for name in names},
            "no similar rows": [{"trained": one, "left_out": 0.5} for one in fewer],
        }

    clear, unclear = (
        _similar_sentence({"title": "X", "recipes": recipes(*fewer)}) for fewer in ((1.4, 1.5), (0.9, 2.0))
    )
    assert (
        "without the 5 rows most similar to each it is 0.95 (190%), without as many at random 0.50 (100%), "
        "more in every seed." in clear
    )
    assert unclear.endswith("at random 0.50 (100%); seeds do not agree.")


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        (
            (1.0, 1.0, 2.0, 3.0, 0.5, 0.5),
            "by +0.00 with their own steps. After the other rows are trained again, it is",
        ),
        (
            (1.0, 1.0, 2.0, 3.0, 0.5, 0.5),
            "by 1.50, and by 2.50 with the weights that they changed frozen: the others make up",
        ),
        ((1.0, 1.0, 2.0, 0.5, 0.5, 0.5), "the others do it, but not with the kept subnetwork as it is."),
        ((1.0, 1.0, 0.5, 0.5, 0.5, 0.5), "so other rows do not do it in every seed."),
    ],
)
def test_whose_steps_do_it_is_told_where_rows_share_a_mask(shared, words):
    _, told, *_ = findings(result(base=found(), shared=shared))
    assert words in told.agreement


def test_the_number_of_similar_rows_is_told_by_the_bias_and_its_share():
    biases = {"1 copy": 1.5, "5 copies": 1.1, "no similar rows": 3.0, "as many fewer": 2.0}
    recipes = {name: found(trained=bias + 2.0, left_out=2.0) for name, bias in biases.items()}
    _, _, told, *_ = findings(result(base=found(trained=2.0), **recipes))
    assert "is 1.50 (75%) and 1.10 (55%) instead of 1.00 (100%); without the 5 rows" in told.agreement
    assert told.agreement.endswith("it is 3.00 (150%), without as many at random 2.00 (100%), more in every seed.")


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


def test_copies_are_trained_under_masks_of_their_own():
    setting = _setting()
    chosen, asked = setting.rows(1.0)
    others = _without(chosen, asked)
    with_copies, without = (
        _trained(setting, Recipe(copies=copies), others, setting.y, copied=asked) for copies in (5, 0)
    )
    known, unknown = (_loss(one, setting.x[asked], setting.y[asked], asked, "flip") for one in (with_copies, without))
    assert known < unknown
    plain = _trained(setting, Recipe(), others, setting.y)
    assert all(map(torch.equal, plain.state_dict().values(), without.state_dict().values()))


def _setting():
    torch.manual_seed(0)
    labels = np.arange(40) % 2
    x = torch.randn(40, 6) + torch.from_numpy(labels)[:, None]
    return _Setting(Task("", 40, (16, 16), 0.1, 40), (x, labels, torch.randn(300, 6), np.arange(300) % 2), 0.2, 0)


def test_learned_rows_have_no_gradient_and_full_steps_no_masks():
    torch.manual_seed(0)
    model, x, y, ids = masked_mlp(4, (16,), 3), torch.randn(6, 4), torch.tensor([0, 1, 2] * 2), torch.arange(6)
    _objective(model, Recipe(learned=1e9), x, y, ids, "keep").backward()
    assert all(not parameter.grad.any() for parameter in model.parameters())
    plain = torch.nn.functional.cross_entropy(turnover.unwrap(model)(x), y)
    torch.testing.assert_close(_objective(model, Recipe(), x, y, ids, "full"), plain)


def test_the_penalty_is_what_masks_alone_make_of_one_input():
    torch.manual_seed(0)
    model, x, y = masked_mlp(4, (16,), 3), torch.randn(6, 4), torch.tensor([0, 1, 2] * 2)
    same, other = torch.zeros(6, dtype=torch.long), torch.arange(6)
    for ids, zero in ((same, True), (other, False)):
        with_penalty, without = (_objective(model, Recipe(penalty=p), x, y, ids, "keep") for p in (1.0, 0.0))
        assert bool((with_penalty - without).abs() < 1e-6) == zero


def test_others_have_the_label_or_not():
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 0])
    test, labels = torch.randn(20, 3), torch.arange(20) % 2
    places = _others(x, y, test, labels, 0)
    assert torch.equal(labels[places["nearest"]], y)
    assert torch.equal(labels[places["same_label"]], y)
    assert torch.equal(labels[places["other_label"]], 1 - y)
    assert (torch.cdist(x, test)[torch.arange(5), places["nearest"]] <= torch.cdist(x, test)[0].max()).all()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (0.3, "is 0.100 and 0.200 as in own_row and highest, by the original one, with other: 0.300 and 0.600."),
        (0.0, "by more than one sd; as in own_row it is 0.100, that of the recommended one 0.200."),
    ],
)
def test_the_page_says_which_training_follows_retraining_best(other, words):
    _, _, told, _ = findings(result(base=found(), other=found(lds=other)))
    assert told.agreement.endswith(words)


def test_recipes_that_are_asked_for_are_trained(toy):
    (task,) = toy.result["tasks"].values()
    for what in ("lds", "lds_recommended"):
        assert -1 <= task["recipes"]["base"][0][what] <= 1
        assert what not in task["recipes"]["a fifth of the rate"][0]
    assert set(task["recipes"]) < set(RECIPES)
    assert "base" in task["recipes"]
    assert len(task["phases"][0]) == 3
    assert set(task["shared"][0]) == set(ARMS)


def test_rows_asked_about_are_among_those_trained_and_the_same_for_all_recipes():
    rows = torch.randn(40, 3), np.arange(40) % 2, torch.randn(300, 3), np.arange(300) % 2
    setting = _Setting(Task("", 40, (8,), 0.1, 1), rows, 0.1, 0)
    chosen, asked = setting.rows(0.5)
    assert (len(chosen), len(asked)) == (20, 2)
    assert set(asked.tolist()) < set(chosen.tolist()) < set(range(40))
    assert len(_without(chosen, asked)) == 18


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
