"""Passes over the training rows, a segment at a time: what each of them adds, as tasks that any process can run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from turnover.batches import Batch
from turnover.influence._data import Segment, TrainRows
from turnover.influence.execution import Executor, LocalExecutor
from turnover.layers import map_tensors

from ._calibration import FisherPart, Objectives, losses_by_temperature
from ._gradients import LayerRun, Network
from ._kept_rows import KeptRows, Runs
from ._kronecker import BatchSums, LayerSums
from ._members import AtLayers, RowGradients

_NEXT_SEGMENT = 2**32  # between the seeds of segments: more than there are members and draws


@dataclass(frozen=True)
class Reader:
    """Reads training rows in batches of at most so many rows, with the place of each row's instance among all."""

    train: TrainRows
    rows_at_once: int

    def segments(self, rows: int, executor: Executor) -> Iterator[Segment]:
        """Yield all rows in segments of about so many, read here where tasks run here."""
        streamed = isinstance(executor, LocalExecutor)
        return self.train.segments(self.rows_at_once, rows, streamed=streamed)

    def batches(self, segment: Segment) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yield the batches of a segment and the places of their rows."""
        for batch in self.train.batches_of(segment, self.rows_at_once):
            whole = batch.rows <= self.rows_at_once or not batch.can_be_split
            for start in range(0, batch.rows, batch.rows if whole else self.rows_at_once):
                part = batch if whole else batch.part(start, start + self.rows_at_once)
                yield part, self.train.places(part)


@dataclass(frozen=True)
class Calibration:
    """The places of rows and, where a temperature is to be found, the losses of every network by temperature."""

    reader: Reader
    networks: Sequence[Network]

    def __call__(self, segment: Segment) -> tuple[np.ndarray, list[Tensor | None], int]:
        """Return places, the sums of losses of every network (None: outputs are no classes), the number of classes."""
        all_places: list[np.ndarray] = []
        losses: list[Tensor | None] = [torch.zeros((), dtype=torch.float64) for _ in self.networks]
        classes = 0
        for batch, places in self.reader.batches(segment):
            all_places.append(places)
            for number, network in enumerate(self.networks):
                moved = batch.to(network.forward.member.device)
                outputs = network.outputs(moved)
                classes = outputs.shape[-1]
                by_temperature, before = losses_by_temperature(outputs, moved.target), losses[number]
                known = None if before is None or by_temperature is None else by_temperature.double()
                losses[number] = None if before is None or known is None else before + known
        return np.concatenate(all_places), losses, classes


@dataclass(frozen=True)
class Factors:
    """The sums that the curvature of every network's layers is made of."""

    reader: Reader
    networks: Sequence[Network]
    objectives: Sequence[Objectives]
    parts: tuple[FisherPart, ...]  # of the Fisher matrix, a backward pass each
    seed: int

    def __call__(self, segment: Segment) -> list[dict[str, LayerSums]]:
        """Return the sums over a segment, for every network by layer."""
        sums: list[dict[str, LayerSums]] = [{} for _ in self.networks]
        start = self.seed + _NEXT_SEGMENT * segment.number
        # A generator for each: what is drawn for a row must not depend on how rows are cut into batches.
        drawn = [
            [
                partial(objective.fisher, part=part, generator=torch.Generator().manual_seed(start + seed))
                for seed, part in enumerate(self.parts, len(self.parts) * number)
            ]
            for number, objective in enumerate(self.objectives)
        ]
        for batch, _ in self.reader.batches(segment):
            first: dict[str, BatchSums] = {}
            for network, of_member, kept in zip(self.networks, drawn, sums, strict=True):
                moved = batch.to(network.forward.member.device)
                added: dict[str, BatchSums] = {}
                for runs in network.gradients_of_each(moved, of_member):
                    for name, run in runs.items():
                        if name not in kept:
                            kept[name] = LayerSums(_vocabulary(network.layers[name]))
                        if name in added:
                            kept[name].add_gradients(run, added[name])
                        else:
                            added[name] = kept[name].add(run, first.get(name))
                first = first or added
        return sums


def joined(sums: list[dict[str, LayerSums]], others: list[dict[str, LayerSums]]) -> list[dict[str, LayerSums]]:
    """Return the sums over the rows of both, for every network by layer."""
    return [
        {name: _both(one.get(name), other.get(name)) for name in {**one, **other}}
        for one, other in zip(sums, others, strict=True)
    ]


