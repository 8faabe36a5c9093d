"""Small charts as geometry: points, bars and ticks in the units of an SVG. Templates draw them, CSS colors them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnover.applications import Histogram

_WIDTH, _HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, _WIDTH - 16, 16, _HEIGHT - 44
_FRAME = {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM}


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two numbers, at most so many and one more."""
    span = high - low
    if not span > 0:
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * size for size in (1, 2, 2.5, 5, 10) if power * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, 12) for place in range(first, math.floor(high / step + 1e-9) + 1)]


def line_chart(series: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return curves over epochs, which are counted from 1; the vertical axis begins at 0."""
    longest = max(len(values) for values in series.values())
    highest = max((value for values in series.values() for value in values), default=1.0) or 1.0
    across = _scale(1, max(longest, 2), _LEFT, _RIGHT)
    up = _scale(0, highest * 1.05, _BOTTOM, _TOP)
    epochs = sorted({max(1, round(tick)) for tick in nice_ticks(1, max(longest, 2), 8)} | {1, longest})
    return {
        **_FRAME,
        "x": [{"at": across(epoch), "text": str(epoch)} for epoch in epochs],
        "y": [{"at": up(tick), "text": f"{tick:g}"} for tick in nice_ticks(0, highest * 1.05)],
        "lines": [
            {
                "name": name,
                "points": " ".join(f"{across(place + 1):.1f},{up(value):.1f}" for place, value in enumerate(values)),
                "end": (across(len(values)), up(values[-1])),
            }
            for name, values in series.items()
            if values
        ],
    }


def bar_chart(histogram: Histogram, *, power: int = 0) -> dict[str, Any]:
    """Return a histogram as bars whose heights follow the logarithm, so that a few rows among thousands are seen."""
    edges, unit, most = histogram.edges, 10.0**power, max([*histogram.counts, 1])
    across = _scale(edges[0], edges[-1], _LEFT, _RIGHT)
    up = _scale(0.0, math.log1p(most) * 1.05, _BOTTOM, _TOP)
    counts = [10**digits for digits in range(len(str(most)))]
    return {
        **_FRAME,
        "x": [{"at": across(tick), "text": f"{tick / unit:g}"} for tick in nice_ticks(edges[0], edges[-1], 6)],
        "y": [{"at": up(math.log1p(count)), "text": f"{count:,.0f}"} for count in counts],
        "bars": [
            {
                "x": across(low) + 0.5,
                "y": up(math.log1p(count)),
                "width": max(across(high) - across(low) - 1, 0.5),
                "height": _BOTTOM - up(math.log1p(count)),
                "text": f"{low / unit:.3g} to {high / unit:.3g}: {count:,}",
            }
            for low, high, count in zip(edges[:-1], edges[1:], histogram.counts, strict=True)
        ],
        "zero": across(0.0) if edges[0] <= 0 <= edges[-1] else None,
    }


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)
