"""`Curvature`: influence functions with K-FAC curvature of all layers, on calibrated outputs, over all members."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from turnover.batches import Batch
from turnover.errors import CurvatureWarning, InfluenceError
from turnover.influence._data import TrainRows
from turnover.influence.blocks import Tile
from turnover.influence.execution import Executor
from turnover.influence.paths import Forward
from turnover.layers import map_tensors

from ._calibration import TEMPERATURES, Objectives, best_temperature, losses_by_temperature
from ._gradients import LayerRun, Network
from ._kronecker import LayerCurvature, LayerInverse, LayerQueries, LayerSums

_MOST_ROWS, _FEWEST_ROWS = 256, 8  # more rows take more memory and save no time
_MOST_QUERIES = 512
_EXAMPLE_ROWS = 2
_COVERED_ENOUGH = 0.9
_SHOWN = 4


@dataclass(frozen=True)
class Curvature:
    """Influence functions: gradients of training rows times the inverse curvature times the gradient of a query.

    The curvature of every layer is K-FAC's approximation of the Fisher matrix, in the full view of every member; each
    member's scores are divided, query by query, by the root mean square that the curvature expects, and averaged. No
    masks are needed: it serves models that were never wrapped, and lists of them.

    Attributes:
        temperature: divides outputs of classifiers; None: found on the training rows, for every member.
        damping: what is added to the eigenvalues of each layer's curvature, in units of their mean.
        mean_damping: for means over queries, scores at this damping count as much as those at `damping`; None: means
            are those of single scores. What many queries have in common lies in the directions of large eigenvalues,
            which a weak damping takes out.
        seed: of the labels that are drawn for the curvature.

    Example:
        >>> Curvature(damping=1.0).name
        'curvature'
    """

    temperature: float | None = None
    damping: float = 5.0
    mean_damping: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what no option can be."""
        for name in ("temperature", "damping", "mean_damping"):
            value = getattr(self, name)
            if value is None and name != "damping":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise InfluenceError(f"Curvature({name}=) must be a number > 0, got {value!r}.")
        if type(self.seed) is not int or self.seed < 0:
            raise InfluenceError(f"Curvature(seed=) must be an integer >= 0, got {self.seed!r}.")

    @property
    def name(self) -> str:
        """Return what `Scores.method` says."""
        return "curvature"

    needs_train = True
    needs_masks = False

    def as_data(self) -> dict[str, Any]:
        """Return the options as JSON data."""
        return {"estimator": {"name": self.name, **asdict(self)}}

    def fit(self, forwards: Sequence[Forward], train: Any, memory: int) -> "CurvatureFit":
        """Return the curvature of every member, from two passes over the training rows."""
        return CurvatureFit(forwards, train, self, memory)


_AtLayers = dict[str, LayerQueries]
"""Some queries at every layer, by its path."""


@dataclass(frozen=True)
class _Member:
    """One network with the inverse curvature of its layers."""

    network: Network
    objectives: Objectives
    inverses: dict[str, LayerInverse]
    mean_inverses: dict[str, LayerInverse]  # at `mean_damping`; empty: there is none

    def gradients(self, batch: Batch) -> dict[str, LayerRun]:
        """Return what every layer saw of training rows, where they have a gradient."""
        runs = self.network.gradients(batch.to(self.network.forward.member.device), self.objectives.rows)
        return {name: run.with_gradient() for name, run in runs.items()}

    def applied(self, queries: Sequence[Batch], *inverses: dict[str, LayerInverse]) -> Iterator[_AtLayers]:
        """Yield queries by layer, a batch at a time, divided by the root mean square that the curvature expects.

        With several inverses, each batch comes as often, by one after the other.
        """
        device = self.network.forward.member.device
        for batch in batched(queries):
            runs = self.network.gradients(batch.to(device), self.objectives.queries)
            kept = {name: run.with_gradient() for name, run in runs.items()}
            for by_layer in inverses:
                applied = {name: by_layer[name].applied(run) for name, run in kept.items() if name in by_layer}
                squares = torch.stack([part.squares for part in applied.values()]).sum(0)
                factors = torch.where(squares > 0, squares.clamp(min=torch.finfo(torch.float32).tiny).rsqrt(), 0.0)
                yield {name: part.scaled(factors) for name, part in applied.items()}


