"""What was aimed at, and whether it was reached: a table of goals by tasks, made of the numbers."""

from collections.abc import Iterator
from typing import Any

Figures = dict[str, Any]
Told = Iterator[tuple[str, str]]  # a goal, and what a task says of it

_MEAN_AUC, _MEAN_FOUND = 0.93, 0.85
RIVALS = ("tracin", "tracin_fast", "trak_1", "trak_5", "ekfac", "ekfac_damped")
_LDS = {"lds_plain": "LDS (plain)", "lds_full": "LDS (masked)"}
_KINDS = {"self_found": "self-influence", "unseen_found": "unseen"}
_SOME = 0.02  # LDS below this is nothing that one could be so many times above


def goals(result: Figures) -> list[str]:
    """Return the table, and what its words mean."""
    chosen = (result["choice"] or {}).get("default")
    if chosen is None:
        return ["There is no default yet."]
    columns = {
        task["setting"]["title"]: dict(_task(result, task["methods"], chosen))
        for task in result["tasks"].values()
        if chosen in task["methods"] and "paper" in task["methods"]
    }
    if not columns:
        return ["Nothing is measured yet."]
    rows = dict.fromkeys(goal for column in columns.values() for goal in column)
    return [
        "Ours first, then what it is compared with. Above means by the mean over seeds; one sd is the larger of the "
        "two. (one seed): a part of the figures has one seed only, which settles nothing.",
        "",
        # Not padded to one width: cells are sentences here, and their source would be as wide as all together.
        _line("goal", *columns),
        _line(*["---"] * (1 + len(columns))),
        *(_line(goal, *(column.get(goal, "–") for column in columns.values())) for goal in rows),
    ]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _task(result: Figures, found: Figures, chosen: str) -> Told:
    yield from _against_paper(found, chosen)
    yield from _mean(found[chosen])
    for name, what in {"mean_auc": "mean influence (AUC)", **_LDS}.items():
        yield from _above_rivals(result, found, chosen, name, what)
    for name in ("paper", "replicas", "masks_alone", "two_views", "whole_loss"):
        yield from _own(result, found, name)


def _against_paper(found: Figures, chosen: str) -> Told:
    ours, paper = found[chosen], found["paper"]
    for name, what in {**_LDS, "mean_auc": "mean influence (AUC)"}.items():
        double = name in _LDS
        goal = f"{what} {'twice' if double else 'above'} the paper's estimate, by more than one sd"
        if name not in ours or name not in paper:
            yield goal, "not measured"
            continue
        one, other = ours[name], paper[name]
        enough = one["mean"] - other["mean"] > _sd(one, other) and (not double or one["mean"] >= 2 * other["mean"])
        times = f" ({one['mean'] / other['mean']:.1f} times)" if double and other["mean"] > _SOME else ""
        yield goal, f"{_verdict(enough, one, other)} {one['mean']:.3f}, {other['mean']:.3f}{times}"


def _mean(ours: Figures) -> Told:
    auc, share = ours["mean_auc"], ours["mean_found"]
    enough = auc["mean"] >= _MEAN_AUC and share["mean"] >= _MEAN_FOUND
    goal = f"mean influence: AUC ≥ {_MEAN_AUC} and ≥ {_MEAN_FOUND} of the wrong labels in the worst 10 %"
    yield goal, f"{_verdict(enough, auc)} {auc['mean']:.3f}, {share['mean']:.3f}"


def _above_rivals(result: Figures, found: Figures, chosen: str, name: str, what: str) -> Told:
    others = {rival: found[rival][name] for rival in RIVALS if name in found.get(rival, {})}
    if not others or name not in found[chosen]:
        return
    mine, titles = found[chosen][name], result["titles"]
    above = {rival: value for rival, value in others.items() if value["mean"] >= mine["mean"]}
    best = max(others, key=lambda rival: others[rival]["mean"])
    shown = above or {best: others[best]}
    told = ("" if above else "the best of them ") + ", ".join(
        f"{titles[rival]} {value['mean']:.3f}" for rival, value in shown.items()
    )
    unknown = [titles.get(rival, rival) for rival in RIVALS if rival not in others]
    yield (
        f"{what} above every rival's",
        f"{_verdict(not above, mine, *others.values())} {mine['mean']:.3f}; {told}"
        + (f"; not measured: {', '.join(unknown)}" if unknown else ""),
    )


def _own(result: Figures, found: Figures, name: str) -> Told:
    """Compare what is said of a row without validation rows; against cleanlab, the time too."""
    kinds = {kind: found[name][key] for key, kind in _KINDS.items() if key in found.get(name, {})}
    if not kinds:
        return
    if name == "whole_loss":  # it stands in the column of self-influence, for it too has seen the row
        kinds = {"loss": kinds["self-influence"]}
    told = ", ".join(f"{kind} {_told(one)}" for kind, one in kinds.items())
    title = result["titles"][name]
    if "cleanlab" in found:
        other = found["cleanlab"]["unseen_found"]
        ours, theirs = _seconds(found[name]), _seconds(found["cleanlab"])
        enough = any(one["mean"] - other["mean"] > -_sd(one, other) for one in kinds.values())
        late = enough and ours >= theirs
        yield (
            f"{title}: no fewer in the worst 10 %, beyond one sd, than {result['titles']['cleanlab']}, in less time",
            f"{_verdict(enough and not late, other, *kinds.values())} {told}; {_told(other)}; in {ours:.1f}, "
            f"{theirs:.1f} s" + (", not in less time" if late else ""),
        )
    if "training_loss" in found:
        other = found["training_loss"]["self_found"]
        enough = any(one["mean"] > other["mean"] for one in kinds.values())
        yield (
            f"{title}: more in the worst 10 % than {result['titles']['training_loss']}",
            f"{_verdict(enough, other, *kinds.values())} {told}; {_told(other)}",
        )


def _told(figure: Figures) -> str:
    return f"{figure['mean']:.3f}" + ("" if figure["sd"] is None else f" ± {figure['sd']:.3f}")


def _seconds(found: Figures) -> float:
    """Return the seconds of the trainings and of what is said of the rows themselves."""
    scoring = found.get("own_seconds") or found["score_seconds"]
    return found["train_seconds"]["mean"] + scoring["mean"]


def _sd(*figures: Figures) -> float:
    return max(figure["sd"] or 0.0 for figure in figures)


def _verdict(reached: bool, *figures: Figures) -> str:
    """Return the verdict; a single seed settles nothing."""
    word = "reached" if reached else "**missed**"
    return f"{word}:" if all(figure["sd"] is not None for figure in figures) else f"{word} (one seed):"
