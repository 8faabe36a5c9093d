"""All training rows' features, batch after batch, and where in the training data each of them belongs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from turnover.batches import Batch
from turnover.errors import InfluenceError
from turnover.influence.fingerprint import fingerprint_of
from turnover.influence.paths.forward import Pass
from turnover.influence.train import TrainRows

from .features import Outer, features_of, layers_of
from .ridge import Ridge

FeatureBatch = tuple[np.ndarray, list[Outer]]


class FeatureStream:
    """Reads the training data as often as it is asked to; nothing of it is kept."""

    def __init__(self, works: Sequence[Pass], train: TrainRows, ridge: Ridge) -> None:
        """Find the layers on the first batch."""
        self._works, self._train, self._ridge = works, train, ridge
        first = next(iter(train.batches()), None)
        if first is None:
            raise InfluenceError(
                "denoising needs the training rows, but train is empty, or can be read only once. Give train= a data "
                "set: turnover.with_instance_ids(dataset)."
            )
        if first.can_be_split:  # the search for the last layer differentiates the whole model
            first = first.part(0, 2)
        self._layers: list[list[nn.Linear]] = [layers_of(work, ridge, self._there(work, first)) for work in works]
        _, outers = self._opened(first)
        self.sizes = [(outer.hidden.shape[-1], outer.error.shape[-1]) for outer in outers]
        self.members = len(works)

    @property
    def count(self) -> int:
        """Return how many instances there are."""
        return len(self._train.ids)

    @property
    def ids(self) -> Tensor:
        """Return the instances, in the order of the data."""
        return self._train.ids

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.ids.numpy(), kind="stable")
        return self.ids.numpy()[order], order

    @cached_property
    def digest(self) -> str:
        """Return a checksum of all rows: every denoised score depends on them."""
        batches = self._train.batches()
        return fingerprint_of([fingerprint_of([one.args, one.kwargs, one.target, one.ids]) for one in batches])

    def positions(self, ids: Tensor) -> np.ndarray:
        """Return the place of each instance among all; -1 for one that is not in the training data."""
        known, order = self._sorted
        wanted = ids.cpu().numpy()
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[place] == wanted, order[place], -1)

    def __iter__(self) -> Iterator[FeatureBatch]:
        """Yield the places of some rows and their features, for each model and layer."""
        for batch in self._train.batches():
            yield self._opened(batch)

    def _opened(self, batch: Batch) -> FeatureBatch:
        if batch.ids is None:
            raise InfluenceError("train has no instance ids. Give train=turnover.with_instance_ids(dataset).")
        outers = [
            outer
            for work, layers in zip(self._works, self._layers, strict=True)
            for outer in features_of(work, self._ridge, self._there(work, batch), layers)
        ]
        if not all(bool(outer.hidden.isfinite().all() & outer.error.isfinite().all()) for outer in outers):
            raise InfluenceError(
                f"features of training rows among ids {int(batch.ids[0])} to {int(batch.ids[-1])} are not finite, so "
                "nothing can be fitted on them. Look at these rows and at the model's outputs for them."
            )
        places = self.positions(batch.ids)
        if places.min() < 0:
            raise InfluenceError(
                f"train showed instance {int(batch.ids[places.argmin()])} now, but not when it was read before: its "
                "sampler draws other rows every time. Give train= the data set itself."
            )
        return places, outers

    def of_queries(self, queries: Sequence[Batch]) -> list[Outer]:
        """Return the gradients of queries in full view, scaled to length one, for each model and layer.

        Positions that only other queries have are zero.
        """
        full = replace(self._ridge, view="full")
        found: list[list[Outer]] = []
        for query in queries:
            asked = replace(query, ids=torch.zeros(query.rows, dtype=torch.int64))
            by_model = [
                _scaled(features_of(work, full, self._there(work, asked), layers))
                for work, layers in zip(self._works, self._layers, strict=True)
            ]
            found.append([outer for outers in by_model for outer in outers])
        return [_padded(slot) for slot in zip(*found, strict=True)]

    @staticmethod
    def _there(work: Pass, batch: Batch) -> Batch:
        return batch.to(work.member.device)


def _scaled(outers: Sequence[Outer]) -> list[Outer]:
    """Return the gradient of one query in all layers of a model, its error scaled to length one."""
    length = torch.stack([outer.error.square().sum() for outer in outers]).sum().sqrt()
    factor = 1 / length if length > 0 else 0.0
    return [Outer(outer.hidden, outer.error * factor) for outer in outers]


def _padded(outers: Sequence[Outer]) -> Outer:
    """Return the rows of several as one, with as many positions as the longest has."""
    hidden, error = ([part[0] for part in parts] for parts in zip(*((o.hidden, o.error) for o in outers), strict=True))
    pad = torch.nn.utils.rnn.pad_sequence
    return Outer(pad(hidden, batch_first=True), pad(error, batch_first=True))


def one_position(outers: Sequence[Outer]) -> bool:
    """Tell whether every row is a single h ⊗ e, so that a kernel needs no products of them."""
    return all(outer.hidden.shape[1] == 1 for outer in outers)


def check_complete(seen: np.ndarray, ids: Tensor) -> None:
    """Raise where the training data did not show some of its instances."""
    missing = np.flatnonzero(seen == 0)
    if len(missing):
        raise InfluenceError(
            f"train gave no row for {len(missing)} of its {len(ids)} instances, {int(ids[missing[0]])} for one: a "
            "loader with drop_last or a sampler leaves rows out, or it can be read only once. Give train= the data set "
            "itself."
        )


def stacked(batches: Sequence[FeatureBatch], count: int) -> list[tuple[Tensor, Tensor]]:
    """Return h [instances, d] and e [instances, c] of all rows, for each model and layer."""
    order = np.concatenate([places for places, _ in batches])
    pairs = []
    for slot in range(len(batches[0][1])):
        hidden = torch.cat([outers[slot].hidden[:, 0] for _, outers in batches])
        error = torch.cat([outers[slot].error[:, 0] for _, outers in batches])
        whole = torch.empty(count, hidden.shape[1]), torch.empty(count, error.shape[1])
        whole[0][order], whole[1][order] = hidden, error
        pairs.append(whole)
    return pairs
