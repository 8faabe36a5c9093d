"""What scores hold: arrays and facts, checked once and never changed; several of them as one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError
from turnover.ids import Ids, Ints, Names

from ._about import About, Name, Over, agreed, is_per_row, joined_names, null_scores, per_query, query_names
from ._arrays import Floats, Source, joined_arrays, near, same, source_of, spread
from ._views import OfInstances
from .tokens import TokenScores

_OPTIONAL = ("stderr", "null", "null_spread", "offset")


class Content(OfInstances):
    """Values, ids, queries and all that is known about them; see `Scores`, which can do something with it."""

    _tokens: TokenScores | None = None

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
        standardized: bool = False,
        mask_ids: ArrayLike | None = None,
    ) -> None:
        self._values = source_of(values, "values")
        shape = self._values.shape
        if len(shape) not in (1, 2):
            raise ScoresError(f"values must have shape [instances, queries] or [instances], got {list(shape)}.")
        super().__init__(ids, mask_ids)
        if len(self._ids) != shape[0]:
            raise ScoresError(f"there are {len(self._ids)} ids and {shape[0]} rows of values; give one id per row.")
        if queries is not None and len(shape) == 1:
            raise ScoresError("values are [instances], one score each, so queries= has nothing to name.")
        self._queries = None if len(shape) == 1 else query_names(queries, shape[1])
        self._about = About(unit, path, replicas, dict(provenance or {}), standardized)
        self._null = None if null is None else null_scores(null, shape)
        if null_spread is None and self._null is not None:
            null_spread = spread(self._null)
        self._null_spread = None if null_spread is None else per_query(null_spread, shape, "null_spread")
        self._offset = None if offset is None else per_query(offset, shape, "offset")
        self._stderr = None if stderr is None else source_of(stderr, "stderr")
        if self._stderr is not None and self._stderr.shape != shape:
            raise ScoresError(f"stderr must have the shape of values, {list(shape)}, got {list(self._stderr.shape)}.")
        if self._stderr is not None and self._stderr.folder is None and (self._stderr.whole < 0).any():
            raise ScoresError(f"stderr must be >= 0 everywhere, got {float(np.nanmin(self._stderr.whole)):g}.")

    @property
    def values(self) -> Floats:
        """Return the scores, float32 [n, m] or [n]; positive: the training instance helps."""
        return self._values.whole

    @property
    def stderr(self) -> Floats | None:
        """Return standard errors in the shape of values; None: not known.

        They come from the replicas; for one replica they are the standard deviation of the null ids.
        """
        if self._stderr is not None:
            return self._stderr.whole
        return None if self._null_spread is None else np.broadcast_to(self._null_spread, self.shape)

    @property
    def queries(self) -> tuple[Name, ...] | None:
        """Return the names of the m queries; None where an instance has one score."""
        return self._queries

    @property
    def unit(self) -> str:
        """Return what scores are differences of."""
        return self._about.unit

    @property
    def standardized(self) -> bool:
        """Tell whether each query's scores are divided by their root mean square, so that all queries count alike."""
        return self._about.standardized

    @property
    def offset(self) -> Floats | None:
        """Return the mean score of null ids that was subtracted; None: nothing was.

        It has shape [m]; for values [n] it is one number, or [n] where every row is a query of its own.
        """
        return self._offset

    @property
    def null(self) -> Floats | None:
        """Return the scores of null ids on the same queries, [j, m] or [j]; None: not kept."""
        return self._null

    @property
    def null_spread(self) -> Floats | None:
        """Return the standard deviation of null ids' scores, in the shape of `offset`; None: not known."""
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
    def token_scores(self) -> TokenScores | None:
        """Return the scores of the tokens of all rows; None: not kept."""
        return self._tokens

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
        """Tell whether values and all that is known about them are the same in both, NaN equal to NaN.

        Example:
            >>> from turnover.scores import Scores
            >>> Scores([1.0], ids=[7]).equals(Scores([1.0], ids=[8]))
            False
        """
        if not isinstance(other, Content) or self._about != other._about or self._queries != other._queries:
            return False
        arrays = ("_ids", "_mask_ids", "_null", "_null_spread", "_offset", "values", "stderr")
        if not all(same(getattr(self, name), getattr(other, name)) for name in arrays):
            return False
        return other._tokens is None if self._tokens is None else self._tokens.equals(other._tokens)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values for numpy functions."""
        return np.array(self.values, dtype, copy=copy)


def joined(parts: Sequence[Content], over: Over) -> dict[str, Any]:
    """Return what the class `Scores` takes for all parts together."""
    if over not in ("queries", "ids"):
        raise ScoresError(f'over must be "queries" or "ids", got {over!r}.')
    if not parts:
        raise ScoresError("there is nothing to join; give one Scores or more.")
    about = vars(agreed([About.of(part) for part in parts], over))
    _check_known(parts)
    return {**about, **(_over_queries(parts) if over == "queries" else _over_ids(parts))}


def _over_queries(parts: Sequence[Content]) -> dict[str, Any]:
    first = parts[0]
    for place, part in enumerate(parts):
        if part.queries is None:
            raise ScoresError(f'part {place} is one score per instance and has no queries; give over="ids".')
        if not (same(first.ids, part.ids) and same(first.mask_ids, part.mask_ids)):
            raise ScoresError(
                f"ids of part {place} differ from those of part 0, or their order does; "
                "put them in one order with .select(ids=...), or compute the scores of the same ids."
            )
        if first.null is not None and part.null is not None and len(first.null) != len(part.null):
            raise ScoresError(_other_nulls(first.null, part.null, place))
    return {
        "values": joined_arrays([part.values for part in parts], -1),
        "ids": first.ids,
        "mask_ids": first.mask_ids,
        "queries": joined_names([part.queries or () for part in parts]),
        **{name: joined_arrays([_known(part, name) for part in parts], -1) for name in _OPTIONAL},
    }


def _over_ids(parts: Sequence[Content]) -> dict[str, Any]:
    first = parts[0]
    for place, part in enumerate(parts):
        if part.queries != first.queries:
            raise ScoresError(f'queries of part {place} differ from those of part 0; give over="queries".')
        if first.null is not None and part.null is not None and len(first.null) != len(part.null):
            raise ScoresError(_other_nulls(first.null, part.null, place))
        if not near(first.null, part.null):
            raise ScoresError(f"null of part {place} differs from that of part 0: another model or null.")
    # Within a part rows of a group share an id; between parts a shared id was scored twice.
    together = np.sort(np.concatenate([np.unique(part.mask_ids) for part in parts]))
    twice = together[1:][together[1:] == together[:-1]]
    if twice.size:
        name = Names.of(*_all_ids(parts)).shown(twice[:1])[0]
        raise ScoresError(
            f"instance {name} is in more than one part, as are {twice.size - 1} others; join disjoint sets of ids."
        )
    return {
        "values": joined_arrays([part.values for part in parts], 0),
        **dict(zip(("mask_ids", "ids"), _all_ids(parts), strict=True)),
        "queries": first.queries,
        "stderr": joined_arrays([_known(part, "stderr") for part in parts], 0),
        "null": first.null,
        "null_spread": _one_for_all(parts, "null_spread"),
        "offset": _one_for_all(parts, "offset"),
    }


def _all_ids(parts: Sequence[Content]) -> tuple[Ints, Ids]:
    return np.concatenate([part.mask_ids for part in parts]), np.concatenate([part.ids for part in parts])


def _other_nulls(first: Floats, other: Floats, place: int) -> str:
    return (
        f"part 0 has the scores of {len(first)} null ids and part {place} of {len(other)}; their number follows the "
        "size of the job. Compute all parts with the same: estimator=turnover.influence.TurnOver(nulls="
        f"{max(len(first), len(other))})."
    )


def _known(part: Content, name: str) -> Floats | None:
    """Return what a part was given; standard errors that are the standard deviation of null ids are not stderr."""
    if name == "stderr":
        return part.sources["stderr"].whole if "stderr" in part.sources else None
    return getattr(part, name)


def _check_known(parts: Sequence[Content]) -> None:
    """Raise if something is known of some parts only: it would be lost for the others without a word."""
    problems: list[str] = []
    for name in _OPTIONAL:
        known = [place for place, part in enumerate(parts) if _known(part, name) is not None]
        if 0 < len(known) < len(parts):
            other = next(place for place in range(len(parts)) if place not in known)
            problems.append(f"{name} is there in part {known[0]} and not in part {other}")
    if problems:
        raise ScoresError("; ".join(problems) + ". Compute all parts the same way.")


def _one_for_all(parts: Sequence[Content], name: str) -> Floats | None:
    """Return what must be the same in all parts, being about queries; or all of it, where each row is its query."""
    arrays = [_known(part, name) for part in parts]
    shapes = [part.shape for part in parts]
    if any(map(is_per_row, arrays, shapes)):
        pairs = zip(arrays, shapes, strict=True)
        return joined_arrays([np.broadcast_to(array, shape) for array, shape in pairs if array is not None], 0)
    for place, array in enumerate(arrays):
        if not near(arrays[0], array):
            raise ScoresError(f"{name} of part {place} differs from that of part 0: another model or null.")
    return arrays[0]
