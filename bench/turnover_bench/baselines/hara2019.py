"""SGD-influence (Hara, Nitanda & Maehara 2019, "Data Cleansing for Models Trained with SGD").

Training is a chain of steps, so the derivative of a query's loss by the weight of a training row follows by walking the
chain back, with one Hessian-vector product per step; see `_walk_back.py`. A score is minus that derivative: to first
order the query's loss without the row minus its loss with it, the row's place in its batches staying empty.
"""

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from turnover.errors import StoreDamagedError, StoreError
from turnover.progress import progress_bar
from turnover.scores import Scores
from turnover.storage import ArraySpec, TileStore
from turnover.training import Step, TrainingRecipe, digest_of, seed_step, weights_digest
from turnover_bench.errors import BaselineError

from ._questions import Baseline, Cache, Question, Tile, check_unchanged
from .row_gradients import RowLosses, vector_products

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


@dataclass(frozen=True)
class _Factors:
    """A step as a linear map, one number per parameter: b' = keep·b + take·g, d = direct·g + through·b'."""

    lr: Tensor
    decay: Tensor
    keep: Tensor
    take: Tensor
    direct: Tensor
    through: Tensor


# From the end of a recorded training back to its beginning. With g the gradient of a batch's mean loss plus weight
# decay, a step of SGD with momentum m is
#
#     b' = m b + (1 - dampening) g            θ' = θ - lr d,   d = b'   (nesterov: g + m b'; no momentum: g)
#
# and with u, v the derivatives of a query's loss by θ' and b', walking back over it gives
#
#     V = v - lr [∂d/∂b'] u                   all that the query's loss feels of b'
#     G = (1 - dampening) V - lr [∂d/∂g] u    and of g
#     u ← u + H G + weight_decay G            v ← m V,   H the Hessian of the batch's mean loss
#     score of row i += -<G, g_i> / |batch|
#
# A row that is left out has weight 0 instead of 1, so its score is minus the derivative. Without momentum G = -lr u,
# and this is the algorithm of Hara et al. The divisor is that of the full batch: the place of a row stays empty.
def walk_back(
    recipe: TrainingRecipe,
    recording: Recording,
    starts: Tensor,
    *,
    first: int,
    on_step: Callable[[int], Any] = lambda queries: None,
) -> Tensor:
    """Return scores of all rows, float64 [rows, queries], by walking from the last step to the step `first`.

    It starts from the gradients of the queries' losses at the trained parameters, [queries, parameters].
    """
    model = build_checked(recipe, recording.seed)
    parameters, groups = trained_parameters(recipe, model)
    sizes = torch.tensor([parameter.numel() for parameter in parameters])
    group_of = torch.tensor(groups).repeat_interleave(sizes)
    scores = torch.zeros(len(recipe), len(starts), dtype=torch.float64)
    by_theta, by_velocity = starts, torch.zeros_like(starts)
    batched = True
    with torch.random.fork_rng(devices=[]), sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        for step in range(len(recording.batches) - 1, first - 1, -1):
            batch = recording.batches[step]
            place_parameters(parameters, recording.before(step))
            factors = _factors(recording.settings, step, group_of, starts)
            all_velocity = by_velocity - factors.lr * factors.through * by_theta
            by_gradient = factors.take * all_velocity - factors.lr * factors.direct * by_theta
            seed_step(recording.seed, step)
            losses = recipe.losses(model, batch)
            dots, curved, batched = _products(losses, parameters, by_gradient, batched)
            by_theta = by_theta + curved + factors.decay * by_gradient
            by_velocity = factors.keep * all_velocity
            scores.index_add_(0, batch, -dots.T.cpu().double() / len(batch))
            if not bool(by_theta.isfinite().all()):
                raise BaselineError(
                    f"walking back, the derivatives are no longer finite at step {step} of {len(recording.batches)}. "
                    "Lower the learning rate, or walk back fewer epochs: last_epochs=1."
                )
            on_step(len(starts))
    return scores


def query_gradients(recipe: TrainingRecipe, recording: Recording, queries: TrainingRecipe, rows: Tensor) -> Tensor:
    """Return gradients of the losses of some rows of `queries` at the trained parameters, [rows, parameters]."""
    model = build_checked(recipe, recording.seed).eval()
    parameters, _ = trained_parameters(recipe, model)
    place_parameters(parameters, recording.before(len(recording.batches)))
    changed = {id(parameter) for parameter in parameters}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in changed]
    return RowLosses(queries, model, names).stacked(rows)


