"""What all metrics share: scores of any library as a matrix, correlations of columns, and bootstrap intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import MissingExtraError, ScoresError
from turnover.scores import Scores

Floats = NDArray[np.float64]
AnyScores = Scores | ArrayLike | Tensor


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made: the number of samples, the share of them within, and their seed."""

    draws: int = 1000
    level: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class Interval:
    """A percentile interval; both ends are NaN where there was a single value to draw from."""

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def interval_of(statistic: Callable[[np.random.Generator], float], bootstrap: Bootstrap) -> Interval:
    """Return the interval of a statistic that is computed anew for every sample; samples that give NaN are skipped."""
    rng = np.random.default_rng(bootstrap.seed)
    samples = np.array([statistic(rng) for _ in range(bootstrap.draws)])
    samples = samples[np.isfinite(samples)]
    if not samples.size:
        return Interval(np.nan, np.nan, bootstrap.level)
    outside = (1 - bootstrap.level) / 2
    low, high = np.quantile(samples, [outside, 1 - outside])
    return Interval(float(low), float(high), bootstrap.level)


def mean_interval(values: Floats, bootstrap: Bootstrap) -> Interval:
    """Return the interval of the mean of values, which are drawn with replacement; NaN are skipped.

    Example:
        >>> interval = mean_interval(np.array([0.1, 0.3, 0.2, 0.4]), Bootstrap())
        >>> 0.1 < interval.low < 0.25 < interval.high < 0.4
        True
    """
    known = values[np.isfinite(values)]
    if known.size < 2:
        return Interval(np.nan, np.nan, bootstrap.level)
    return interval_of(lambda rng: float(rng.choice(known, known.size).mean()), bootstrap)


def mean_of_known(values: Floats) -> float:
    """Return the mean of the values that are not NaN; NaN where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def average_ranks(values: Floats) -> Floats:
    """Return the rank of every value within its column, from 1; equal values share the mean of their ranks."""
    try:
        from scipy.stats import rankdata
    except ImportError as error:
        raise MissingExtraError(
            f"rank correlations need scipy ({error}), which comes with scikit-learn: pip install 'turnover[sklearn]'."
        ) from error
    return rankdata(values, axis=0)


def spearman(one: Floats, other: Floats) -> Floats:
    """Return Spearman's rank correlation of every column of [n, ...] with that of the other; NaN where one is constant.

    Example:
        >>> round(float(spearman(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3]))), 6)
        1.0
    """
    a, b = (ranks - ranks.mean(0) for ranks in map(average_ranks, (one, other)))
    with np.errstate(invalid="ignore", divide="ignore"):
        result = (a * b).sum(0) / np.sqrt((a * a).sum(0) * (b * b).sum(0))
    return np.asarray(np.clip(result, -1.0, 1.0))


def matrix_of(scores: AnyScores, *, ids: ArrayLike | None = None, name: str = "scores") -> Floats:
    """Return scores as float64 [rows, queries], `Scores` in the order of `ids`; scores [rows] become one column."""
    if isinstance(scores, Scores):
        row_ids = None if ids is None else np.asarray(scores.names.mask_ids(ids, error=ScoresError))
        values = scores.values[_places(scores.mask_ids, row_ids, name)].astype(np.float64)
    else:
        values = np.asarray(scores.detach().cpu() if isinstance(scores, Tensor) else scores, np.float64)
        if ids is not None and values.ndim and len(values) != len(np.asarray(ids)):
            raise ScoresError(
                f"{name} have {len(values)} rows and there are {len(np.asarray(ids))} ids. Give one row per id."
            )
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        raise ScoresError(f"{name} have shape {list(values.shape)}. Give [rows, queries], or [rows].")
    failed = int((~np.isfinite(values)).sum())
    if failed:
        raise ScoresError(f"{failed} of {values.size} {name} are not finite. Remove those rows or queries first.")
    return values


def _places(have: NDArray[np.int64], row_ids: NDArray[Any] | None, name: str) -> Any:
    """Return the place of every row's id among those that the scores have."""
    if np.array_equal(have, np.arange(len(have)) if row_ids is None else row_ids):
        return slice(None)
    if row_ids is None:
        raise ScoresError(
            f"{name} have ids of their own ({have[:3].tolist()}...), not row numbers. "
            "Give the id of every row: ids=recipe.ids."
        )
    if len(np.unique(have)) < len(have) or len(np.unique(row_ids)) < len(row_ids):
        raise ScoresError(f"{name} and ids are in another order, and rows that share an id cannot be told apart.")
    order = np.argsort(have)
    places = order[np.searchsorted(have, row_ids, sorter=order).clip(max=len(have) - 1)]
    missing = row_ids[have[places] != row_ids]
    if missing.size:
        raise ScoresError(
            f"{name} lack {missing.size} of {row_ids.size} instances ({missing[:5].tolist()}...). Score all of them."
        )
    return places
