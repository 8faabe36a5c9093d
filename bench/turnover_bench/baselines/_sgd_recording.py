"""A training by SGD that can be walked back: parameters before every step, batches and the optimizer's settings.

Parameters are kept flat, one row per step, in memory or in a folder. A folder is a store with an identity: it is
rejected for another recipe or other data, and a training that was interrupted does not count.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError, StoreDamagedError, StoreError
from turnover.progress import progress_bar
from turnover.storage import ArraySpec, TileStore
from turnover.training import Step, TrainingRecipe, digest_of, seed_step, weights_digest

_SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
_BLOCK_BYTES = 1 << 24


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
    parameters: "Tensor | _OnDisk"

    def before(self, step: int) -> Tensor:
        """Return the flat parameters before a step; the number of steps gives those of the trained model."""
        return self.parameters[step - self.first]


def record(
    recipe: TrainingRecipe,
    *,
    seed: int,
    folder: str | os.PathLike[str] | None,
    last_epochs: int | None,
    progress: bool | None = None,
) -> Recording:
    """Train and return what is needed to walk back; a folder that already holds this training is opened."""
    model = build_checked(recipe, seed)
    settings = _settings_of(recipe, model)
    batches = recipe.batches(seed)
    first = first_step(recipe, last_epochs)
    kept = len(batches) - first + 1
    size = _flat(trained_parameters(recipe, model)[0]).numel()
    if folder is None:
        memory = torch.empty(kept, size, dtype=_dtype_of(model))
        _run(recipe, seed, first, memory.__setitem__, progress)
        _check_finite(memory[-1])
        return Recording(seed, batches, settings, first, memory)
    identity = _identity(recipe, seed, model, settings, first)
    block = min(kept, max(1, _BLOCK_BYTES // max(1, size * _dtype_of(model).itemsize)))
    spec = ArraySpec((kept, size), str(_dtype_of(model)).removeprefix("torch."), (block, max(1, size)))
    with TileStore.open_for_writing(folder, identity=identity, arrays={"parameters": spec}) as store:
        if not store.complete:
            writing = _Blocks(store, spec)
            losses = _run(recipe, seed, first, writing.add, progress)
            _check_finite(writing.last)
            rows = torch.cat(batches).numpy()
            sizes = np.array([len(batch) for batch in batches])
            whole = {"rows": rows, "sizes": sizes, "settings": settings, "losses": losses.cpu().double().numpy()}
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
            f"the training in {name} was interrupted: {len(stored.done)} of {stored.tiles} blocks of steps are there. "
            "Run SgdInfluence.train with this folder again."
        )
    seed, first = int(stored.identity["seed"]), int(stored.identity["first step"])
    model = build_checked(recipe, seed)
    settings = _settings_of(recipe, model)
    identity = _identity(recipe, seed, model, settings, first)
    different = [key for key in identity if identity[key] != stored.identity.get(key)]
    if different:
        raise StoreError(
            f"the training in {name} was recorded with another recipe or other data; these differ: "
            f"{', '.join(different)}. Give the recipe of that training, or record again in a new folder."
        )
    batches = list(torch.from_numpy(stored.read("rows")).split(stored.read("sizes").tolist()))
    parameters = _OnDisk(stored, sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()))
    recording = Recording(seed, batches, stored.read("settings"), first, parameters)
    _check_losses(recipe, model, recording, stored.read("losses"), name)
    return recording


def build_checked(recipe: TrainingRecipe, seed: int) -> nn.Module:
    """Return the untrained model of a seed; raise for one that cannot be walked back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = recipe.build().train()
    names = [name for name, module in model.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if names:
        raise BaselineError(
            f"{', '.join(map(repr, names))}: batch normalization makes the loss of a row depend on the other rows of "
            "its batch, so no row has a gradient of its own. Use GroupNorm or LayerNorm."
        )
    if _dtype_of(model) not in (torch.float32, torch.float64):
        raise BaselineError(f"parameters are {_dtype_of(model)}; SGD-influence needs float32 or float64.")
    return model


def trained_parameters(recipe: TrainingRecipe, model: nn.Module) -> tuple[list[nn.Parameter], list[int]]:
    """Return the parameters that the optimizer changes, and the group of each; raise for all but SGD."""
    optimizer = _sgd(recipe, model)
    groups = {
        id(parameter): place for place, group in enumerate(optimizer.param_groups) for parameter in group["params"]
    }
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad and id(parameter) in groups]
    if not chosen:
        raise BaselineError("the optimizer changes no parameter of the model: there is nothing to walk back.")
    return chosen, [groups[id(parameter)] for parameter in chosen]


