"""Figures of an earlier run with the same settings, kept where the run at hand has fewer seeds, and marked as such.

Cells lie in runs/, which is not published: without this, whoever measures one method more on another machine would
lose all others.
"""

import json
from pathlib import Path
from typing import Any

from experiments.runner import as_json

Figures = dict[str, Any]
MARK = "earlier"


def with_earlier(result: Figures, file: Path) -> Figures:
    """Return a result with what a published one knows beyond it; figures taken from there have the key `MARK`.

    Args:
        result: of the run at hand.
        file: the published result; where there is none, or one of other settings, nothing is taken.
    """
    result = as_json(result)
    earlier = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if any(earlier.get(key) != result[key] for key in ("size", "setting")):
        return result
    same = [
        name
        for name, task in result["tasks"].items()
        if task["setting"] == earlier["tasks"].get(name, {}).get("setting")
    ]
    if result["choice"] is None and set((earlier["choice"] or {}).get("tasks", ())) <= set(same):
        result["choice"] = earlier["choice"]
    default = (result["choice"] or {}).get("default")
    for name in same:
        task, before = result["tasks"][name], earlier["tasks"][name]
        known = {*task["methods"], *task["missing"], default}
        task["methods"] = {
            method: figures
            for method in result["titles"]
            if method in known and (figures := _more(task["methods"].get(method), before["methods"].get(method)))
        }
        task["missing"] = [method for method in task["missing"] if method not in task["methods"]]
        task["ceiling"] = {
            view: before["ceiling"].get(view) if value is None else value for view, value in task["ceiling"].items()
        }
        for part in ("chosen_on", "explored"):
            if name in result[part]:
                result[part][name] = _filled(result[part][name], earlier[part].get(name, {}))
    return result


def _filled(now: Figures, before: Figures) -> Figures:
    return {name: _more(now.get(name), before.get(name)) for name in now | before}


def _more(now: Figures | None, before: Figures | None) -> Figures | None:
    """Return the figures with more seeds; those at hand where both have as many."""
    if before is None or (now is not None and _seeds(now) >= _seeds(before)):
        return now
    return before | {MARK: True}


def _seeds(figures: Figures) -> int:
    return figures["score_seconds"]["seeds"]
