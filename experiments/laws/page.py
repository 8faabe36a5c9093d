"""The results page."""

from pathlib import Path
from typing import Any

_WANTED = {
    "width": ("width of both masked layers", "noise: −0.5"),
    "replicas": ("replicas", "noise: −0.5, signal: 0"),
    "rows": ("training rows, the same number of steps", "signal: −1"),
}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    lines = [
        "# How noise and signal of one pair change",
        "",
        "Digits, an MLP with two masked hidden layers and no trunk. Noise is the spread of scores of never-trained "
        "ids; signal is what is left of the mean square of all scores when that of noise is taken off; both are roots "
        "of means over queries and seeds, in the unit of the loss.",
        "",
    ]
    for name, (title, wanted) in _WANTED.items():
        part = result[name]
        lines += [f"## By {title}", "", "| | noise | signal | signal / noise |", "| --- | --- | --- | --- |"]
        for point in part["points"]:
            (value,) = point["setting"].values()
            numbers = " | ".join(_number(point[kind]) for kind in ("noise", "signal", "ratio"))
            lines.append(f"| {value:,} | {numbers} |")
        fits = ", ".join(f"{kind} {_fit(part[kind])}" for kind in ("noise", "signal"))
        lines += ["", f"Exponents: {fits} (a simple law would give {wanted}).", ""]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "not seen" if value is None else f"{value:.4f}"


def _fit(fit: dict[str, float] | None) -> str:
    return "not fitted" if fit is None else f"{fit['exponent']:.2f} ± {fit['stderr']:.2f}"
