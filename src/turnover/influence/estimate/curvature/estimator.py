"""`Curvature`: influence functions with K-FAC curvature of all layers, on calibrated outputs, over all members."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from turnover.batches import IGNORED, Batch
from turnover.errors import InfluenceError, TurnOverWarning
from turnover.influence._data import TrainRows
from turnover.influence.execution import Executor, LocalExecutor
from turnover.influence.paths import Forward
from turnover.layers import map_tensors
from turnover.storage import KeptArrays

from ._blocks import Block, Instances
from ._calibration import TEMPERATURES, FisherPart, Objectives, best_temperature
from ._gradients import Network
from ._kept_rows import MOST_BYTES, SHARE_OF_ROOM, KeptRows
from ._kronecker import LayerCurvature
from ._members import FittedMember
from ._passes import Calibration, Factors, Reader, Rows, joined, row_scores

_MOST_ROWS, _FEWEST_ROWS = 256, 8  # more rows take more memory and save no time
_MOST_QUERIES = 512
_FEW_QUERIES = 64  # of a block: with more, their products take far longer than the network's passes over the rows
_ROWS_PER_SEGMENT = 4096  # of what is added up: sums are made by segment, whoever makes them
_EXAMPLE_ROWS = 2
_ENOUGH_MEMBERS = 4  # for one backward pass each: fewer make two, of the Fisher matrix in two parts
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
        seed: of the random signs with which the curvature is estimated.

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
    keeps_fit = True

    def as_data(self) -> dict[str, Any]:
        """Return the options as JSON data."""
        return {"estimator": {"name": self.name, **asdict(self)}}

    def fit(
        self,
        forwards: Sequence[Forward],
        train: Any,
        memory: int,
        kept: Mapping[str, np.ndarray] | None = None,
        executor: Executor | None = None,
    ) -> "CurvatureFit":
        """Return the curvature of every member, from two passes over the training rows; or as it was `kept`."""
        return CurvatureFit(forwards, train, self, memory, kept, executor or LocalExecutor())


class CurvatureFit:
    """What all questions share: the curvature of every member and how many rows each instance has."""

    standardized = True
    keeps_null = False

    def __init__(
        self,
        forwards: Sequence[Forward],
        train: TrainRows,
        options: Curvature,
        memory: int,
        kept: Mapping[str, np.ndarray] | None,
        executor: Executor,
    ) -> None:
        """Read the training rows twice, for temperatures, then for the curvature, unless that was kept."""
        self.options, self._train, self._memory = options, train, memory
        self._kept_rows: KeptRows | None = None
        example = self._example()
        networks = [Network(forward, example.part(0, _EXAMPLE_ROWS).to(forward.member.device)) for forward in forwards]
        self._rows_at_once = self._rows_that_fit(networks[0], example)
        if kept is None:
            self.temperatures, self._rows_of = self._calibrate(networks, executor)
        else:
            self.temperatures, self._rows_of = kept["temperatures"].tolist(), kept["rows"]
        objectives = [
            Objectives(network.forward.measure, value)
            for network, value in zip(networks, self.temperatures, strict=True)
        ]
        self._warn_of_uncovered(networks[0], example, objectives[0])
        if kept is None:
            layers = self._factorize(networks, objectives, executor)
        else:
            layers = [_kept_layers(kept, number, network) for number, network in enumerate(networks)]
        self._members = [
            FittedMember(*parts, options.damping, options.mean_damping)
            for parts in zip(networks, objectives, layers, strict=True)
        ]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what was fitted, for a later run; inputs that the first member saw, too, are not repeated."""
        arrays = {"temperatures": np.array(self.temperatures), "rows": self._rows_of}
        first = self._members[0].layers
        for number, member in enumerate(self._members):
            for name, layer in member.layers.items():
                parts = {"sigma": layer.sigma, "left": layer.left}
                if number == 0 or layer.alpha is not first[name].alpha:
                    parts |= {"alpha": layer.alpha} | ({} if layer.right is None else {"right": layer.right})
                arrays |= {f"{number}/{name}/{part}": value.cpu().numpy() for part, value in parts.items()}
        return arrays

    def with_rows(self, kept: KeptArrays, *, writes: bool) -> Self:
        """Return the same with the gradients of rows kept beside the fit, where that saves time and there is room.

        Args:
            kept: where the fit is kept.
            writes: whether gradients that are not there yet are written; else they are computed as ever.
        """
        train, at_once = self._train, self._rows_at_once
        per_row = 4 * self._values_per_row * len(self._members)
        most = min(MOST_BYTES, np.inf if kept.room is None else SHARE_OF_ROOM * kept.room)
        fit_in = at_once * per_row <= self._memory and (train.length or np.inf) * per_row <= most
        pays = self.queries_per_block <= _FEW_QUERIES and fit_in
        if not train.can_be_cut(at_once) or (writes and not pays):
            return self
        with_rows = copy(self)
        devices = tuple(member.device for member in self._members)
        with_rows._kept_rows = KeptRows(kept, at_once, devices, writes)
        return with_rows

    def remove_rows(self) -> None:
        """Remove the gradients of rows that were kept: all blocks that needed them are done."""
        if self._kept_rows is not None:
            self._kept_rows.remove(self._train.length or 0)

    @property
    def queries_per_block(self) -> int:
        """Return how many queries, with the inverse applied, fit into the memory."""
        per_query = 4 * sum(
            inverse.values_per_query for member in self._members for inverse in member.inverses.values()
        )
        return int(np.clip(2 * self._memory // max(per_query, 1), 1, _MOST_QUERIES))

    @property
    def result(self) -> str:
        """Return what scores say of how they were made."""
        layers = len(self._members[0].layers)
        warmth = sorted(self.temperatures)
        span = f"{warmth[0]:.2g}" if warmth[0] == warmth[-1] else f"{warmth[0]:.2g} to {warmth[-1]:.2g}"
        share = "" if self.covered > 0.995 else f" ({self.covered:.0%} of the squared gradient: {self._not_covered})"
        return (
            f"influence functions, K-FAC curvature of {layers} layer{'s' if layers != 1 else ''}{share}, full view, "
            f"temperature {span}"
        )

    def block(
        self, start: int, raw: Any, queries: Sequence[Batch], executor: Executor, add: Callable[[int], None]
    ) -> Block:
        """Return a block of queries, ready to score the training rows."""
        return Block(self._instances, [member.applied(queries) for member in self._members], len(queries))

    def mean_block(self, queries: Sequence[Batch]) -> Block:
        """Return a block with one column, the mean over all queries: scores are linear in them."""
        return Block(self._instances, [[member.applied_to_mean(queries)] for member in self._members], 1)

    def own_scores(self, rows: TrainRows, add: Callable[[int], Any]) -> tuple[np.ndarray, Tensor]:
        """Return the score of every row on itself, [members, rows], in units of the loss, and the rows' ids.

        That is by how much the loss of a row would rise without it, to first order.
        """
        scores, ids = [], []
        reader = self._reader(rows)
        for segment in reader.segments(_ROWS_PER_SEGMENT, LocalExecutor()):
            for batch, places in reader.batches(segment):
                own = np.stack([member.own_scores(batch).cpu().numpy() for member in self._members])
                scores.append(own / self._rows_of.sum())
                ids.append(rows.ids[places])
                add(batch.rows)
        return np.concatenate(scores, 1).astype(np.float32), torch.cat(ids)

    def token_scores(self, row: Batch, queries: Sequence[Batch]) -> np.ndarray:
        """Return what each token of one training row adds to its scores, [tokens, queries]; NaN: it does not count.

        The gradient of a row is the mean of its tokens' gradients, and scores are linear in it: the row is scored with
        one label at a time, the others not counting.
        """
        places = torch.nonzero(row.target[0] != IGNORED).flatten()
        scores = np.full((row.target.shape[1], len(queries)), np.nan, np.float32)
        rows = _one_label_each(row, places)
        by_member = []
        for member in self._members:
            applied, parts = member.applied(queries), []
            for start in range(0, rows.rows, self._rows_at_once):
                parts.append(row_scores(member.rows.gradients(rows.part(start, start + self._rows_at_once)), applied))
            by_member.append(np.concatenate(parts) * self._weight_of_tokens(member, row, rows))
        scores[places.cpu().numpy()] = np.mean(by_member, 0)
        return scores

    @staticmethod
    def _weight_of_tokens(member: FittedMember, row: Batch, rows: Batch) -> float:
        """Return what a token's own loss counts in that of its row: one part of the mean, for most losses."""
        with torch.no_grad():
            losses = [
                member.objectives.rows(member.network.outputs(part.to(member.device)), part.to(member.device).target)
                for part in (row, rows)
            ]
        return float(losses[0].sum() / losses[1].sum())

    # Reading the training rows

    @property
    def _instances(self) -> Instances:
        rows = Rows(self._reader(), [member.rows for member in self._members], self._kept_rows)
        return Instances(rows, self._rows_of)

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
        self._values_per_row = sum(run.inputs.numel() + run.gradient.numel() for run in runs.values()) / rows
        per_row = 4 * sum(run.inputs.numel() + 2 * run.gradient.numel() for run in runs.values()) / rows
        # What lies between the layers is kept for the gradient, too, about as much again, and all of it twice for a
        # moment; queries need their part.
        fitting = int(np.clip(self._memory // (6 * per_row), _FEWEST_ROWS, _MOST_ROWS))
        return 1 << (fitting.bit_length() - 1)  # a power of two: then tiles of a score folder are whole batches

    def _reader(self, rows: TrainRows | None = None) -> Reader:
        return Reader(self._train if rows is None else rows, self._rows_at_once)

    def _calibrate(self, networks: Sequence[Network], executor: Executor) -> tuple[list[float], np.ndarray]:
        """Return the temperature of every network, and the number of rows of every instance."""
        rows_of = np.zeros(len(self._train.ids), np.int64)
        asked = networks if self.options.temperature is None else []
        losses: list[Tensor | None] = [torch.zeros((), dtype=torch.float64) for _ in asked]
        reader, classes = self._reader(), 0
        for places, added, count in executor.map(
            Calibration(reader, asked), reader.segments(_ROWS_PER_SEGMENT, executor)
        ):
            np.add.at(rows_of, places, 1)
            classes = max(classes, count)
            pairs = zip(losses, added, strict=True)
            losses = [None if before is None or more is None else before + more for before, more in pairs]
        self._train.check_complete(rows_of)
        if self.options.temperature is not None:
            return [float(self.options.temperature)] * len(networks), rows_of
        sums = [part for part in losses if part is not None and part.dim() > 0]
        if len(sums) < len(networks):
            return [1.0] * len(networks), rows_of
        temperatures = [best_temperature(part, classes) for part in sums]
        if any(value is None for value in temperatures):
            warnings.warn(
                TurnOverWarning(
                    "outputs cannot be calibrated: the best temperature on the training rows lies outside "
                    f"{float(TEMPERATURES[0]):g} to {float(TEMPERATURES[-1]):g}, and 1 is used. A model that "
                    "predicts its training rows no better than chance was hardly trained; outputs of another scale "
                    "than logits need estimator=turnover.influence.Curvature(temperature=...)."
                ),
                stacklevel=7,
            )
        return [1.0 if value is None else value for value in temperatures], rows_of

    def _factorize(
        self, networks: Sequence[Network], objectives: Sequence[Objectives], executor: Executor
    ) -> list[dict[str, LayerCurvature]]:
        reader = self._reader()
        parts: tuple[FisherPart, ...] = ("whole",) if len(networks) >= _ENOUGH_MEMBERS else ("leading", "rest")
        task = Factors(reader, networks, objectives, parts, self.options.seed)
        sums = reduce(joined, executor.map(task, reader.segments(_ROWS_PER_SEGMENT, executor)))
        of_first = {name: part.curvature(name) for name, part in sums[0].items()}
        others = [
            {
                name: part.curvature(name, (sums[0][name], of_first[name]) if name in of_first else None)
                for name, part in kept.items()
            }
            for kept in sums[1:]
        ]
        return [of_first, *others]

    def _warn_of_uncovered(self, network: Network, example: Batch, objectives: Objectives) -> None:
        moved = example.to(network.forward.member.device)
        self.covered, self.uncovered = network.covered_share(moved, objectives.rows)
        if self.covered >= _COVERED_ENOUGH:
            return
        warnings.warn(
            TurnOverWarning(
                f"curvature covers {self.covered:.0%} of the squared gradient: {self._not_covered}. Covered are "
                "Linear, Conv1d, Conv2d, Embedding and MultiheadAttention layers that are called as modules."
            ),
            stacklevel=7,
        )

    @property
    def _not_covered(self) -> str:
        """Return the parameters that are left out, those with the largest share of the squared gradient first."""
        ordered = sorted(self.uncovered.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} ({share:.1%})" for name, share in ordered[:_SHOWN])
        return f"not that of {listed}" + (f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else "")


def _one_label_each(row: Batch, places: Tensor) -> Batch:
    """Return a row of tokens as often as it has labels that count, each time with one of them."""
    count = len(places)

    def repeated(tensor: Tensor) -> Tensor:
        return tensor.expand(count, *tensor.shape[1:]) if tensor.dim() and len(tensor) == 1 else tensor

    args, kwargs, target = map_tensors((row.args, row.kwargs, row.target), repeated)
    only = torch.zeros_like(target, dtype=torch.bool)
    only[torch.arange(count), places] = True
    return Batch(args, kwargs, target.masked_fill(~only, IGNORED), None, count)


def _kept_layers(kept: Mapping[str, np.ndarray], number: int, network: Network) -> dict[str, LayerCurvature]:
    """Return the curvature of one member as `CurvatureFit.arrays` gave it."""
    device = network.forward.member.device

    def part(name: str, what: str) -> Tensor | None:
        value = kept.get(f"{number}/{name}/{what}", kept.get(f"0/{name}/{what}"))
        return None if value is None else torch.from_numpy(value)

    layers = {}
    for name in network.layers:
        sigma, alpha, left, right = (part(name, what) for what in ("sigma", "alpha", "left", "right"))
        if sigma is not None and alpha is not None and left is not None:
            layers[name] = LayerCurvature(sigma, alpha, left.to(device), None if right is None else right.to(device))
    return layers
