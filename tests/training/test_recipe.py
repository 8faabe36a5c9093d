"""Training is a function of rows and seed, and a row left out leaves its place empty."""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import turnover
from turnover.errors import BatchError, TrainingError
from turnover.training import TrainingRecipe, digest_of, retrain, weights_digest

X = torch.linspace(-2, 2, 60).view(20, 3)
Y = (X[:, 0] > 0).long()


def build(bias: bool = True) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2, bias=bias))


def wrapped() -> nn.Module:
    return turnover.wrap(build(bias=False), at=["1"])


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def recipe(**changes) -> TrainingRecipe:
    return TrainingRecipe(**{"build": build, "inputs": X, "targets": Y, "epochs": 3, "batch_size": 6, **changes})


def outputs(model: nn.Module) -> np.ndarray:
    return model(X[:4]).numpy()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_same_seed_gives_the_same_bits_and_the_callers_random_state_is_left_alone():
    before = torch.get_rng_state()
    one, same, other = recipe().fit(seed=3), recipe().fit(seed=3), recipe().fit(seed=4)
    assert torch.equal(flat(one), flat(same))
    assert not torch.equal(flat(one), flat(other))
    assert torch.equal(before, torch.get_rng_state())


def test_batches_by_length_hold_every_row_once_per_epoch_beside_rows_of_like_length():
    lengths = torch.arange(20) % 7
    batches = recipe(lengths=lengths, batch_size=5).batches(1)
    epochs = [torch.cat(batches[start : start + 4]) for start in (0, 4, 8)]
    assert all(torch.equal(epoch.sort().values, torch.arange(20)) for epoch in epochs)
    assert all(int(lengths[batch].max() - lengths[batch].min()) <= 2 for batch in batches)
    starts = [float(lengths[batch].float().mean()) for batch in batches]
    assert starts != sorted(starts), "lengths must not rise within an epoch"
    assert len({tuple(batch.tolist()) for batch in batches}) > 4, "rows must meet others in another epoch"


def test_lengths_are_told_in_the_description_and_leave_with_the_rows():
    by_length = recipe(lengths=torch.arange(20))
    assert "lengths" in by_length.description()
    assert "lengths" not in recipe().description()
    assert by_length.over((X[:4], Y[:4])).lengths is None
    with pytest.raises(TrainingError, match=r"lengths have shape \[3\] for 20 rows: give one per row"):
        recipe(lengths=torch.arange(3))


def test_training_in_bfloat16_is_a_loop_under_autocast_and_is_told_in_the_description():
    plan = recipe(bfloat16=True, build=wrapped)
    found = plan.fit(seed=2)
    torch.manual_seed(2)
    model = wrapped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in plan.batches(2):
        optimizer.zero_grad()
        with turnover.instances(batch), torch.autocast("cpu", torch.bfloat16):
            logits = model(X[batch])
        functional.cross_entropy(logits.float(), Y[batch]).backward()
        optimizer.step()
    torch.testing.assert_close(flat(found), flat(model), rtol=1e-5, atol=1e-6)
    assert not torch.equal(flat(found), flat(recipe(build=wrapped).fit(seed=2)))
    assert found(X).dtype == plan.losses(found.train(), torch.arange(3)).dtype == torch.float32
    assert plan.description()["bfloat16"] is True
    assert "bfloat16" not in recipe().description()


def test_a_row_left_out_leaves_its_place_empty_bit_for_bit():
    left_out, plan = 7, recipe(optimizer=momentum)
    found = plan.fit([row for row in range(20) if row != left_out], seed=2)
    torch.manual_seed(2)
    model = build()
    optimizer = momentum(model.parameters())
    for batch in plan.batches(2):
        rows = batch[batch != left_out]
        optimizer.zero_grad()
        losses = functional.cross_entropy(model(X[rows]), Y[rows], reduction="none")
        (losses.sum() / len(batch)).backward()
        optimizer.step()
    assert torch.equal(flat(found), flat(model))
    weights = torch.ones(20)
    weights[left_out] = 0  # the same as left out, for models whose rows do not meet
    assert torch.allclose(flat(found), flat(plan.fit(seed=2, weights=weights)), atol=1e-6)


def test_a_batch_that_loses_all_its_rows_is_still_a_step():
    plan = recipe(batch_size=1, epochs=1, optimizer=momentum)
    seen = []
    plan.fit([0, 1], seed=0, on_step=lambda step: seen.append(len(step.present)))
    assert len(seen) == 20
    assert sum(seen) == 2


def test_a_wrapped_model_is_trained_in_keep_view_under_its_ids():
    plan = recipe(build=wrapped, ids=torch.arange(100, 120))
    assert plan.row_ids.tolist() == list(range(100, 120))
    one = plan.fit(seed=0)
    other = recipe(build=wrapped).fit(seed=0)
    assert not torch.equal(flat(one), flat(other))
    assert turnover.layers.masking_of(one).learned.passes == 12


