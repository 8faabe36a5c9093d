"""Training in every setting, and what is noise and what is signal in its scores."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import turnover
from experiments.digits_network import QUERIES_FROM, digit_queries, digits_recipe
from experiments.timing import growth

from .config import Config

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
    file = out / f"{name}-seed-{seed}.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    rows = setting.get("rows", QUERIES_FROM)
    epochs = max(1, round(config.steps / math.ceil(rows / _BATCH)))
    recipe, _ = digits_recipe(**{"hidden": config.hidden, **setting}, seed=seed, epochs=epochs)
    asked = turnover.Influence(recipe.fit(seed=seed))
    scores = asked.pairwise(digit_queries(config.queries), ids=range(rows))
    noise = np.asarray(scores.noise.spread, np.float64)
    excess = np.square(scores.values.astype(np.float64)).mean(0) - np.square(noise)
    # The variance of noise and of scores, query by query; a signal can come out below zero, so means are taken first.
    measured = {"noise": float(np.square(noise).mean()), "signal": float(excess.mean())}
    file.write_text(json.dumps(measured), encoding="utf-8")
    return measured


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
