"""A training that was stopped resumes from its file to the same weights."""

from functools import partial

import pytest
import torch
from torch import nn

import turnover
from turnover.errors import TurnOverWarning
from turnover.training import Checkpoint, TrainingRecipe

X, Y = torch.randn(20, 4), torch.arange(20) % 2


def masked():
    plain = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
    return turnover.wrap(plain, at=["2"])


RECIPE = TrainingRecipe(
    masked,
    X,
    Y,
    optimizer=partial(torch.optim.Adam, lr=0.01),
    schedule=partial(torch.optim.lr_scheduler.StepLR, step_size=3),
    epochs=3,
    batch_size=5,
)


class _StopError(Exception):
    pass


def _stopped(checkpoint, at):
    def stop(step):
        if step.number == at:
            raise _StopError

    with pytest.raises(_StopError):
        RECIPE.fit(seed=1, on_step=stop, checkpoint=checkpoint)


def _same(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize("at", [1, 4, 11])
def test_a_stopped_training_ends_with_the_same_weights(tmp_path, at):
    file, numbers = tmp_path / "new" / "state.pt", []
    _stopped(Checkpoint(file, every=-1), at)
    again = RECIPE.fit(seed=1, on_step=lambda step: numbers.append(step.number), checkpoint=Checkpoint(file))
    assert numbers == list(range(at, 12))
    assert _same(again, RECIPE.fit(seed=1))


def test_a_finished_training_is_not_made_again(tmp_path):
    checkpoint, numbers = Checkpoint(tmp_path / "state.pt"), []
    first = RECIPE.fit(seed=1, checkpoint=checkpoint)
    again = RECIPE.fit(seed=1, on_step=lambda step: numbers.append(step.number), checkpoint=checkpoint)
    assert not numbers
    assert _same(first, again)


def test_between_two_states_nothing_is_written(tmp_path):
    file = tmp_path / "state.pt"
    _stopped(Checkpoint(file, every=1e6), 11)
    assert not file.exists()


def test_a_state_that_was_cut_off_or_is_of_other_parts_starts_over(tmp_path):
    file = tmp_path / "state.pt"
    _stopped(Checkpoint(file, every=-1), 6)
    assert Checkpoint(file).resume(model=masked()) == 0
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(TurnOverWarning, match=r"state.pt' is damaged: the training starts over"):
        again = RECIPE.fit(seed=1, checkpoint=Checkpoint(file))
    assert _same(again, RECIPE.fit(seed=1))