def test_dict_and_tuple_inputs_and_schedules_work():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, a, b):
            return self.layer(a + b)

    schedule = partial(torch.optim.lr_scheduler.StepLR, step_size=2)
    one = recipe(build=Two, inputs={"a": X, "b": X}, schedule=schedule).fit(seed=0)
    two = recipe(build=Two, inputs=(X, X), schedule=schedule).fit(seed=0)
    assert torch.equal(flat(one), flat(two))
    assert not torch.equal(flat(one), flat(recipe(build=Two, inputs=(X, X)).fit(seed=0)))


class PoolHere:
    def __init__(self, processes, *, mp_context, initializer, initargs):
        initializer(*initargs)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    map = staticmethod(map)


@pytest.mark.parametrize("pool", [PoolHere, pytest.param(ProcessPoolExecutor, marks=pytest.mark.slow)])
def test_retraining_in_processes_equals_retraining_here(monkeypatch, pool):
    monkeypatch.setitem(retrain.__globals__, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    subsets = np.random.default_rng(0).random((4, 20)) < 0.5
    here = retrain(recipe(), subsets, seeds=range(4), measure=outputs)
    there = retrain(recipe(), subsets, seeds=range(4), measure=outputs, processes=2)
    assert here.shape == (4, 4, 2)
    assert np.allclose(here, there, atol=1e-6)


def test_finished_trainings_are_cached_and_other_work_is_rejected(tmp_path):
    pytest.importorskip("zarr", reason="needs the extra store")
    subsets = np.random.default_rng(0).random((3, 20)) < 0.5
    calls = []

    def counting(model):
        calls.append(1)
        return outputs(model)

    options = {"cache": tmp_path / "cache", "identity": {"task": "line"}, "measure": counting}
    first = retrain(recipe(), subsets, seeds=range(3), **options)
    assert len(calls) == 4  # one for the shape
    again = retrain(recipe(), subsets, seeds=range(3), **options)
    assert len(calls) == 5
    assert np.array_equal(first, again)
    with pytest.raises(turnover.errors.StoreError, match="seeds"):
        retrain(recipe(), subsets, seeds=[5, 6, 7], **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recipe(targets=Y[:5]), r"inputs have \[20\] rows and targets 5"),
        (lambda: recipe(epochs=0), "must be integers >= 1, got 0 and 6"),
        (lambda: recipe(ids=torch.arange(3)), r"ids have shape \[3\] for 20 rows"),
        (lambda: recipe().fit([25]), "rows go from 25 to 25"),
        (lambda: recipe().fit(torch.ones(3, dtype=torch.bool)), "give a bool for each of 20 rows"),
        (lambda: recipe(loss=nn.CrossEntropyLoss()).fit(), r"the loss returned \[\] for 6 rows"),
        (lambda: recipe().over(X), r"must be a tuple \(inputs, targets\), got a Tensor"),
        (lambda: recipe().over((X[:0], Y[:0])), "there are no queries"),
        (lambda: retrain(recipe(), np.ones((2, 20)), seeds=[0, 1], measure=outputs), "give bool"),
        (lambda: retrain(recipe(), np.ones((2, 20), bool), seeds=[0], measure=outputs), "1 seeds for 2 subsets"),
        (
            lambda: retrain(recipe(), np.ones((2, 20), bool), seeds=[0, 1], measure=outputs, processes=999),
            r"`processes` must be an integer from 1 to \d+, the cores of this machine, got 999",
        ),
        (
            lambda: retrain(recipe(), np.ones((2, 20), bool), seeds=[0, 1], measure=lambda m: m, processes=2),
            "cannot be sent to worker processes",
        ),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, message):
    with pytest.raises((TrainingError, BatchError), match=message):
        call()


# What results depend on is told by plain data that is the same in every process


def linear(**changes) -> TrainingRecipe:
    return TrainingRecipe(**{"build": partial(nn.Linear, 3, 2), "inputs": X, "targets": Y, **changes})


def from_a_checkpoint() -> nn.Module:
    model = nn.Linear(3, 2)
    nn.init.ones_(model.weight)
    return model


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
    one, other = linear().description(), linear(**changes).description()
    assert [key for key in one if one[key] != other[key]] == [named]


def test_the_description_leaves_the_callers_random_state_alone_and_does_not_depend_on_it():
    before = torch.get_rng_state()
    one = linear().description()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(5)
    assert linear().description() == one
    own, other = (linear(loss=lambda outputs, targets: targets).description() for _ in range(2))
    assert own == other
    assert "0x" not in str(own)


def test_digests_see_names_types_and_shapes_as_well_as_numbers():
    zeros = torch.zeros(4)
    different = [zeros, zeros.view(2, 2), zeros.int(), {"a": zeros}, {"b": zeros}, (zeros, zeros), zeros.bfloat16()]
    assert len({digest_of(value) for value in different}) == len(different)
    assert digest_of({"a": zeros, "b": zeros + 1}) == digest_of({"b": zeros + 1, "a": zeros.clone()})
    assert linear().data_digest() != weights_digest(nn.Linear(3, 2))


@pytest.mark.slow
def test_another_process_gives_the_same_description():
    code = (
        "from tests.training.test_recipe import linear, from_a_checkpoint;"
        "print(linear(build=from_a_checkpoint, loss=from_a_checkpoint).description())"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert there.strip() == str(linear(build=from_a_checkpoint, loss=from_a_checkpoint).description())
