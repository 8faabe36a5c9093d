"""Text colored by a number for each token, as in the paper's figure of self-influence.

Values are clipped to a range of percentiles, 70th to 95th as in the paper, so that a few extremes do not leave all else
white. Colors are five tints of one orange with black letters on them: they differ in lightness, which everybody sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ApplicationError

TINTS = ("#fff4d9", "#ffe3a6", "#ffcd6b", "#ffb02e", "#f08c00")
"""Backgrounds from weak to strong."""


@dataclass(frozen=True)
class ColoredText:
    """Tokens with a number and a shade each.

    Attributes:
        values: [tokens]; NaN: not known, never colored.
        shades: [tokens] from 0, at the lower limit or below, to 1, at the upper or above.
        limits: the values between which shades differ.
    """

    tokens: tuple[str, ...]
    values: NDArray[np.float64]
    shades: NDArray[np.float64]
    limits: tuple[float, float]
    joiner: str
    unit: str

    @property
    def steps(self) -> NDArray[np.int64]:
        return np.ceil(np.nan_to_num(self.shades, nan=0.0) * len(TINTS)).astype(np.int64)


def colored_text(
    tokens: Sequence[str],
    values: ArrayLike | Sequence[ArrayLike],
    *,
    percentiles: tuple[float, float] = (70.0, 95.0),
    limits: tuple[float, float] | None = None,
    joiner: str = " ",
    unit: str = "",
) -> ColoredText:
    """Return tokens colored by their values.

    Args:
        tokens: of the text.
        values: [tokens], or [models, tokens], which is averaged; NaN: not known.
        percentiles: of the values, between which colors differ.
        limits: values to take in place of the percentiles, so that several texts share one scale; None: percentiles.
        joiner: what stands between two tokens; "" for tokens that carry their own spaces.
        unit: what the values are: "self-influence".

    Example:
        >>> text = colored_text(["John", "Worthing", ":"], [[0.0, 8.0, 0.0], [0.0, 10.0, 0.5]], unit="self-influence")
        >>> text.steps
        array([0, 5, 0])
    """
    if isinstance(tokens, str):
        raise ApplicationError("tokens must be a list, got one string. Give text.split().")
    words = tuple(str(token) for token in tokens)
    array = np.asarray(values, np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != len(words) or 0 in array.shape:
        raise ApplicationError(
            f"values have shape {list(array.shape)} for {len(words)} tokens. Give one value per token, [tokens] or "
            "[models, tokens]."
        )
    mean = array if array.ndim == 1 else array.mean(0)
    low, high = _limits(mean, percentiles) if limits is None else (float(limits[0]), float(limits[1]))
    if not low <= high:
        raise ApplicationError(f"limits {low} and {high} are out of order. Give (lower, upper).")
    # Where all values in the range are one, what lies above it is as strong as can be.
    shades = np.clip((mean - low) / (high - low), 0, 1) if high > low else (mean > high).astype(np.float64)
    return ColoredText(words, mean, np.where(np.isnan(mean), np.nan, shades), (low, high), joiner, unit)


def _limits(values: NDArray[np.float64], percentiles: tuple[float, float]) -> tuple[float, float]:
    lower, upper = percentiles
    if not 0 <= lower < upper <= 100:
        raise ApplicationError(
            f"percentiles must be two numbers from 0 to 100, the lower first, got {percentiles}. Give (70, 95)."
        )
    known = values[np.isfinite(values)]
    if not known.size:
        raise ApplicationError("no token has a value. Give at least one number.")
    return float(np.percentile(known, lower)), float(np.percentile(known, upper))
