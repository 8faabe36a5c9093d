"""The start weights of mode "mixout" are part of the recipe: trained weights are rejected on any others."""

import json

import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.models import run, train
from turnover.errors import ModelError, PlanError
from turnover.layers import masking_of

IDS = torch.arange(6)


def base(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 3, bias=False))


def trained(seed=0):
    model = turnover.wrap(base(seed), mode="mixout").train()
    return train(model, [(torch.randn(6, 5), torch.randint(3, (6,)), IDS)] * 3).eval()


def flipped(model):
    return run(model.eval(), torch.linspace(-1, 1, 30).view(6, 5), IDS, "flip")


def test_the_recipe_holds_a_checksum_of_the_start_which_training_does_not_change():
    recipes = [masking_of(turnover.wrap(base(seed), mode="mixout")).recipe for seed in (0, 0, 1)]
    assert recipes[0] == recipes[1] != recipes[2]
    assert len(recipes[0].start) == 64
    assert masking_of(trained()).recipe == recipes[0]
    assert masking_of(turnover.wrap(base(), mode="backward")).recipe.start is None


def test_weights_come_back_onto_the_same_start_and_are_rejected_on_another_with_the_cure():
    model = trained()
    again = turnover.wrap(base(), mode="mixout")
    again.load_state_dict(model.state_dict())
    assert torch.equal(flipped(again), flipped(model))
    # The second as `from_pretrained(checkpoint)` and then `wrap` would do: its start would be the end of the training.
    for other in (base(1), turnover.unwrap(model)):
        with pytest.raises(ModelError, match=r"(?s)other start weights than this model.*turnover\.load") as caught:
            turnover.wrap(other, mode="mixout").load_state_dict(model.state_dict())
        assert masking_of(model).recipe.start in str(caught.value)


def test_weights_that_are_put_in_without_load_state_dict_are_noticed_at_the_next_pass():
    other = turnover.wrap(base(1), mode="mixout")
    other.turnover_recipe = trained().state_dict()["turnover_recipe"]
    with pytest.raises(ModelError, match="other start weights"):
        flipped(other)


def test_a_folder_brings_its_own_start_onto_a_plain_model_and_is_rejected_on_a_wrapped_one(tmp_path):
    model = trained()
    turnover.save(model, tmp_path)
    recipe = json.loads((tmp_path / "turnover.json").read_text())["recipe"]
    assert recipe["start"] == masking_of(model).recipe.start
    assert torch.equal(flipped(turnover.load(tmp_path, model=base(1))), flipped(model))
    with pytest.raises(ModelError, match=r"(?s)start weights .*Give the plain model"):
        turnover.load(tmp_path, model=turnover.wrap(base(1), mode="mixout"))


def test_weights_without_values_are_rejected():
    with pytest.raises(PlanError, match=r"'0.weight', .* on the device 'meta'.*Load the weights first"):
        turnover.wrap(base().to("meta"), mode="mixout")
