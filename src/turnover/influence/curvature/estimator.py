"""`Curvature`: influence functions with K-FAC curvature of all layers, on calibrated outputs, over all members."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from turnover.batches import IGNORED, Batch
from turnover.errors import InfluenceError, TurnOverWarning
from turnover.influence._rows import TrainRows
from turnover.influence.ensemble import Ensemble
from turnover.influence.estimators import Blocks, OwnScores
from turnover.influence.executors import LocalExecutor
from turnover.layers import map_tensors

from ._calibration import TEMPERATURES, FisherPart, Objectives, best_temperature
from ._gradients import Network
from ._kronecker import LayerCurvature
from ._passes import Calibration, Factors, FittedMember, QueryBlock, Reader, RowGradients, joined

_MOST_ROWS, _FEWEST_ROWS = 256, 8  # more rows take more memory and save no time
_MOST_QUERIES = 512
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
    name: ClassVar[str] = "curvature"

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

    def check(self, ensemble: Ensemble, train: TrainRows | None) -> None:
        """Raise where there are no training rows."""
        if train is None:
            raise InfluenceError(
                "estimator='curvature' is fitted on all training rows and their labels, but there is no train. Give "
                "Influence(model, train=turnover.with_instance_ids(dataset), estimator='curvature')."
            )

    def check_null(self) -> None:
        """Raise: there is none."""
        raise InfluenceError(
            "estimator='curvature' has no null distribution: a row without training gets a score, too. Give "
            "estimator='tod'; intervals come from replicas (Scores.interval)."
        )

    def as_data(self, train: TrainRows | None) -> dict[str, Any]:
        """Return the options and a checksum of the training rows as JSON data."""
        options = {"estimator": {"name": self.name, **asdict(self)}}
        return options if train is None else {**options, "train": train.digest}

    def fit(
        self, ensemble: Ensemble, train: TrainRows | None, *, kept: Mapping[str, np.ndarray] | None = None
    ) -> "FittedCurvature":
        """Return the curvature of every member, from two passes over the training rows; or as it was `kept`."""
        self.check(ensemble, train)
        assert train is not None
        train.check_unchanged()
        return FittedCurvature(self, ensemble, train, kept)


class FittedCurvature:
    """The curvature of every member, and how many rows each instance has."""

    def __init__(
        self, options: Curvature, ensemble: Ensemble, train: TrainRows, kept: Mapping[str, np.ndarray] | None
    ) -> None:
        """Read the training rows twice, for temperatures, then for the curvature, unless that was kept."""
        self.options, self._train, self._memory = options, train, ensemble.memory
        example = self._example()
        networks = [Network(member, example.part(0, _EXAMPLE_ROWS).to(member.device)) for member in ensemble.members]
        self.executor = ensemble.workers(train.shared)
        self._reader = Reader(train, self._rows_that_fit(networks[0], example, Objectives(ensemble.measure)))
        if kept is None:
            self.temperatures, self._rows_of = self._calibrate(networks)
        else:
            self.temperatures, self._rows_of = kept["temperatures"].tolist(), kept["rows"]
        objectives = [Objectives(ensemble.measure, value) for value in self.temperatures]
        self._warn_of_uncovered(networks[0], example, objectives[0])
        if kept is None:
            layers = self._factorize(networks, objectives)
        else:
            layers = [_kept_layers(kept, number, network) for number, network in enumerate(networks)]
        self._members = [
            FittedMember(RowGradients(network, objective), of_member, options.damping, options.mean_damping)
            for network, objective, of_member in zip(networks, objectives, layers, strict=True)
        ]

    def score(self, queries: Sequence[Batch], ids: Tensor) -> Blocks:
        """Return queries in blocks that score instances of these ids: as many at once as fit into the memory."""
        self._train.check_unchanged()
        per_query = 4 * sum(
            inverse.values_per_query for member in self._members for inverse in member.inverses.values()
        )
        step = int(np.clip(2 * self._memory // max(per_query, 1), 1, _MOST_QUERIES))

        def make(start: int) -> QueryBlock:
            return QueryBlock(self._reader, self._rows_of, self._members, queries[start : start + step])

        return Blocks(self._path, step, make, len(queries), standardized=True)

    def mean(self, queries: Sequence[Batch], ids: Tensor) -> Blocks:
        """Return a block with one column, the mean over all queries: scores are linear in them."""
        self._train.check_unchanged()
        block = QueryBlock(self._reader, self._rows_of, self._members, queries, of_mean=True)
        return Blocks(self._path, 1, lambda _: block, 1, standardized=True)

    def own(self, rows: TrainRows, add: Callable[[int], Any]) -> OwnScores:
        """Return by how much the loss of every row would rise without it, to first order."""
        scores, ids = [], []
        reader = replace(self._reader, train=rows)
        for segment in reader.segments(_ROWS_PER_SEGMENT, LocalExecutor()):
            for batch, places in reader.batches(segment):
                own = np.stack([member.own_scores(batch).cpu().numpy() for member in self._members])
                scores.append(own / self._rows_of.sum())
                ids.append(rows.ids[places])
                add(batch.rows)
        return OwnScores(torch.cat(ids), np.concatenate(scores, 1).astype(np.float32), self._path)

    def tokens(self, row: Batch, queries: Sequence[Batch]) -> np.ndarray:
        """Return what each token of one training row adds to its scores, [tokens, queries]; NaN: it does not count.

        The gradient of a row is the mean of its tokens' gradients, and scores are linear in it: the row is scored with
        one label at a time, the others not counting.
        """
        places = torch.nonzero(row.target[0] != IGNORED).flatten()
        scores = np.full((row.target.shape[1], len(queries)), np.nan, np.float32)
        rows = _one_label_each(row, places)
        by_member = []
        for member in self._members:
            applied = member.applied(queries)
            parts = [
                member.rows.scores(rows.part(start, start + self._reader.rows_at_once), applied)
                for start in range(0, rows.rows, self._reader.rows_at_once)
            ]
            by_member.append(np.concatenate(parts) * _weight_of_tokens(member.rows, row, rows))
        scores[places.cpu().numpy()] = np.mean(by_member, 0)
        return scores

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

    @property
    def _path(self) -> str:
        """Return what scores say of how they were made."""
        layers = len(self._members[0].layers)
        warmth = sorted(self.temperatures)
        span = f"{warmth[0]:.2g}" if warmth[0] == warmth[-1] else f"{warmth[0]:.2g} to {warmth[-1]:.2g}"
        share = "" if self.covered > 0.995 else f" ({self.covered:.0%} of the squared gradient: {self._not_covered})"
        return (
            f"influence functions, K-FAC curvature of {layers} layer{'s' if layers != 1 else ''}{share}, full view, "
            f"temperature {span}"
        )

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

    def _rows_that_fit(self, network: Network, example: Batch, objectives: Objectives) -> int:
        device = network.member.device
        rows = min(example.rows, _EXAMPLE_ROWS)
        runs = network.gradients(example.part(0, rows).to(device), objectives.rows)
        per_row = 4 * sum(run.inputs.numel() + 2 * run.gradient.numel() for run in runs.values()) / rows
        # What lies between the layers is kept for the gradient, too, about as much again, and all of it twice for a
        # moment; queries need their part.
        fitting = int(np.clip(self._memory // (6 * per_row), _FEWEST_ROWS, _MOST_ROWS))
        return 1 << (fitting.bit_length() - 1)  # a power of two: then tiles of a score folder are whole batches

    def _calibrate(self, networks: Sequence[Network]) -> tuple[list[float], np.ndarray]:
        """Return the temperature of every network, and the number of rows of every instance."""
        rows_of = np.zeros(len(self._train.ids), np.int64)
        asked = networks if self.options.temperature is None else []
        losses, classes = torch.zeros(()), 0
        segments = self._reader.segments(_ROWS_PER_SEGMENT, self.executor)
        for places, added, count in self.executor.map(Calibration(self._reader, asked), segments):
            np.add.at(rows_of, places, 1)
            losses, classes = losses + added, max(classes, count)
        self._train.check_complete(rows_of)
        if self.options.temperature is not None:
            return [float(self.options.temperature)] * len(networks), rows_of
        temperatures = [best_temperature(part, classes) for part in losses]
        if None in temperatures:
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
        self, networks: Sequence[Network], objectives: Sequence[Objectives]
    ) -> list[dict[str, LayerCurvature]]:
        parts: tuple[FisherPart, ...] = ("whole",) if len(networks) >= _ENOUGH_MEMBERS else ("leading", "rest")
        task = Factors(self._reader, networks, objectives, parts, self.options.seed)
        sums = reduce(joined, self.executor.map(task, self._reader.segments(_ROWS_PER_SEGMENT, self.executor)))
        of_members: list[dict[str, LayerCurvature]] = []
        for kept in sums:
            first = of_members[0] if of_members else {}
            of_members.append(
                {
                    name: part.curvature(name, (sums[0][name], first[name]) if name in first else None)
                    for name, part in kept.items()
                }
            )
        return of_members

    def _warn_of_uncovered(self, network: Network, example: Batch, objectives: Objectives) -> None:
        moved = example.to(network.member.device)
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
        ordered = sorted(self.uncovered.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} ({share:.1%})" for name, share in ordered[:_SHOWN])
        return f"not that of {listed}" + (f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else "")


def _weight_of_tokens(member: RowGradients, row: Batch, rows: Batch) -> float:
    """Return what a token's own loss counts in that of its row: one part of the mean, for most losses."""
    network = member.network
    with torch.no_grad():
        moved = [part.to(network.member.device) for part in (row, rows)]
        losses = [member.objectives.rows(network.outputs(part), part.target) for part in moved]
    return float(losses[0].sum() / losses[1].sum())


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
    """Return the curvature of one member as `FittedCurvature.arrays` gave it."""
    device = network.member.device

    def part(name: str, what: str) -> Tensor | None:
        value = kept.get(f"{number}/{name}/{what}", kept.get(f"0/{name}/{what}"))
        return None if value is None else torch.from_numpy(value)

    layers = {}
    for name in network.layers:
        sigma, alpha, left, right = (part(name, what) for what in ("sigma", "alpha", "left", "right"))
        if sigma is not None and alpha is not None and left is not None:
            layers[name] = LayerCurvature(sigma, alpha, left.to(device), None if right is None else right.to(device))
    return layers
