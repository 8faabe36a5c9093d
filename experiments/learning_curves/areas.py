"""How far two curves lie apart: the area between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

Curves = Sequence[Mapping[str, float]]

PAIRS = {
    "flip_test": ("flip", "test"),
    "keep_test": ("keep", "test"),
    "flip_test_half": ("flip", "test_half"),
    "keep_test_half": ("keep", "test_half"),
    "flip_held_out": ("flip", "held_out"),
    "keep_held_out": ("keep", "held_out"),
}


def areas(curves: Curves) -> dict[str, float]:
    """Return the areas between curves as mean distances over the training, and what of keep's remains for flip.

    `ratio` is the area between flip and test over that between keep and test: 0, the flipped curve is the test curve;
    1, it is no nearer than the kept one. `ratio_half` and `ratio_held_out` have other curves in the place of test.
    """
    found = {name: area(curves, *pair) for name, pair in PAIRS.items()}
    for ending in ("", "_half", "_held_out"):
        other = "held_out" if ending == "_held_out" else f"test{ending}"
        found[f"ratio{ending}"] = found[f"flip_{other}"] / found[f"keep_{other}"]
    last = curves[-1]
    return {**found, **{f"{name}_end": last[name] for name in ("keep", "flip", "test")}}


def area(curves: Curves, one: str, other: str) -> float:
    """Return the area between two curves by the rule of trapezoids, over the steps: their mean distance.

    Between two points the distance is taken for a straight line, also where the curves cross.

    Example:
        >>> area([{"step": 0, "a": 1.0, "b": 1.0}, {"step": 10, "a": 0.0, "b": 1.0}], "a", "b")
        0.5
    """
    apart = [(point["step"], abs(point[one] - point[other])) for point in curves]
    pieces = [(right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(apart)]
    return sum(pieces) / (apart[-1][0] - apart[0][0])