def _settings_of(recipe: TrainingRecipe, model: nn.Module) -> np.ndarray:
    """Return the optimizer's settings before every step, by running optimizer and schedule without gradients."""
    optimizer = _sgd(recipe, model)
    schedule = None if recipe.schedule is None else recipe.schedule(optimizer)
    settings = []
    for _ in range(recipe.epochs * -(-len(recipe) // recipe.batch_size)):
        settings.append([[float(group[name]) for name in _SETTINGS] for group in optimizer.param_groups])
        if schedule is not None:
            optimizer.step()
            schedule.step()
    return np.array(settings)


def first_step(recipe: TrainingRecipe, last_epochs: int | None) -> int:
    """Return the number of the step with which the last epochs begin; None: all epochs."""
    if last_epochs is None:
        return 0
    if isinstance(last_epochs, bool) or not isinstance(last_epochs, int) or not 1 <= last_epochs <= recipe.epochs:
        raise BaselineError(
            f"`last_epochs` must be an integer from 1 to {recipe.epochs}, the epochs of the recipe, got "
            f"{last_epochs!r}."
        )
    return (recipe.epochs - last_epochs) * -(-len(recipe) // recipe.batch_size)


def _flat(parameters: list[nn.Parameter]) -> Tensor:
    """Return parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def place_parameters(parameters: list[nn.Parameter], values: Tensor) -> None:
    """Set parameters to a vector of `flat`."""
    with torch.no_grad():
        for parameter, part in zip(parameters, values.split([p.numel() for p in parameters]), strict=True):
            parameter.copy_(part.view_as(parameter))


def _check_buffers(untrained: nn.Module, model: nn.Module) -> None:
    """Raise for a model whose buffers are not what they were before training."""
    before = dict(untrained.named_buffers())
    changed = [name for name, buffer in model.named_buffers() if not torch.equal(buffer, before[name])]
    if changed:
        raise BaselineError(
            f"training changes the buffers {', '.join(map(repr, changed))}, which no gradient describes. "
            "Use layers without running statistics."
        )


def _sgd(recipe: TrainingRecipe, model: nn.Module) -> torch.optim.SGD:
    optimizer = recipe.optimizer(model.parameters())
    if type(optimizer) is not torch.optim.SGD:
        raise BaselineError(
            f"the recipe's optimizer is {type(optimizer).__name__}; SGD-influence walks back the steps of "
            "torch.optim.SGD only (momentum, nesterov and weight decay are fine). Train with "
            "optimizer=partial(torch.optim.SGD, lr=...), or use another method."
        )
    if any(group["maximize"] for group in optimizer.param_groups):
        raise BaselineError("the optimizer has maximize=True; SGD-influence needs a loss that is minimized.")
    return optimizer


def _dtype_of(model: nn.Module) -> torch.dtype:
    """Return the one dtype of all parameters that are trained."""
    dtypes = {parameter.dtype for parameter in model.parameters() if parameter.requires_grad}
    if len(dtypes) > 1:
        raise BaselineError(f"parameters have several dtypes: {', '.join(sorted(map(str, dtypes)))}. Use one.")
    return next(iter(dtypes), torch.float32)


def _run(
    recipe: TrainingRecipe, seed: int, first: int, keep: Callable[[int, Tensor], None], progress: bool | None
) -> Tensor:
    """Train, hand over the parameters of each place, and return the losses of the first recorded batch."""
    untrained = build_checked(recipe, seed)
    losses: list[Tensor] = []
    parameters: list[nn.Parameter] = []

    def on_step(step: Step) -> None:
        if step.number == 0:
            _check_buffers(untrained, step.model)
            parameters.extend(trained_parameters(recipe, step.model)[0])
        if step.number == first:
            losses.append(_losses(recipe, step.model, step.batch, seed, first))
        if step.number >= first:
            keep(step.number - first, _flat(parameters).cpu())
        bar.update()

    steps = len(recipe.batches(seed))
    with progress_bar(steps, progress, "steps") as bar:
        recipe.fit(seed=seed, on_step=on_step)
    keep(steps - first, _flat(parameters).cpu())
    return losses[0]


def _losses(recipe: TrainingRecipe, model: nn.Module, rows: Tensor, seed: int, step: int) -> Tensor:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        seed_step(seed, step)
        return recipe.losses(model, rows)


def _check_losses(
    recipe: TrainingRecipe, model: nn.Module, recording: Recording, recorded: np.ndarray, name: str
) -> None:
    """Compare losses with those of the training: functions have no checksum that holds between processes."""
    first = recording.first
    place_parameters(trained_parameters(recipe, model)[0], recording.before(first))
    losses = _losses(recipe, model, recording.batches[first], recording.seed, first).cpu().double().numpy()
    if losses.shape != recorded.shape or not np.allclose(losses, recorded, rtol=1e-3, atol=1e-5):
        raise StoreError(
            f"the training in {name} was recorded with another loss or model: its rows now have other losses "
            f"(mean {losses.mean():.6g}, then {recorded.mean():.6g}). Give the recipe of that training."
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


class _OnDisk:
    """Parameters of the recorded steps, read one block at a time: walking back reads every block once."""

    def __init__(self, stored: Any, nbytes: int) -> None:
        self._name = repr(str(stored.folder))
        self._array = stored.array("parameters")
        self._block = stored.arrays["parameters"].tile[0]
        self._held: tuple[int, Tensor] | None = None
        self.nbytes = nbytes

    def __getitem__(self, place: int) -> Tensor:
        number, within = divmod(place, self._block)
        if self._held is None or self._held[0] != number:
            self._held = None
            self._held = number, self._read(number)
        return self._held[1][within]

    def _read(self, number: int) -> Tensor:
        start = number * self._block
        try:
            return torch.from_numpy(np.asarray(self._array[start : start + self._block]))
        except (ValueError, OSError) as error:
            raise StoreDamagedError(
                f"the steps from {start} on in {self._name} are damaged ({error}). Record again."
            ) from error


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