def _products(
    losses: Tensor, parameters: list[nn.Parameter], vectors: Tensor, batched: bool
) -> tuple[Tensor, Tensor, bool]:
    """Return <vector, g_i> for the rows of a batch, the batch's Hessian times the vectors, and whether all at once.

    Both come from one backward pass: the gradient of Σ weight_i loss_i, times a vector, is linear in the weights, so
    its derivative by them are the products with each row's own gradient.
    """
    weights = torch.full_like(losses, 1 / len(losses)).requires_grad_()
    gradients = torch.autograd.grad(weights @ losses, parameters, create_graph=True, allow_unused=True)
    parts = vectors.split([parameter.numel() for parameter in parameters], 1)
    used = [
        (gradient, part.view(len(vectors), *gradient.shape))
        for gradient, part in zip(gradients, parts, strict=True)
        if gradient is not None
    ]
    (dots, *curved), batched = vector_products(
        [gradient for gradient, _ in used], [weights, *parameters], [part for _, part in used], batched=batched
    )
    return dots, torch.cat([part.flatten(1) for part in curved], 1), batched


def _factors(settings: np.ndarray, step: int, group_of: Tensor, like: Tensor) -> _Factors:
    """Return a step's factors for every parameter."""
    lr, momentum, dampening, decay, nesterov = settings[step].T
    moves = momentum != 0
    # torch's first velocity is the gradient itself, whatever the dampening.
    begins = moves & ~(settings[:step, :, 1] != 0).any(0)
    by_group = [
        lr,
        decay,
        np.where(moves, momentum, 1.0),
        np.where(moves, np.where(begins, 1.0, 1 - dampening), 0.0),
        np.where(moves, nesterov, 1.0),
        np.where(moves, np.where(nesterov != 0, momentum, 1.0), 0.0),
    ]
    values = [torch.as_tensor(value).to(like) for value in by_group]
    if len(lr) > 1:
        values = [value[group_of.to(value.device)] for value in values]
    return _Factors(*values)


_MOST_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 28


