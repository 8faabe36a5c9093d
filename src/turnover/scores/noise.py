"""How much of what scores show is noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ScoresError

from .arrays import Floats, floats
from .content import Content
from .source import InMemory, Source, blocks

_Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """How much of the spread of scores is noise, for each query [m], or one number for scores [n].

    Attributes:
        spread: standard deviation of pure noise: that of never-trained ids where they were scored, else the standard
            error that the replicas show.
        ratio: `spread` divided by the standard deviation of the scores. 1: they are spread as if nothing had been
            learned from the instances.
        signal: share of the variance of scores that noise does not explain, 1 − ratio², at least 0.
    """

    spread: Floats
    ratio: Floats
    signal: Floats

    def __repr__(self) -> str:
        """Return both shares, in the middle of all queries."""
        which = "" if self.ratio.ndim == 0 else " (median of the queries)"
        return (
            f"noise is {_middle(self.ratio):.2f} of the spread of scores, "
            f"signal {_middle(self.signal):.0%} of their variance{which}"
        )


def noise_of(scores: Content) -> Noise:
    """Return how much of the spread of scores is noise."""
    if scores.null_spread is not None:
        noise = np.asarray(scores.null_spread, np.float64)
        if len(scores.shape) == 1 and noise.ndim == 1:  # every row is its own query
            noise = _mean_square_and_variance(InMemory(scores.null_spread))[0] ** 0.5
    elif "stderr" in scores.sources:
        noise = _mean_square_and_variance(scores.sources["stderr"])[0] ** 0.5
    else:
        raise ScoresError(
            "the noise of these scores is not known: they have neither scores of never-trained ids nor standard "
            "errors. Compute them with turnover.Influence, which keeps both, or give null= or stderr=."
        )
    _, variance = _mean_square_and_variance(scores.sources["values"])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = noise / np.sqrt(variance)
    signal = np.maximum(1 - np.square(ratio), 0)
    return Noise(floats(noise, "spread"), floats(ratio, "ratio"), floats(signal, "signal"))


def _mean_square_and_variance(source: Source) -> tuple[_Doubles, _Doubles]:
    """Return both for each query, of the numbers that are finite; NaN where there are too few."""
    count, total, squares = np.zeros((3, *source.shape[1:]))
    for _, _, part in blocks(source):
        finite = np.isfinite(part)
        known = np.where(finite, part, np.float32(0)).astype(np.float64)
        count = count + finite.sum(axis=0)
        total = total + known.sum(axis=0)
        squares = squares + np.square(known).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(squares - np.square(total) / count, 0) / (count - 1)
        return squares / count, np.where(count > 1, variance, np.nan)


def _middle(numbers: Floats) -> float:
    known = numbers[np.isfinite(numbers)]
    return float(np.median(known)) if known.size else float("nan")
