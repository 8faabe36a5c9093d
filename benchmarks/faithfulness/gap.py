"""How far LDS is from the best rival's and from what is possible, and why: noise or bias.

Noise of scores lowers LDS by the square root of their reliability, and R replicas have R times the signal-to-noise
ratio of one model (Spearman-Brown). So one model and R replicas together tell what LDS would be without noise;
what is missing beyond that is bias: the estimate means something else than the retraining does.
"""

import math
from collections.abc import Iterator
from typing import Any

from .goals import RIVALS

Figures = dict[str, Any]


def gaps(result: Figures) -> list[str]:
    """Return a line a task and ground truth."""
    chosen = (result["choice"] or {}).get("default")
    lines = []
    for task in result["tasks"].values():
        for view, name in (("plain", "plain"), ("full", "masked")):
            lines += [f"- {task['setting']['title']}, {name}: {line}" for line in _gap(result, task, view, chosen)]
    return lines or ["Nothing is measured yet."]


def without_noise(one: float, several: float, replicas: int) -> float | None:
    """Return what LDS would be without noise; None where the two do not tell it, being noise themselves.

    Args:
        one: LDS of one model.
        several: LDS of the mean of several replicas.
        replicas: how many.

    Example:
        >>> round(without_noise(0.1, 0.2, 8), 3)  # a seventh of one model's variance is signal
        0.265
    """
    if one <= 0 or several <= one or several**2 >= replicas * one**2:
        return None
    reliability = (replicas * one**2 / several**2 - 1) / (replicas - 1)
    return one / math.sqrt(reliability)


def _gap(result: Figures, task: Figures, view: str, chosen: str | None) -> Iterator[str]:
    found, name = task["methods"], f"lds_{view}"
    known = {method: figures[name]["mean"] for method, figures in found.items() if name in figures}
    rivals = {method: known[method] for method in RIVALS if method in known}
    if chosen not in known or not rivals or "paper" not in known or "replicas" not in known:
        return
    best = max(rivals, key=lambda method: rivals[method])
    one, several, count = known["paper"], known["replicas"], result["setting"]["replicas"]
    spread = found["paper"][name].get("sd")
    known_well = spread is not None and one > spread  # less is noise, and one seed does not tell
    limit = without_noise(one, several, count) if known_well else None
    most = task["ceiling"].get(view)
    text = f"the default has {known[chosen]:.3f}, the best rival, {result['titles'][best]}, {rivals[best]:.3f}"
    text += f", of {most:.3f} that retraining noise allows. " if most is not None else ". "
    text += f"Scores as they are have {one:.3f} from one model and {several:.3f} from {count} replicas"
    if known_well and several <= one:
        text += ": more models do not help, so that noise is not what is missing."
    elif limit is None:
        text += ": too little to tell how much of it is noise."
    else:
        share = (one / limit) ** 2
        text += (
            f", as if {share:.0%} of the variance of one model's were signal; without any noise it would be {limit:.3f}"
        )
        text += (
            ": noise is what they lack."
            if limit >= rivals[best]
            else f". The {rivals[best] - limit:.3f} that they lack beyond are bias: two half networks, neither of "
            "which is the one that is retrained."
        )
    yield text
