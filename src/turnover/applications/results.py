"""What all findings share: plain JSON by one serializer, tables, significance, and checks of what a caller gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from turnover.errors import ApplicationError, ScoresError
from turnover.scores import Scores, Top, checked_level, load_pandas
from turnover.storage import as_plain

if TYPE_CHECKING:
    import pandas

NoiseFrom = Literal["null_ids", "replicas"] | None
"""What tells signal from noise: scores of null ids, the disagreement of replicas, or nothing."""

_FEWEST_REPLICAS = 3


class Result:
    """A frozen dataclass whose `as_dict` is its one JSON schema, whoever prints it."""

    _also: ClassVar[tuple[str, ...]] = ()
    """Properties that stand beside the fields."""
    _hidden: ClassVar[tuple[str, ...]] = ()
    """Fields that are left out: arrays of all rows."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        names = [field.name for field in fields(self) if field.name not in self._hidden]  # pyright: ignore[reportArgumentType]
        return {name: as_plain(getattr(self, name)) for name in (*names, *self._also)}


def table_of(rows: Sequence[Any], kind: type, before: Mapping[str, Sequence[Any]] | None = None) -> "pandas.DataFrame":
    """Return dataclasses of one kind as a table, a column per field, also where there are no rows; needs pandas."""
    columns = {**(before or {}), **{field.name: [getattr(row, field.name) for row in rows] for field in fields(kind)}}
    return load_pandas().DataFrame(columns)


def entry(values: NDArray[np.floating] | None, place: Any) -> float | None:
    """Return one number of an array; None where the array is not known or the number is not finite."""
    return None if values is None or not np.isfinite(values[place]) else float(values[place])


def checked_labels(labels: Any, count: int) -> NDArray[Any]:
    """Return labels as an array [count], or raise."""
    array = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    if array.shape != (count,):
        raise ApplicationError(
            f"labels have shape {list(array.shape)} for {count} training instances. Give one label for each, in the "
            "order of the training data."
        )
    return array


def checked_count(count: Any, name: str, *, least: int = 1, such_as: str = "10") -> int:
    """Return an integer that is large enough, or raise."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
        raise ApplicationError(f"{name} must be an integer >= {least}, got {count!r}. Give {name}={such_as}.")
    return int(count)


def noise_from(scores: Scores | Top) -> NoiseFrom:
    """Return what the significance of scores is judged by.

    Example:
        >>> noise_from(Scores([1.0], ids=[7], null=[0.0, 0.1])), noise_from(Scores([1.0], ids=[7]))
        ('null_ids', None)
        >>> noise_from(Scores([1.0], ids=[7], stderr=[0.1], replicas=3))
        'replicas'
    """
    if isinstance(scores, Top):
        return "null_ids" if scores.helpful_p is not None else "replicas" if scores.knows_noise else None
    if scores.null is not None:
        return "null_ids"
    return "replicas" if scores.replicas >= _FEWEST_REPLICAS and "stderr" in scores.sources else None


@dataclass(frozen=True)
class Noise:
    """Standard errors, p-values and marks of scores; None where they are not known."""

    stderr: NDArray[np.floating] | None
    p_values: NDArray[np.floating] | None
    significant: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: Scores, level: float) -> "Noise":
        """Return those of scores; none is significant where noise is not known.

        Without null ids replicas tell what is, and there are no p-values: these are probabilities of null ids.
        """
        level = checked_level(level)
        try:
            p_values = None if scores.null is None else scores.p_values()
            return cls(scores.stderr, p_values, scores.significant(level))
        except ScoresError:  # one or two replicas, and no null ids
            return cls(scores.stderr, None, np.zeros(scores.shape, bool))

    def at(self, place: Any) -> dict[str, Any]:
        """Return what is known of one score, as fields of a finding."""
        error, p_value = entry(self.stderr, place), entry(self.p_values, place)
        return {"stderr": error, "p_value": p_value, "significant": bool(self.significant[place])}


@dataclass(frozen=True)
class Histogram(Result):
    """How many values lie between edges, one more than counts; the outermost bins hold what lies beyond, too."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


def histogram(scores: Scores, *, bins: int = 40, tails: float = 0.5) -> Histogram | None:
    """Return how finite scores are distributed; None: there are none.

    The outermost bins hold `tails` percent of the scores on either side.
    """
    values = scores.values[np.isfinite(scores.values)].astype(np.float64)
    if not len(values):
        return None
    low, high = np.percentile(values, [tails, 100 - tails])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(values, low, high), bins, (low, high))
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))
