"""A training by SGD that can be walked back: parameters before every step, batches and the optimizer's settings.

Parameters are kept flat, one row a step, in memory or in a folder. A folder is a store with an identity: it is refused
for another recipe or other data, and a training that was cut off does not count.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError, StoreDamagedError, StoreMismatchError
from turnover.storage import ArraySpec, TileStore
from turnover.training import Step, TrainingRecipe, digest_of, seed_step, weights_digest

from .progress_bar import progress_bar
from .sgd_steps import (
    built,
    check_buffers,
    dtype_of,
    first_step,
    flat,
    place,
    settings_of,
    trained_parameters,
)

_BLOCK_BYTES = 1 << 24


class Parameters(Protocol):
    """Parameters before each of the recorded steps, and after the last."""

    @property
    def nbytes(self) -> int:
        """What they take in memory or on disk."""
        ...

    def at(self, place: int) -> Tensor:
        """Return the flat parameters of a place, counted from the first recorded step."""
        ...


@dataclass(frozen=True)
class Recording:
    """One recorded training.

    Attributes:
        seed: of the training.
        batches: rows of every step.
        settings: float64 [steps, parameter groups, 5]: lr, momentum, dampening, weight decay and nesterov of each step.
        first: number of the first step whose parameters are kept.
        parameters: before each step from `first` on, and after the last.
    """

    seed: int
    batches: list[Tensor]
    settings: np.ndarray
    first: int
    parameters: Parameters

    def before(self, step: int) -> Tensor:
        """Return the flat parameters before a step; the number of steps gives those of the trained model."""
        return self.parameters.at(step - self.first)


def record(
    recipe: TrainingRecipe,
    *,
    seed: int,
    folder: str | os.PathLike[str] | None,
    last_epochs: int | None,
    progress: bool | None = None,
) -> Recording:
    """Train and return what is needed to walk back; a folder that already holds this training is opened."""
    model = built(recipe, seed)
    settings = settings_of(recipe, model)
    batches = recipe.batches(seed)
    first = first_step(recipe, last_epochs)
    kept = len(batches) - first + 1
    size = flat(trained_parameters(recipe, model)[0]).numel()
    if folder is None:
        memory = torch.empty(kept, size, dtype=dtype_of(model))
        _run(recipe, seed, first, memory.__setitem__, progress)
        _check_finite(memory[-1])
        return Recording(seed, batches, settings, first, _InMemory(memory))
    identity = _identity(recipe, seed, model, settings, first)
    block = min(kept, max(1, _BLOCK_BYTES // max(1, size * dtype_of(model).itemsize)))
    spec = ArraySpec((kept, size), str(dtype_of(model)).removeprefix("torch."), (block, max(1, size)))
    with TileStore.open_for_writing(folder, identity=identity, arrays={"parameters": spec}) as store:
        if not store.complete:
            writing = _Blocks(store, spec)
            losses = _run(recipe, seed, first, writing.add, progress)
            _check_finite(writing.last)
            rows = torch.cat(batches).numpy()
            sizes = np.array([len(batch) for batch in batches])
            whole = {"rows": rows, "sizes": sizes, "settings": settings, "losses": losses.double().cpu().numpy()}
            store.finish({"kind": "recorded training"}, whole=whole)
    return reopen(recipe, folder)


def reopen(recipe: TrainingRecipe, folder: str | os.PathLike[str]) -> Recording:
    """Return the training in a folder; raise where it is unfinished, damaged, or of another recipe or other data."""
    stored = TileStore.open_for_reading(folder)
    name = repr(str(folder))
    if "initial parameters" not in stored.identity:
        raise BaselineError(f"{name} holds no recorded training. Give the folder= of SgdInfluence.train.")
    if not stored.complete:
        raise BaselineError(
            f"the training in {name} was cut off: {len(stored.done)} of {stored.tiles} blocks of steps are there. "
            "Run SgdInfluence.train with this folder again."
        )
    seed, first = int(stored.identity["seed"]), int(stored.identity["first step"])
    model = built(recipe, seed)
    settings = settings_of(recipe, model)
    given = _identity(recipe, seed, model, settings, first)
    different = [key for key in given if given[key] != stored.identity.get(key)]
    if different:
        raise StoreMismatchError(
            f"the training in {name} was recorded with another recipe or other data; these differ: "
            f"{', '.join(different)}. Give the recipe of that training, or record again in a new folder."
        )
    batches = list(torch.from_numpy(stored.read("rows")).split(stored.read("sizes").tolist()))
    parameters = _OnDisk(stored, sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()))
    found = Recording(seed, batches, stored.read("settings"), first, parameters)
    _check_losses(recipe, model, found, stored.read("losses"), name)
    return found


def _run(
    recipe: TrainingRecipe, seed: int, first: int, keep: Callable[[int, Tensor], None], progress: bool | None
) -> Tensor:
    """Train, hand over the parameters of each place, and return the losses of the first recorded batch."""
    untrained = built(recipe, seed)
    losses: list[Tensor] = []
    parameters: list[nn.Parameter] = []

    def on_step(step: Step) -> None:
        if step.number == 0:
            check_buffers(untrained, step.model)
            parameters.extend(trained_parameters(recipe, step.model)[0])
        if step.number == first:
            losses.append(_losses(recipe, step.model, step.batch, seed, first))
        if step.number >= first:
            keep(step.number - first, flat(parameters).cpu())
        bar.update()

    steps = len(recipe.batches(seed))
    with progress_bar(progress, unit="steps", total=steps) as bar:
        recipe.fit(seed=seed, on_step=on_step)
    keep(steps - first, flat(parameters).cpu())
    return losses[0]


def _losses(recipe: TrainingRecipe, model: nn.Module, rows: Tensor, seed: int, step: int) -> Tensor:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        seed_step(seed, step)
        return recipe.losses(model, rows)


def _check_losses(recipe: TrainingRecipe, model: nn.Module, found: Recording, losses: np.ndarray, name: str) -> None:
    """Compare losses with those of the training: functions have no checksum that holds between processes."""
    place(trained_parameters(recipe, model)[0], found.before(found.first))
    now = _losses(recipe, model, found.batches[found.first], found.seed, found.first).double().cpu().numpy()
    if now.shape != losses.shape or not np.allclose(now, losses, rtol=1e-3, atol=1e-5):
        raise StoreMismatchError(
            f"the training in {name} was recorded with another loss or model: its rows now have other losses "
            f"(mean {now.mean():.6g}, then {losses.mean():.6g}). Give the recipe of that training."
        )


def _check_finite(values: Tensor) -> None:
    if not bool(values.isfinite().all()):
        raise BaselineError("the training diverged: its last parameters are not finite. Lower the learning rate.")


def _identity(recipe: TrainingRecipe, seed: int, model: nn.Module, settings: np.ndarray, first: int) -> dict[str, Any]:
    return {
        "inputs": digest_of(recipe.inputs),
        "targets": digest_of(recipe.targets),
        "ids": None if recipe.ids is None else digest_of(recipe.ids),
        "epochs": recipe.epochs,
        "batch size": recipe.batch_size,
        "seed": seed,
        "first step": first,
        "initial parameters": weights_digest(model),
        "optimizer or schedule": digest_of(torch.from_numpy(settings)),
    }


class _InMemory:
    def __init__(self, values: Tensor) -> None:
        self._values = values
        self.nbytes = values.nbytes

    def at(self, place: int) -> Tensor:
        return self._values[place]


class _OnDisk:
    """Reads one block at a time: walking back reads every block once."""

    def __init__(self, stored: Any, nbytes: int) -> None:
        self._name = repr(str(stored.folder))
        self._array = stored.array("parameters")
        self._block = stored.arrays["parameters"].tile[0]
        self._held: tuple[int, Tensor] | None = None
        self.nbytes = nbytes

    def at(self, place: int) -> Tensor:
        number, within = divmod(place, self._block)
        if self._held is None or self._held[0] != number:
            self._held = None
            self._held = number, self._read(number)
        return self._held[1][within]

    def _read(self, number: int) -> Tensor:
        start = number * self._block
        try:
            values = torch.from_numpy(np.asarray(self._array[start : start + self._block]))
        except (ValueError, OSError) as error:
            raise StoreDamagedError(
                f"the steps from {start} on in {self._name} are damaged ({error}). Record again."
            ) from error
        # A file that is gone reads as NaN; parameters that were not finite would have spoilt all that follow.
        if not bool(values.isfinite().all()):
            raise StoreDamagedError(f"the steps from {start} on in {self._name} are missing. Record again.")
        return values


class _Blocks:
    """Collects rows of parameters and writes them block by block."""

    def __init__(self, store: TileStore, spec: ArraySpec) -> None:
        self._store, self._spec = store, spec
        self._rows: list[np.ndarray] = []
        self._next = 0
        self.last = torch.empty(0)

    def add(self, place: int, values: Tensor) -> None:
        self._rows.append(values.numpy())
        self.last = values
        if len(self._rows) == self._spec.tile[0] or place == self._spec.shape[0] - 1:
            self._store.write(self._next, {"parameters": np.stack(self._rows)})
            self._rows = []
            self._next += 1
