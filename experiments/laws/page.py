"""The results page."""

from pathlib import Path
from typing import Any

from experiments.findings import Finding

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


_LAWS = (
    ("replicas", "noise", "Noise by replicas", -0.5, "noise falls as one over the root of the replicas"),
    ("rows", "signal", "Signal by training rows", -1.0, "what one row does falls as one over the rows"),
    ("width", "noise", "Noise by width", -0.5, "noise falls as one over the root of the width"),
)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return the exponents beside those of simple laws."""
    found = []
    for part, kind, what, simple, law in _LAWS:
        fit, points = result[part][kind], result[part]["points"]
        ends = [next(iter(points[place]["setting"].values())) for place in (0, -1)]
        found.append(
            Finding(
                what=f"{what}: exponent",
                paper="–",
                ours=_fit(fit),
                setting=f"digits, {len(points)} points from {ends[0]:,} to {ends[1]:,}",
                agreement=f"{what}: {_verdict(fit, simple, law)}.",
            )
        )
    return found


def _verdict(fit: dict[str, float] | None, simple: float, law: str) -> str:
    if fit is None:
        return "too few points show a signal for a law"
    off = abs(fit["exponent"] - simple)
    # The error of a fit over few points on one line may be tiny, where a tenth is no other law.
    if off <= max(0.1, 2 * fit["stderr"]):
        return f"{law}, as a simple law says"
    return f"not as a simple law says, by which {law}: {fit['exponent']:.2f} in place of {simple:g}"
