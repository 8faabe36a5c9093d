"""Small charts as geometry: points, bars and ticks in the units of an SVG. Templates draw them, CSS colors them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnover.applications import Histogram

WIDTH, HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 44


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where it is, and what stands there."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """One curve: its name, its points as SVG has them, and where it ends."""

    name: str
    points: str
    end: tuple[float, float]
    last: float


@dataclass(frozen=True)
class Bar:
    """One bar: its box, and what it stands for."""

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A chart: axes, and lines or bars within them."""

    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    outline: str = ""  # points of a stepped line over the bars; empty: none
    zero: float | None = None  # where 0 lies on the horizontal axis; None: outside
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM


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


def line_chart(series: Mapping[str, Sequence[float]]) -> Chart:
    """Return curves over epochs, which are counted from 1; the vertical axis begins at 0."""
    longest = max(len(values) for values in series.values())
    highest = max((value for values in series.values() for value in values), default=1.0) or 1.0
    across = _scale(1, max(longest, 2), _LEFT, WIDTH - _RIGHT)
    up = _scale(0, highest * 1.05, HEIGHT - _BOTTOM, _TOP)
    lines = tuple(
        Line(
            name,
            " ".join(f"{across(place + 1):.1f},{up(value):.1f}" for place, value in enumerate(values)),
            (across(len(values)), up(values[-1])),
            values[-1],
        )
        for name, values in series.items()
        if values
    )
    epochs = sorted({max(1, round(tick)) for tick in nice_ticks(1, max(longest, 2), 8)} | {1, longest})
    return Chart(
        tuple(Tick(across(epoch), str(epoch)) for epoch in epochs),
        tuple(Tick(up(tick), f"{tick:g}") for tick in nice_ticks(0, highest * 1.05)),
        lines,
    )


def bar_chart(histogram: Histogram, *, power: int = 0, log: bool = False) -> Chart:
    """Return a histogram as bars, null ids as a stepped line over them.

    With `log` heights follow the logarithm, so that a few rows among thousands are seen.
    """
    edges, unit = histogram.edges, 10.0**power
    across = _scale(edges[0], edges[-1], _LEFT, WIDTH - _RIGHT)
    most = max([*histogram.counts, *histogram.null, 1])
    height = math.log1p if log else float
    up = _scale(0.0, height(most) * 1.05, HEIGHT - _BOTTOM, _TOP)
    floor = up(0.0)
    bars = tuple(
        Bar(
            across(low) + 0.5,
            up(height(count)),
            max(across(high) - across(low) - 1, 0.5),
            floor - up(height(count)),
            f"{low / unit:.3g} to {high / unit:.3g}: {count:,}",
        )
        for low, high, count in zip(edges[:-1], edges[1:], histogram.counts, strict=True)
    )
    steps: list[str] = []
    for low, high, count in zip(edges[:-1], edges[1:], histogram.null or (), strict=False):
        level = up(height(count))
        steps += [f"{across(low):.1f},{level:.1f}", f"{across(high):.1f},{level:.1f}"]
    counts = [10**digits for digits in range(len(str(most)))] if log else nice_ticks(0, most * 1.05)
    return Chart(
        tuple(Tick(across(tick), f"{tick / unit:g}") for tick in nice_ticks(edges[0], edges[-1], 6)),
        tuple(Tick(up(height(count)), f"{count:,.0f}") for count in counts),
        bars=bars,
        outline=" ".join(steps),
        zero=across(0.0) if edges[0] <= 0 <= edges[-1] else None,
    )


def _scale(low: float, high: float, start: float, end: float):
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)
