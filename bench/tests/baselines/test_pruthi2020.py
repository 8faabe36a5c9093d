"""TracIn is a sum of gradient products over checkpoints of a training."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.baselines.pruthi2020 import TracIn
from turnover_bench.errors import BaselineError

X = torch.randn(14, 3, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()
QUERIES = (X[:5] + 0.1, Y[:5])


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))


def wrapped() -> nn.Module:
    return turnover.wrap(build(), at=["1"])


class Recurrent(nn.Module):
    """A recurrent layer with control flow on values, which vmap cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.LSTM(1, 4, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.out(self.steps(x[..., None])[0][:, -1])
        return found if float(found.detach().abs().max()) < 1e6 else found * 0


def groups(parameters):
    # The last layer has a learning rate of its own.
    *first, weight, bias = parameters
    return torch.optim.SGD([{"params": first}, {"params": [weight, bias], "lr": 0.05}], lr=0.2)


def halving(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 4, gamma=0.5)


def recipe(**changes) -> TrainingRecipe:
    return TrainingRecipe(**{"build": build, "inputs": X, "targets": Y, "epochs": 3, "batch_size": 5, **changes})


def by_double_loop(plan: TrainingRecipe, steps: list[int], seed: int, names: str = "") -> np.ndarray:
    """The definition, one pair at a time, along a training of its own."""
    total = torch.zeros(len(plan), len(QUERIES[1]), dtype=torch.float64)

    def gradient(model, x, y):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[None]), y[None]).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if name.startswith(names)}

    def on_step(step):
        if step.number not in steps:
            return
        kept = {p: p.grad.clone() for p in step.model.parameters()}
        rates = {id(p): group["lr"] for group in step.optimizer.param_groups for p in group["params"]}
        rate_of = {name: rates[id(p)] for name, p in step.model.named_parameters()}
        step.model.eval()
        for i in range(len(plan)):
            row = gradient(step.model, plan.inputs[i], plan.targets[i])
            for j in range(len(QUERIES[1])):
                query = gradient(step.model, QUERIES[0][j], QUERIES[1][j])
                total[i, j] += sum(rate_of[name] * (row[name] * query[name]).sum() for name in row)
        step.model.train()
        for p, old in kept.items():
            p.grad = old

    plan.fit(seed=seed, on_step=on_step)
    return total.numpy()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": groups, "schedule": halving},
        {"build": wrapped},
        {"build": Recurrent},
    ],
    ids=["plain", "learning rates by group and step", "wrapped, full view", "no vmap"],
)
def test_pairwise_equals_a_naive_double_loop(changes):
    plan = recipe(**changes)
    found = TracIn.train(plan, seed=3, checkpoints=3).pairwise(QUERIES)
    np.testing.assert_allclose(found.values, by_double_loop(plan, [2, 5, 8], 3), rtol=1e-4, atol=1e-6)
    assert (found.unit, found.shape, list(found.provenance["steps"])) == ("loss", (14, 5), [2, 5, 8])


def test_gradients_can_be_restricted_to_a_layer():
    plan = recipe()
    found = TracIn.train(plan, seed=3, checkpoints=1, parameters="2").pairwise(QUERIES)
    np.testing.assert_allclose(found.values, by_double_loop(plan, [8], 3, names="2."), rtol=1e-4, atol=1e-7)
    with pytest.raises(BaselineError, match=r"'2\.weigth' \(did you mean '2\.weight'"):
        TracIn.train(plan, parameters="2.weigth")


def test_checkpoints_in_a_folder_give_the_same_scores_as_in_memory(tmp_path: Path):
    plan = recipe(build=wrapped)
    in_memory = TracIn.train(plan, seed=1)
    on_disk = TracIn.train(plan, seed=1, folder=tmp_path / "run")
    reopened = TracIn(plan, checkpoints=tmp_path / "run")
    assert reopened.pairwise(QUERIES).equals(in_memory.pairwise(QUERIES))
    assert on_disk.model is not None
    assert torch.equal(on_disk.model(X), plan.fit(seed=1)(X))


def test_missing_checkpoints_and_changed_data_are_named(tmp_path: Path):
    plan, folder = recipe(), tmp_path / "run"
    with pytest.raises(BaselineError, match=r"holds no finished recording.*TracIn\.train"):
        TracIn(plan, checkpoints=folder)
    tracin = TracIn.train(plan, folder=folder)
    with pytest.raises(BaselineError, match="is not empty"):
        TracIn.train(plan, folder=folder)
    with pytest.raises(BaselineError, match="other rows than the recipe has now"):
        TracIn(recipe(targets=1 - Y), checkpoints=folder)
    (folder / "checkpoints.json").rename(tmp_path / "index")
    with pytest.raises(BaselineError, match="holds no finished recording: a training was interrupted"):
        TracIn.train(plan, folder=folder)
    (tmp_path / "index").rename(folder / "checkpoints.json")
    (folder / "step-00000005.pt").unlink()
    with pytest.raises(BaselineError, match=r"1 of 3 checkpoints are missing: .*step-00000005\.pt"):
        TracIn(plan, checkpoints=folder)
    with pytest.raises(BaselineError, match=r"checkpoint .*step-00000005\.pt is missing"):
        tracin.self_influence()


@pytest.mark.parametrize("name", ["checkpoints.json", "step-00000005.pt"])
@pytest.mark.parametrize("change", [lambda data: data[:-20], lambda data: data[:250] + b"7" + data[251:]])
def test_damaged_checkpoints_are_named(tmp_path: Path, name, change):
    plan, folder = recipe(), tmp_path / "run"
    TracIn.train(plan, folder=folder, checkpoints=3)
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    with pytest.raises(BaselineError, match=rf"{name} is damaged .*Record the training again|{name} is damaged: "):
        TracIn(plan, checkpoints=folder).pairwise(QUERIES)


@pytest.mark.parametrize("given", [{"checkpoints": 0}, {"checkpoints": 10}, {"every": 0}, {"every": 10}], ids=str)
def test_more_checkpoints_than_steps_are_rejected(given):
    with pytest.raises(BaselineError, match="from 1 to 9, the steps of the training, got"):
        TracIn.train(recipe(), **given)
