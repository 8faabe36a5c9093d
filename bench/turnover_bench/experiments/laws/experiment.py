"""How noise and signal of one pair change with width, replicas and rows."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import turnover
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.digits_network import QUERIES_FROM, digit_queries, digits_recipe
from turnover_bench.experiments.findings import Finding, paragraphs
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import growth


@dataclass(frozen=True)
class Config:
    """Settings of one size; each sweep varies one thing and leaves the others at `hidden`, 1 and all rows.

    Attributes:
        hidden: width of both hidden layers where it is not varied.
        widths: that are tried.
        replicas: numbers of replicas that are tried.
        rows: numbers of training rows that are tried; the number of steps stays the same.
        steps: of every training.
        queries: digits that are asked about.
        seeds: trainings of every setting.
    """

    hidden: int = 256
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    replicas: tuple[int, ...] = (1, 2, 4, 8)
    rows: tuple[int, ...] = (90, 180, 359, 718, 1437)
    steps: int = 460
    queries: int = 100
    seeds: int = 3


SIZES = {
    "toy": Config(hidden=16, widths=(8, 16, 32), replicas=(1, 2, 3), rows=(30, 60, 90), steps=10, queries=3, seeds=1),
    "small": Config(),
    "medium": Config(hidden=512, queries=360, seeds=5),
    "full": Config(hidden=512, widths=(64, 128, 256, 512, 1024, 2048, 4096), queries=360, seeds=10),
}
NEEDS = {"medium": Needs(disk=0.1, memory=2, hours=0.4)}


_BATCH = 64


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return noise and signal for every setting, and the exponents with which they change."""
    sweeps: dict[str, list[dict[str, Any]]] = {
        "width": [{"hidden": width} for width in config.widths],
        "replicas": [{"replicas": count} for count in config.replicas],
        "rows": [{"rows": count} for count in config.rows],
    }
    jobs = [(name, setting, seed) for name in sweeps for setting in sweeps[name] for seed in range(config.seeds)]
    found = [(name, setting, _measured(config, setting, seed, out)) for name, setting, seed in tqdm(jobs, desc="laws")]
    result: dict[str, Any] = {}
    for name, settings in sweeps.items():
        points = [_point(setting, [m for n, s, m in found if n == name and s == setting]) for setting in settings]
        sizes = [next(iter(point["setting"].values())) for point in points]
        result[name] = {
            "points": points,
            "noise": _exponent(sizes, [point["noise"] for point in points]),
            "signal": _exponent(sizes, [point["signal"] for point in points]),
        }
    reference = {"hidden": config.hidden}
    result["reference"] = next(p for p in result["width"]["points"] if p["setting"] == reference)
    return result


def _measured(config: Config, setting: dict[str, int], seed: int, out: Path) -> dict[str, float]:
    name = "-".join(f"{key}-{value}" for key, value in setting.items())
    return kept(out / "parts" / f"{name}-seed-{seed}.json", partial(_noise_and_signal, config, setting, seed))


def _noise_and_signal(config: Config, setting: dict[str, int], seed: int) -> dict[str, float]:
    rows = setting.get("rows", QUERIES_FROM)
    epochs = max(1, round(config.steps / math.ceil(rows / _BATCH)))
    recipe, _ = digits_recipe(**{"hidden": config.hidden, **setting}, seed=seed, epochs=epochs)
    asked = turnover.Influence(recipe.fit(seed=seed))
    scores = asked.pairwise(digit_queries(config.queries), ids=range(rows))
    noise = np.asarray(scores.noise.std, np.float64)
    excess = np.square(scores.values.astype(np.float64)).mean(0) - np.square(noise)
    # The variance of noise and of scores, query by query; a signal can come out below zero, so means are taken first.
    return {"noise": float(np.square(noise).mean()), "signal": float(excess.mean())}


def _point(setting: dict[str, int], measured: list[dict[str, float]]) -> dict[str, Any]:
    noise = math.sqrt(np.mean([one["noise"] for one in measured]))
    signal = float(np.mean([one["signal"] for one in measured]))
    root = math.sqrt(signal) if signal > 0 else None
    return {"setting": setting, "noise": noise, "signal": root, "ratio": None if root is None else root / noise}


def _exponent(sizes: list[int], values: list[float | None]) -> dict[str, float] | None:
    known = [(size, value) for size, value in zip(sizes, values, strict=True) if value is not None]
    if len(known) < 3:
        return None
    fit = growth([size for size, _ in known], [value for _, value in known])
    return {"exponent": fit.exponent, "stderr": fit.stderr}


_LAW_WORDS = {
    "width": ("width of both masked layers", "noise: −0.5"),
    "replicas": ("replicas", "noise: −0.5, signal: 0"),
    "rows": ("training rows, the same number of steps", "signal: −1"),
}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    lines = [
        "# How noise and signal of one pair change",
        "Digits, an MLP with two masked hidden layers and no trunk. Noise is the standard deviation of scores of "
        "null ids; signal is the mean square of all scores without that of noise; both are roots of means over queries "
        "and seeds, in the unit of the loss.",
    ]
    for name, (title, expected) in _LAW_WORDS.items():
        part = result[name]
        rows = [
            [f"{size:,}", *(_number(point[kind]) for kind in ("noise", "signal", "ratio"))]
            for point in part["points"]
            for size in point["setting"].values()
        ]
        lines += [f"## By {title}", markdown_table([name, "noise", "signal", "signal / noise"], rows)]
        fits = ", ".join(f"{kind} {_fit(part[kind])}" for kind in ("noise", "signal"))
        lines.append(f"Exponents: {fits} (a simple law would give {expected}).")
    return paragraphs(lines)


def _number(value: float | None) -> str:
    return "not measurable" if value is None else f"{value:.4f}"


def _fit(fit: dict[str, float] | None) -> str:
    return "not fitted" if fit is None else f"{fit['exponent']:.2f} ± {fit['stderr']:.2f}"


_LAWS = (
    ("replicas", "noise", "Noise by replicas", -0.5, "noise falls as one over the root of the replicas"),
    ("rows", "signal", "Signal by training rows", -1.0, "the influence of one row falls as one over the rows"),
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
        return "too few points show a signal to fit a law"
    off = abs(fit["exponent"] - simple)
    # The error of a fit over few points on one line may be tiny, where a tenth is not another law.
    if off <= max(0.1, 2 * fit["stderr"]):
        return f"{law}, as a simple law says"
    return f"not as a simple law says, where {law}: {fit['exponent']:.2f} instead of {simple:g}"
