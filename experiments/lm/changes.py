"""Differences between trainings, seed by seed."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

Runs = Sequence[Mapping[str, float]]


def change(some: Runs, others: Runs, what: str) -> list[float]:
    """Return by how many per cent perplexity is higher, for every seed.

    Args:
        some: trainings.
        others: those they are compared with, of the same seeds.
        what: which perplexity.

    Example:
        >>> change([{"all": 110.0}], [{"all": 100.0}], "all")
        [10.0]
    """
    return [round(100 * (one[what] / other[what] - 1), 6) for one, other in zip(some, others, strict=True)]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error; of one value the error is 0.

    Example:
        >>> mean_and_error([1.0, 3.0])
        (2.0, 1.0)
    """
    return mean(values), stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def verdict(values: Sequence[float]) -> str:
    """Return "higher", "lower", or "" where Student's 95 % interval of the mean includes 0 or there is one seed alone.

    Example:
        >>> verdict([2.0, 2.1, 1.9]), verdict([-1.0, 1.0, 0.5])
        ('higher', '')
    """
    from scipy.stats import t

    middle, error = mean_and_error(values)
    if len(values) < 2 or abs(middle) <= t.ppf(0.975, len(values) - 1) * error:
        return ""
    return "higher" if middle > 0 else "lower"
