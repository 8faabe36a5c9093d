"""What a recipe's results depend on is told by plain data that is the same in every process."""

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn

from turnover.training import TrainingRecipe, digest_of, weights_digest

X = torch.linspace(-2, 2, 60).view(20, 3)
Y = (X[:, 0] > 0).long()


def recipe(**changes) -> TrainingRecipe:
    return TrainingRecipe(**{"build": partial(nn.Linear, 3, 2), "inputs": X, "targets": Y, **changes})


def from_a_checkpoint() -> nn.Module:
    model = nn.Linear(3, 2)
    nn.init.ones_(model.weight)
    return model


def test_ids_are_the_recipes_or_row_numbers():
    assert recipe().row_ids.tolist() == list(range(20))
    assert recipe(ids=torch.arange(20) + 7).row_ids.tolist() == list(range(7, 27))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"inputs": X + 1}, "data"),
        ({"targets": 1 - Y}, "data"),
        ({"ids": torch.arange(20)}, "data"),
        ({"build": partial(nn.Linear, 3, 3)}, "model"),
        ({"build": from_a_checkpoint}, "model"),
        ({"optimizer": partial(torch.optim.SGD, lr=0.2)}, "optimizer"),
        ({"schedule": partial(torch.optim.lr_scheduler.StepLR, step_size=2)}, "schedule"),
        ({"loss": nn.CrossEntropyLoss(reduction="none")}, "loss"),
        ({"epochs": 11}, "epochs"),
        ({"batch_size": 31}, "batch_size"),
    ],
)
def test_each_change_of_a_recipe_shows_under_its_name(changes, named):
    one, other = recipe().description(), recipe(**changes).description()
    assert [key for key in one if one[key] != other[key]] == [named]


def test_the_description_leaves_the_callers_random_state_alone_and_does_not_depend_on_it():
    before = torch.get_rng_state()
    one = recipe().description()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(5)
    assert recipe().description() == one


def test_digests_see_names_types_and_shapes_as_well_as_numbers():
    zeros = torch.zeros(4)
    different = [zeros, zeros.view(2, 2), zeros.int(), {"a": zeros}, {"b": zeros}, (zeros, zeros), zeros.bfloat16()]
    assert len({digest_of(value) for value in different}) == len(different)
    assert digest_of({"a": zeros, "b": zeros + 1}) == digest_of({"b": zeros + 1, "a": zeros.clone()})
    assert recipe().data_digest() != weights_digest(nn.Linear(3, 2))


def test_another_process_gives_the_same_description():
    code = (
        "from tests.training.test_identity import recipe, from_a_checkpoint;"
        "print(recipe(build=from_a_checkpoint, loss=from_a_checkpoint).description())"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert there.strip() == str(recipe(build=from_a_checkpoint, loss=from_a_checkpoint).description())