def _both(one: LayerSums | None, other: LayerSums | None) -> LayerSums:
    sums = [part for part in (one, other) if part is not None]
    return sums[0] if len(sums) == 1 else sums[0] + sums[1]


@dataclass(frozen=True)
class Rows:
    """The gradients of training rows at the layers of every member: computed, or as a folder keeps them."""

    reader: Reader
    members: Sequence[RowGradients]
    kept: KeptRows | None = None

    def segments(self, rows: int, executor: Executor) -> Iterator[Segment]:
        """Yield all rows in segments of about so many."""
        if self.kept is not None:  # rows that are kept need not be read
            return self.reader.train.segments(self.reader.rows_at_once, rows, streamed=False)
        return self.reader.segments(rows, executor)

    def runs(self, segment: Segment, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, Iterable[Runs]]]:
        """Yield the places of rows and the runs of every member, batch after batch.

        `chosen` says of every place whether it counts; all of them where it is empty.
        """
        if self.kept is None:
            for batch, at in self.reader.batches(segment):
                yield from self._computed(batch, at, chosen)
            return
        for first in range(segment.first, segment.last, self.kept.rows_at_once):
            found = self.kept.read(first)
            if found is not None:
                at, runs = found
                inside = _inside(at, chosen)
                if inside.all():
                    yield at, runs
                elif inside.any():
                    yield at[inside], [_cut(one, inside) for one in runs]
                continue
            last = min(first + self.kept.rows_at_once, segment.last)
            for batch, at in self.reader.batches(Segment(segment.number, first, last)):
                if self.kept.writes and _inside(at, chosen).all():
                    runs = [member.gradients(batch) for member in self.members]
                    self.kept.write(first, at, runs)
                    yield at, runs
                else:
                    yield from self._computed(batch, at, chosen)

    def _computed(
        self, batch: Batch, at: np.ndarray, chosen: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Iterable[Runs]]]:
        inside = _inside(at, chosen)
        if not inside.any():
            return
        if not inside.all() and batch.can_be_split:
            batch, at = _rows_of(batch, inside), at[inside]
        yield at, (member.gradients(batch) for member in self.members)


@dataclass(frozen=True)
class RowScores:
    """The scores of training rows on queries with the inverse curvature applied."""

    rows: Rows
    queries: Sequence[Sequence[AtLayers]]  # of every member, a batch after the other
    chosen: np.ndarray  # which instances count, by their place; all of them where it is empty

    def __call__(self, segment: Segment) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the places of rows and their scores [members, rows, queries], batch after batch."""
        return [
            (at, np.stack([row_scores(one, queries) for one, queries in zip(runs, self.queries, strict=True)]))
            for at, runs in self.rows.runs(segment, self.chosen)
        ]


def row_scores(runs: dict[str, LayerRun], queries: Sequence[AtLayers]) -> np.ndarray:
    """Return the scores [rows, queries] of rows, by what every layer saw of them."""
    columns = [
        torch.stack([part.scores(runs[name]) for name, part in by_layer.items() if name in runs]).sum(0)
        for by_layer in queries
    ]
    return torch.cat(columns, 1).cpu().numpy()


def _vocabulary(module: nn.Module) -> int | None:
    return module.num_embeddings if isinstance(module, nn.Embedding) else None


def _inside(at: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return chosen[at] if len(chosen) else np.ones(len(at), bool)


def _cut(runs: Runs, inside: np.ndarray) -> Runs:
    """Return what layers saw of some rows of a batch."""
    places = torch.from_numpy(np.flatnonzero(inside))
    return {name: run.rows(places.to(run.gradient.device)) for name, run in runs.items()}


def _rows_of(batch: Batch, inside: np.ndarray) -> Batch:
    """Return some rows of a batch, all of whose tensors have rows."""
    chosen = torch.from_numpy(np.flatnonzero(inside))

    def cut(tensor: Tensor) -> Tensor:
        return tensor[chosen.to(tensor.device)] if tensor.dim() else tensor

    args, kwargs, target, ids = map_tensors((batch.args, batch.kwargs, batch.target, batch.ids), cut)
    return Batch(args, kwargs, target, ids, len(chosen))
