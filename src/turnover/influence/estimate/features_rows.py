"""Features [instances, width] that are read by place: kept in memory where they fit, else computed again."""

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch

from turnover.errors import InfluenceError

from .features_projection import Projection
from .features_stream import FeatureStream, check_complete


class FeatureRows(Protocol):
    """Features of instances by their place in the training data."""

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return float32 features [places, width]."""
        ...


class KeptRows:
    """Features that are held in memory."""

    def __init__(self, features: np.ndarray) -> None:
        """Hold the features."""
        self.features = features

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return float32 features [places, width]; those of neighbors are not copied."""
        if len(places) and bool((np.diff(places) == 1).all()):
            return self.features[places[0] : places[-1] + 1]
        return self.features[places]


class RecomputedRows:
    """Features that are computed when they are asked for; cheap where places are asked for in their order."""

    def __init__(self, opened: Callable[[], Iterator[np.ndarray]], count: int, width: int) -> None:
        """Keep how to begin again.

        Args:
            opened: yields the features of all instances in their order, some at a time.
            count: how many instances there are.
            width: how many features.
        """
        self._opened, self._count, self._width = opened, count, width
        self._lock = threading.Lock()
        self._restart()

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return float32 features [places, width]."""
        found = np.empty((len(places), self._width), np.float32)
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        with self._lock:
            if len(places) and ascending[0] < self._start:
                self._restart()
            done = 0
            while done < len(places):
                end = int(np.searchsorted(ascending, self._start + len(self._part)))
                found[order[done:end]] = self._part[ascending[done:end] - self._start]
                done = end
                if done < len(places):
                    self._advance()
        return found

    def _restart(self) -> None:
        self._parts, self._start = self._opened(), 0
        self._part = np.empty((0, self._width), np.float32)

    def _advance(self) -> None:
        self._start += len(self._part)
        part = next(self._parts, None)
        if part is None:
            raise InfluenceError(
                f"train showed {self._start} rows the second time and {self._count} the first. Give data that can be "
                "read again and again, such as a Dataset."
            )
        self._part = part


def feature_rows(stream: FeatureStream, projection: Projection, memory: int) -> FeatureRows:
    """Return the features of all instances, kept if that takes no more than `memory` bytes."""
    needed = 4 * stream.count * projection.width
    if needed <= memory:
        return KeptRows(_all_rows(stream, projection))

    def in_order() -> Iterator[np.ndarray]:
        start = 0
        for places, outers in stream:
            if not np.array_equal(places, np.arange(start, start + len(places))):
                raise InfluenceError(
                    "rows of one instance are spread over the training data, so that their features must be added up "
                    f"in memory, which takes {needed:,} bytes. Give Influence(memory={needed}), or fewer features: "
                    "denoise=turnover.influence.Ridge(projection=512)."
                )
            start += len(places)
            yield projection(outers).numpy()

    return RecomputedRows(in_order, stream.count, projection.width)


def _all_rows(stream: FeatureStream, projection: Projection) -> np.ndarray:
    """Return the features of all instances; rows of one instance are added up, as their gradients are."""
    features = torch.zeros(stream.count, projection.width)
    seen = np.zeros(stream.count, np.int64)
    for places, outers in stream:
        features.index_add_(0, torch.from_numpy(places), projection(outers))
        np.add.at(seen, places, 1)
    check_complete(seen, stream.ids)
    return features.numpy()
