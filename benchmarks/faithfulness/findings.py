"""The comparison in a few lines, for the page of all results."""

from collections.abc import Iterator
from typing import Any

from experiments.findings import Finding

from .goals import RIVALS

Figures = dict[str, Any]
_JUDGED = {"lds_plain": "LDS (plain)", "lds_full": "LDS (masked)", "mean_auc": "mean influence, AUC of wrong labels"}


def findings(result: Figures) -> list[Finding]:
    """Return how the default and what is said without validation rows do on all tasks; nothing where none is chosen."""
    chosen = (result["choice"] or {}).get("default")
    return [] if chosen is None else [*_default(result, chosen), *_own(result)]


def _default(result: Figures, chosen: str) -> Iterator[Finding]:
    for name, what in _JUDGED.items():
        told, over_paper, over_rivals = [], [], []
        for task in result["tasks"].values():
            known = {method: found[name]["mean"] for method, found in task["methods"].items() if name in found}
            rivals = {method: known[method] for method in RIVALS if method in known}
            if chosen not in known or "paper" not in known or not rivals:
                continue
            best = max(rivals, key=rivals.__getitem__)
            rival = f"{result['titles'][best]} {rivals[best]:.3f}"
            asked = (chosen, "paper", *rivals)
            once = any(task["methods"][method][name]["sd"] is None for method in asked)
            seeds = " (partly one seed)" if once else ""
            told.append(f"{_short(task)}: {known[chosen]:.3f}, {known['paper']:.3f}, {rival}{seeds}")
            over_paper.append(known[chosen] > known["paper"])
            over_rivals.append(known[chosen] > rivals[best])
        if told:
            yield Finding(
                what=f"{what}: the default, the paper's estimate, the best rival",
                paper="–",
                ours="; ".join(told),
                setting=f"{result['titles'][chosen]}, trainings: {len(result['setting']['seeds'])}",
                agreement=f"{what[0].upper()}{what[1:]}: the default is above the paper's estimate on "
                f"{sum(over_paper)} of {len(told)} tasks, above every rival that was measured on {sum(over_rivals)}.",
            )


def _own(result: Figures) -> Iterator[Finding]:
    told, enough = [], []
    for task in result["tasks"].values():
        ours, folds = (task["methods"].get(name, {}).get("unseen_found") for name in ("two_views", "cleanlab"))
        if ours and folds:
            told.append(f"{_short(task)}: {ours['mean']:.3f}, {folds['mean']:.3f}")
            enough.append(ours["mean"] - folds["mean"] > -max(ours["sd"] or 0.0, folds["sd"] or 0.0))
    if told:
        yield Finding(
            what="wrong labels in the worst 10 % without validation rows: ours, cleanlab's",
            paper="–",
            ours="; ".join(told),
            setting=f"{result['titles']['two_views']}, trainings: {len(result['setting']['own_seeds'])}",
            agreement=f"From one training no fewer wrong labels are found than by {result['titles']['cleanlab']}, "
            f"beyond one standard deviation, on {sum(enough)} of {len(told)} tasks.",
        )


def _short(task: Figures) -> str:
    return task["setting"]["title"].partition(",")[0]
