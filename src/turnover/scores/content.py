"""What scores hold: arrays and facts, checked once and never changed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError

from .about import Name, about, names
from .arrays import Floats, Ints, close, instance_ids, same
from .averages import spread
from .per_query import null_scores, per_query
from .source import Source, source_of


class Content:
    """Values, ids, queries and all that is known about them; see `Scores`, which can do something with it."""

    def __init__(
        self,
        values: ArrayLike | Source,
        *,
        ids: ArrayLike,
        queries: Sequence[Name] | None = None,
        unit: str = "loss",
        stderr: ArrayLike | Source | None = None,
        null: ArrayLike | None = None,
        null_spread: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        path: str = "",
        replicas: int = 1,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self._values = source_of(values, "values")
        shape = self._values.shape
        if len(shape) not in (1, 2):
            raise ScoresError(f"values have shape {list(shape)}; give [instances, queries] or [instances].")
        self._ids = instance_ids(ids)
        if len(self._ids) != shape[0]:
            raise ScoresError(f"there are {len(self._ids)} ids and {shape[0]} rows of values; give one id a row.")
        if queries is not None and len(shape) == 1:
            raise ScoresError("values are [instances], one score each, so queries= has nothing to name.")
        self._queries = None if len(shape) == 1 else names(queries, shape[1])
        self._about = about(unit, path, replicas, provenance)
        self._null = None if null is None else null_scores(null, shape)
        if null_spread is None and self._null is not None:
            null_spread = spread(self._null)
        self._null_spread = None if null_spread is None else per_query(null_spread, shape, "null_spread")
        self._offset = None if offset is None else per_query(offset, shape, "offset")
        self._stderr = None if stderr is None else source_of(stderr, "stderr")
        if self._stderr is not None and self._stderr.shape != shape:
            raise ScoresError(f"stderr have shape {list(self._stderr.shape)}; give that of values, {list(shape)}.")

    @property
    def values(self) -> Floats:
        """Return the scores, float32 [n, m] or [n]; positive: the training instance helps."""
        return self._values.whole

    @property
    def stderr(self) -> Floats | None:
        """Return standard errors in the shape of values; None: not known.

        They come from the replicas; for one replica they are the spread of the never-trained ids.
        """
        if self._stderr is not None:
            return self._stderr.whole
        return None if self._null_spread is None else np.broadcast_to(self._null_spread, self.shape)

    @property
    def ids(self) -> Ints:
        """Return the instance ids, int64 [n]."""
        return self._ids

    @property
    def queries(self) -> tuple[Name, ...] | None:
        """Return the names of the m queries; None where an instance has one score."""
        return self._queries

    @property
    def unit(self) -> str:
        """Return what scores are differences of."""
        return self._about.unit

    @property
    def offset(self) -> Floats | None:
        """Return the mean score of never-trained ids that was subtracted; None: nothing was.

        It has shape [m]; for values [n] it is one number, or [n] where every row is a query of its own.
        """
        return self._offset

    @property
    def null(self) -> Floats | None:
        """Return the scores of never-trained ids on the same queries, [j, m] or [j]; None: not kept."""
        return self._null

    @property
    def null_spread(self) -> Floats | None:
        """Return the standard deviation of never-trained ids' scores, in the shape of `offset`; None: not known."""
        return self._null_spread

    @property
    def path(self) -> str:
        """Return how the scores were computed."""
        return self._about.path

    @property
    def replicas(self) -> int:
        """Return over how many networks the scores are averaged."""
        return self._about.replicas

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Return all that the scores depend on."""
        return self._about.provenance

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [instances, queries] or [instances]."""
        return self._values.shape

    @property
    def folder(self) -> str | None:
        """Return the folder that values are still to be read from; None: they are in memory."""
        return self._values.folder

    @property
    def sources(self) -> dict[str, Source]:
        """Return where "values" and, if they came with the scores, "stderr" are read from."""
        return {"values": self._values} | ({} if self._stderr is None else {"stderr": self._stderr})

    def equals(self, other: object) -> bool:
        """Tell whether values and all that is known about them are the same in both, NaN equal to NaN."""
        if not isinstance(other, Content) or self._about != other._about or self._queries != other._queries:
            return False
        arrays = ("_ids", "_null", "_null_spread", "_offset", "values", "stderr")
        return all(same(getattr(self, name), getattr(other, name)) for name in arrays)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values for numpy functions."""
        return np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))