class SgdInfluence(Baseline):
    """Influence of training rows by walking back a recorded training; made by `train` or `open`.

    Exact to first order in the row's weight for SGD with weight decay, momentum, nesterov and any learning-rate
    schedule. It leaves out the second order, which grows with the learning rate and the number of steps walked, and
    what happens at kinks: the Hessian of a ReLU network lacks them, so that what a row did in early epochs is
    estimated badly there, and well with smooth units such as tanh. `mean` takes a single walk, `self_influence` as much
    as a query for each row.

    Attributes:
        recipe: how the model was trained.
        model: the trained model.
        seed: of the training.
        steps: how many steps are walked back.
        storage_bytes: what the recorded training takes, on disk or in memory.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2, batch_size=5)
        >>> influence = SgdInfluence.train(recipe, seed=1)
        >>> influence.steps
        8
        >>> influence.pairwise((x[:3], recipe.targets[:3])).shape
        (20, 3)
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        *,
        recording: Recording,
        at_once: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        if at_once is not None and at_once < 1:
            raise BaselineError(f"`at_once` must be an integer >= 1, or None to choose it by size, got {at_once}.")
        super().__init__(recipe, cache, identity)
        self.recipe = recipe
        self.model = build_checked(recipe, recording.seed).eval()
        self.seed = recording.seed
        self.storage_bytes = recording.parameters.nbytes
        self._recording = recording
        self._first = recording.first
        self._at_once = at_once
        self._data = recipe.data_digest()
        place_parameters(trained_parameters(recipe, self.model)[0], recording.before(len(recording.batches)))

    @classmethod
    def train(
        cls,
        recipe: TrainingRecipe,
        *,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        last_epochs: int | None = None,
        at_once: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> "SgdInfluence":
        """Return the influence of a training that is run and recorded now.

        Args:
            recipe: how to train; its optimizer must be torch.optim.SGD.
            seed: of the training.
            folder: where to record, new or empty; needs zarr: pip install 'turnover[store]'. A finished recording of
                the same recipe is opened instead, an interrupted one is made anew. None: in memory.
            last_epochs: record, and walk back, only so many epochs at the end, as in the paper; None: all.
            at_once: queries that share a walk; None: what 256 MB hold, at most 64.
            cache: a folder in which the scores of finished walks are kept, one sub-folder per question, and from which
                an interrupted run resumes.
            identity: what a recipe cannot tell by itself, such as the version of your loss; needed with `cache`.
            progress: show a bar of the training; None: on a terminal.

        Raises:
            BaselineError: the optimizer is not SGD, the model has batch normalization, or the training diverged.
            StoreError: the folder holds another training.

        Example:
            >>> import torch
            >>> from functools import partial
            >>> x = torch.randn(20, 3)
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
            >>> SgdInfluence.train(recipe, last_epochs=1).storage_bytes
            64
        """
        Cache.of(cache, identity)  # checked before the training
        recording = record(recipe, seed=seed, folder=folder, last_epochs=last_epochs, progress=progress)
        return cls(recipe, recording=recording, at_once=at_once, cache=cache, identity=identity)

    @classmethod
    def open(
        cls,
        recipe: TrainingRecipe,
        folder: str | os.PathLike[str],
        *,
        at_once: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> "SgdInfluence":
        """Return the influence of a training that `train` recorded in a folder, given the same recipe and options.

        Raises:
            BaselineError: the training was interrupted.
            StoreError: it was recorded with another recipe or other data; the message says what differs.
            StoreDamagedError: steps are missing.

        Example:
            >>> import tempfile, torch
            >>> from functools import partial
            >>> x, folder = torch.randn(20, 3), tempfile.mkdtemp()
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
            >>> trained = SgdInfluence.train(recipe, folder=folder)
            >>> SgdInfluence.open(recipe, folder).steps
            2
        """
        return cls(recipe, recording=reopen(recipe, folder), at_once=at_once, cache=cache, identity=identity)

    def last(self, epochs: int) -> "SgdInfluence":
        """Return the same training, walked back over its last epochs only.

        Example:
            >>> import torch
            >>> from functools import partial
            >>> x = torch.randn(20, 3)
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=5)
            >>> SgdInfluence.train(recipe).last(1).steps
            1
        """
        first = first_step(self.recipe, epochs)
        if first < self._recording.first:
            steps, recorded = (len(self._recording.batches) - start for start in (first, self._recording.first))
            raise BaselineError(
                f"last({epochs}) needs {steps} steps and {recorded} were recorded. "
                f"Record again with last_epochs={epochs} or more."
            )
        other = copy.copy(self)
        other._first = first
        return other

    @property
    def steps(self) -> int:
        """How many steps are walked back."""
        return len(self._recording.batches) - self._first

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question; queries that share a walk are a tile."""
        check_unchanged(self.recipe, self._data, "SgdInfluence.train(recipe)")
        lines, columns = question.shape
        spec = ArraySpec((lines, columns), "float32", (lines, min(self._queries_at_once(), columns)))
        values = np.empty(spec.shape, np.float32)

        def on_cached(tile: int) -> None:
            places = spec.region(tile)[1]
            bar.update((places.stop - places.start) * self.steps)

        def compute(tile: int) -> Tile:
            places = spec.region(tile)[1]
            starts = self._starts(question, torch.arange(places.start, places.stop))
            scores = walk_back(self.recipe, self._recording, starts, first=self._first, on_step=bar.update).numpy()
            if question.kind == "self":
                own = question.rows[places].numpy()
                return {"scores": scores[own, np.arange(len(own))][None].astype(np.float32)}
            return {"scores": scores[question.rows.numpy()].astype(np.float32)}

        with progress_bar(columns * self.steps, progress, "steps") as bar:
            tiles = self._cache.tiles(question, self._identity, {"scores": spec}, compute, on_cached=on_cached)
            for tile, arrays in enumerate(tiles):
                values[spec.region(tile)] = arrays["scores"]
        walked = f"{self.steps} of {len(self._recording.batches)} steps"
        path = f"SGD-influence (Hara et al. 2019) over {walked}"
        return question.scores(values, path=path, provenance=self._provenance())

    def _starts(self, question: Question, places: Tensor) -> Tensor:
        """Return the gradients from which some columns of a question are walked back."""
        if question.queries is None:
            return query_gradients(self.recipe, self._recording, self.recipe, question.rows[places])
        if question.kind == "pairs":
            return query_gradients(self.recipe, self._recording, question.queries, places)
        total = torch.zeros(())
        for rows in torch.arange(len(question.queries)).split(self._queries_at_once()):
            gradients = query_gradients(self.recipe, self._recording, question.queries, rows)
            total = total + gradients.sum(0) / len(question.queries)
        return total[None]

    def _queries_at_once(self) -> int:
        # Two derivatives a parameter, and as much again for each while a step is computed.
        size = 6 * self._recording.before(self._first).nbytes
        return self._at_once or max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(1, size)))

    def _identity(self) -> dict[str, Any]:
        return {
            "method": "hara2019",
            **self.recipe.description(),
            "trained": weights_digest(self.model),
            "seed": self.seed,
            "first step": self._first,
            "at_once": self._queries_at_once(),
        }

    def _provenance(self) -> dict[str, Any]:
        return {
            "method": "hara2019",
            "seed": self.seed,
            "steps": self.steps,
            "steps of the training": len(self._recording.batches),
            "epochs": self.recipe.epochs,
            "batch_size": self.recipe.batch_size,
            "rows": len(self.recipe),
            "storage_bytes": self.storage_bytes,
            "data": self._data,
        }