class CurvatureFit:
    """What all questions share: the curvature of every member and how many rows each instance has."""

    standardized = True
    keeps_null = False
    has_errors = False
    pairs_first = 0

    def __init__(self, forwards: Sequence[Forward], train: TrainRows, options: Curvature, memory: int) -> None:
        """Read the training rows twice: for temperatures, then for the curvature."""
        self.options, self._train, self._memory = options, train, memory
        example = self._example()
        networks = [Network(forward, example.part(0, _EXAMPLE_ROWS).to(forward.member.device)) for forward in forwards]
        self._rows_at_once = self._rows_that_fit(networks[0], example)
        temperatures = self._calibrate(networks)
        objectives = [
            Objectives(network.forward.measure, value) for network, value in zip(networks, temperatures, strict=True)
        ]
        self._warn_of_uncovered(networks[0], example, objectives[0])
        self._members = [
            _Member(network, objective, *self._inverses(layers))
            for network, objective, layers in zip(
                networks, objectives, self._factorize(networks, objectives), strict=True
            )
        ]
        self.temperatures = temperatures

    def places(self, ids: Tensor) -> np.ndarray:
        """Return the place of each instance among all."""
        return self._train.positions(ids)

    def errors_of_mean(self, ids: Tensor, noise: np.ndarray) -> None:
        """Return None: only replicas tell."""

    @property
    def queries_per_block(self) -> int:
        """Return how many queries, with the inverse applied, fit into the memory."""
        per_query = 4 * sum(
            inverse.size if inverse.terms is None else sum(part.numel() for part in inverse.terms)
            for member in self._members
            for inverse in member.inverses.values()
        )
        return int(np.clip(2 * self._memory // max(per_query, 1), 1, _MOST_QUERIES))

    @property
    def result(self) -> str:
        """Return what scores say of how they were made."""
        layers = len(self._members[0].inverses)
        warmth = sorted(self.temperatures)
        span = f"{warmth[0]:.2g}" if warmth[0] == warmth[-1] else f"{warmth[0]:.2g} to {warmth[-1]:.2g}"
        share = "" if self.covered > 0.995 else f" ({self.covered:.0%} of the squared gradient)"
        return (
            f"influence functions, K-FAC curvature of {layers} layer{'s' if layers != 1 else ''}{share}, full view, "
            f"temperature {span}"
        )

    def question(self, nulls: int) -> "CurvatureFit":
        """Return itself: nothing is kept of a single question."""
        return self

    def block(
        self, start: int, raw: Any, queries: Sequence[Batch], executor: Executor, add: Callable[[int], None]
    ) -> "_Block":
        """Return a block of queries, ready to score the training rows."""
        return _Block(self, [list(member.applied(queries, member.inverses)) for member in self._members], len(queries))

    def mean_block(self, queries: Sequence[Batch]) -> "_Block":
        """Return a block with one column, the mean over all queries: scores are linear in them."""
        sums: list[_AtLayers] = [{} for _ in self._members]
        for member, whole in zip(self._members, sums, strict=True):
            for by_layer in member.applied(queries, *filter(None, (member.inverses, member.mean_inverses))):
                for name, part in by_layer.items():
                    added = part.summed(member.inverses[name].tokens)
                    whole[name] = added if name not in whole else whole[name].plus(added)
        dampings = 1 if self.options.mean_damping is None else 2
        factor = torch.tensor([1 / (dampings * len(queries))], device=self._members[0].network.forward.member.device)
        return _Block(self, [[{name: part.scaled(factor) for name, part in whole.items()}] for whole in sums], 1)

    # Reading the training rows

    def _example(self) -> Batch:
        first = next(iter(self._train.batches(_FEWEST_ROWS)), None)
        if first is None:
            raise InfluenceError(
                "curvature needs the training rows, but train is empty, or can be read only once. Give train= a data "
                "set."
            )
        if first.target is None:
            raise InfluenceError(
                "curvature needs the labels of the training rows. Give train= a data set with (x, y), or dicts with "
                "'labels'."
            )
        return first

    def _rows_that_fit(self, network: Network, example: Batch) -> int:
        device = network.forward.member.device
        rows = min(example.rows, _EXAMPLE_ROWS)
        runs = network.gradients(example.part(0, rows).to(device), Objectives(network.forward.measure).rows)
        per_row = 4 * sum(run.inputs.numel() + 2 * run.gradient.numel() for run in runs.values()) / rows
        # What lies between the layers is kept for the gradient, too: about as much again, and twice for a moment.
        return int(np.clip(self._memory // (4 * per_row), _FEWEST_ROWS, _MOST_ROWS))

    def _batches(self) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yield the training rows with the place of each among the instances."""
        for batch in self._train.batches(self._rows_at_once):
            whole = batch.rows <= self._rows_at_once or not batch.can_be_split
            for start in range(0, batch.rows, batch.rows if whole else self._rows_at_once):
                part = batch if whole else batch.part(start, start + self._rows_at_once)
                yield part, self._train.places(part)

    def _calibrate(self, networks: Sequence[Network]) -> list[float]:
        """Return the temperature of every network, and count the rows of every instance."""
        self.rows_of = np.zeros(len(self._train.ids), np.int64)
        losses: list[Any] = [0.0] * len(networks)
        classes = 0
        for batch, places in self._batches():
            np.add.at(self.rows_of, places, 1)
            if self.options.temperature is not None:
                continue
            for number, network in enumerate(networks):
                moved = batch.to(network.forward.member.device)
                outputs = network.outputs(moved)
                classes = outputs.shape[-1]
                by_temperature = losses_by_temperature(outputs, moved.target)
                losses[number] = None if by_temperature is None else losses[number] + by_temperature.double()
                if by_temperature is None:
                    break
        self._train.check_complete(self.rows_of)
        if self.options.temperature is not None:
            return [float(self.options.temperature)] * len(networks)
        if any(part is None or not isinstance(part, Tensor) for part in losses):
            return [1.0] * len(networks)
        found = [best_temperature(part, classes) for part in losses]
        if any(value is None for value in found):
            warnings.warn(
                CurvatureWarning(
                    "outputs cannot be calibrated: the best temperature on the training rows lies outside "
                    f"{float(TEMPERATURES[0]):g} to {float(TEMPERATURES[-1]):g}, and 1 is used. A model that "
                    "predicts its training rows no better than chance was hardly trained; outputs of another scale "
                    "than logits need estimator=turnover.influence.Curvature(temperature=...)."
                ),
                stacklevel=7,
            )
        return [1.0 if value is None else value for value in found]

    def _inverses(self, layers: dict[str, LayerCurvature]) -> tuple[dict[str, LayerInverse], dict[str, LayerInverse]]:
        options = self.options
        return (
            {name: layer.inverse(options.damping) for name, layer in layers.items()},
            {}
            if options.mean_damping is None
            else {name: layer.inverse(options.mean_damping) for name, layer in layers.items()},
        )

    def _factorize(
        self, networks: Sequence[Network], objectives: Sequence[Objectives]
    ) -> list[dict[str, LayerCurvature]]:
        sums: list[dict[str, LayerSums]] = [{} for _ in networks]
        generators = [torch.Generator().manual_seed(self.options.seed + number) for number in range(len(networks))]
        for batch, _ in self._batches():
            for network, objective, generator, kept in zip(networks, objectives, generators, sums, strict=True):

                def drawn(outputs: Tensor, targets: Any, how: Any = objective, random: Any = generator) -> Tensor:
                    return how.drawn(outputs, targets, random)

                for name, run in network.gradients(batch.to(network.forward.member.device), drawn).items():
                    if name not in kept:
                        kept[name] = LayerSums(_vocabulary(network.layers[name]))
                    kept[name].add(run)
        first = {name: part.curvature(name) for name, part in sums[0].items()}
        others = [
            {
                name: part.curvature(name, (sums[0][name], first[name]) if name in first else None)
                for name, part in kept.items()
            }
            for kept in sums[1:]
        ]
        return [first, *others]

    def _warn_of_uncovered(self, network: Network, example: Batch, objectives: Objectives) -> None:
        moved = example.to(network.forward.member.device)
        self.covered, self.uncovered = network.covered_share(moved, objectives.rows)
        if self.covered >= _COVERED_ENOUGH:
            return
        ordered = sorted(self.uncovered.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} ({share:.0%})" for name, share in ordered[:_SHOWN])
        more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
        warnings.warn(
            CurvatureWarning(
                f"curvature covers {self.covered:.0%} of the squared gradient: not that of {listed}{more}. Covered are "
                "Linear, Conv1d, Conv2d and Embedding layers that are called as modules."
            ),
            stacklevel=7,
        )

    def stream(self, places: np.ndarray) -> Iterator[tuple[np.ndarray, list[dict[str, LayerRun]]]]:
        """Yield the gradients of training rows at every layer, for every member, of those at the given places only."""
        chosen = np.zeros(len(self.rows_of), bool)
        chosen[places] = True
        for batch, at in self._batches():
            inside = chosen[at]
            if not inside.any():
                continue
            if not inside.all() and batch.can_be_split:
                batch, at = _rows_of(batch, inside), at[inside]
            yield at, [member.gradients(batch) for member in self._members]


class _Block:
    """Queries with the inverse curvature applied, ready to score training rows."""

    member_nulls = None

    def __init__(self, fit: CurvatureFit, members: Sequence[Sequence[_AtLayers]], columns: int) -> None:
        """Keep the queries of every member at every layer, a batch after the other."""
        self._fit, self._queries, self._columns = fit, members, columns
        self.offset = np.zeros(columns, np.float32)

    def mean_noise(self) -> None:
        """Return None: there are no null ids."""

    def tiles(self, parts: Sequence[Tensor], executor: Executor) -> Iterator[Tile]:
        """Yield the scores of each part of the instances, in their order, from one pass over the training rows."""
        waiting = [_Waiting(self._fit, ids, len(self._queries), self._columns) for ids in parts]
        places = np.unique(np.concatenate([tile.places for tile in waiting]))
        done = 0
        for at, members in self._fit.stream(places):
            scores = np.stack(
                [self._scores(runs, queries) for runs, queries in zip(members, self._queries, strict=True)]
            )
            for tile in waiting[done:]:
                tile.add(at, scores)
            while done < len(waiting) and waiting[done].missing == 0:
                yield waiting[done].tile()
                done += 1
        if done < len(parts):
            raise InfluenceError(
                f"train showed fewer rows than when it was read before: {len(parts) - done} parts of the scores lack "
                "rows. Give data that can be read again and again, such as a Dataset."
            )

    def _scores(self, runs: dict[str, LayerRun], queries: Sequence[_AtLayers]) -> np.ndarray:
        columns = [
            torch.stack([part.scores(runs[name]) for name, part in by_layer.items() if name in runs]).sum(0)
            for by_layer in queries
        ]
        return torch.cat(columns, 1).cpu().numpy()


class _Waiting:
    """A tile whose rows are being added up."""

    def __init__(self, fit: CurvatureFit, ids: Tensor, members: int, columns: int) -> None:
        self._places = fit.places(ids)
        self.places, self._back = np.unique(self._places, return_inverse=True)
        self.missing = int(fit.rows_of[self.places].sum())
        self._shape = (members, len(self.places), columns)
        self._sums: np.ndarray | None = None

    def add(self, at: np.ndarray, scores: np.ndarray) -> None:
        """Add the scores [members, rows, queries] of rows at their places, as far as they belong here."""
        spot = np.minimum(np.searchsorted(self.places, at), len(self.places) - 1)
        mine = self.places[spot] == at
        if not mine.any():
            return
        if self._sums is None:
            self._sums = np.zeros(self._shape, np.float32)
        spot = spot[mine]
        if len(np.unique(spot)) == len(spot):
            self._sums[:, spot] += scores[:, mine]
        else:  # rows of one instance meet: they add up, which plain indexing would not do
            np.add.at(self._sums.transpose(1, 0, 2), spot, scores[:, mine].transpose(1, 0, 2))
        self.missing -= int(mine.sum())

    def tile(self) -> Tile:
        """Return the finished tile, and keep nothing."""
        sums, self._sums = self._sums, None
        assert sums is not None
        return Tile(sums[:, self._back.reshape(-1)])


def _vocabulary(module: nn.Module) -> int | None:
    return module.num_embeddings if isinstance(module, nn.Embedding) else None


def _rows_of(batch: Batch, inside: np.ndarray) -> Batch:
    """Return some rows of a batch, all of whose tensors have rows."""
    chosen = torch.from_numpy(np.flatnonzero(inside))

    def cut(tensor: Tensor) -> Tensor:
        return tensor[chosen.to(tensor.device)] if tensor.dim() else tensor

    args, kwargs, target, ids = map_tensors((batch.args, batch.kwargs, batch.target, batch.ids), cut)
    return Batch(args, kwargs, target, ids, len(chosen))


_QUERIES_AT_ONCE = 64


def batched(queries: Sequence[Batch]) -> Iterator[Batch]:
    """Yield single queries as larger batches, in their order, neighbors of the same shape together."""
    waiting: list[Batch] = []
    form: Any = None
    for query in queries:
        leaves, structure = tree_flatten((query.args, query.kwargs, query.target))
        whole = query.can_be_split and all(isinstance(leaf, Tensor) for leaf in leaves)
        shape = (structure, [leaf.shape for leaf in leaves]) if whole else None
        if waiting and (shape is None or shape != form or len(waiting) == _QUERIES_AT_ONCE):
            yield _together(waiting)
            waiting = []
        waiting.append(query)
        form = shape
    if waiting:
        yield _together(waiting)


def _together(queries: Sequence[Batch]) -> Batch:
    if len(queries) == 1:
        return queries[0]
    parts = [tree_flatten((query.args, query.kwargs, query.target)) for query in queries]
    leaves = [torch.cat(tensors) for tensors in zip(*(part[0] for part in parts), strict=True)]
    args, kwargs, target = tree_unflatten(leaves, parts[0][1])
    return Batch(args, kwargs, target, None, len(queries))
