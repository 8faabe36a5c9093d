"""What was aimed at and whether it was reached; how far LDS is from the best baseline, and why: noise or bias."""

import math
from collections.abc import Iterator
from typing import Any

from turnover_bench.checks import markdown_table

Figures = dict[str, Any]
Verdicts = Iterator[tuple[str, str]]  # a goal, and what a task shows of it

_MEAN_AUC, _MEAN_FOUND = 0.93, 0.85
BASELINES = (
    *("tracin", "tracin_fast", "trak_1", "trak_5", "ekfac", "ekfac_damped"),
    *("arnoldi", "similarity", "cg", "lissa", "datainf", "logra"),
)
_LDS = {"lds_plain": "LDS (plain)", "lds_full": "LDS (masked)"}
_KINDS = {"self_found": "self-influence", "held_out_found": "held-out"}
_SOME = 0.02  # LDS below this is nothing that one could be so many times above


def goals(result: Figures) -> list[str]:
    """Return the table, and what its words mean."""
    chosen = (result["choice"] or {}).get("default")
    if chosen is None:
        return ["There is no default yet."]
    columns = {
        task["setting"]["title"]: dict(_task(result, task["methods"], chosen))
        for task in result["tasks"].values()
        if chosen in task["methods"] and "tod" in task["methods"]
    }
    if not columns:
        return ["Nothing is measured yet."]
    rows = dict.fromkeys(goal for column in columns.values() for goal in column)
    return [
        "Ours first, then what it is compared with. Above means by the mean over seeds; one sd is the larger of the "
        "two. (one seed): one of the figures shown has one seed only, which settles nothing.",
        "",
        markdown_table(
            ["goal", *columns],
            [[goal, *(column.get(goal, "–") for column in columns.values())] for goal in rows],
            padded=False,
        ),
    ]


def _task(result: Figures, found: Figures, chosen: str) -> Verdicts:
    yield from _against_original(found, chosen)
    yield from _mean(found[chosen])
    for name, what in {"mean_auc": "mean influence (AUC)", **_LDS}.items():
        yield from _above_baselines(result, found, chosen, name, what)
    for name in ("tod", "replicas", "mask_bias", "two_views", "whole_loss", "leave_one_out_head", "record"):
        yield from _own(result, found, name)


def _against_original(found: Figures, chosen: str) -> Verdicts:
    ours, paper = found[chosen], found["tod"]
    for name, what in {**_LDS, "mean_auc": "mean influence (AUC)"}.items():
        double = name in _LDS
        goal = f"{what} {'twice' if double else 'above'} the original estimator, by more than one sd"
        if name not in ours or name not in paper:
            yield goal, "not measured"
            continue
        one, other = ours[name], paper[name]
        enough = one["mean"] - other["mean"] > _sd(one, other) and (not double or one["mean"] >= 2 * other["mean"])
        times = f" ({one['mean'] / other['mean']:.1f} times)" if double and other["mean"] > _SOME else ""
        yield goal, f"{_verdict(enough, one, other)} {one['mean']:.3f}, {other['mean']:.3f}{times}"


def _mean(ours: Figures) -> Verdicts:
    auc, share = ours["mean_auc"], ours["mean_found"]
    enough = auc["mean"] >= _MEAN_AUC and share["mean"] >= _MEAN_FOUND
    goal = f"mean influence: AUC ≥ {_MEAN_AUC} and ≥ {_MEAN_FOUND} of the wrong labels in the worst 10 %"
    yield goal, f"{_verdict(enough, auc)} {auc['mean']:.3f}, {share['mean']:.3f}"


def _above_baselines(result: Figures, found: Figures, chosen: str, name: str, what: str) -> Verdicts:
    others = {baseline: found[baseline][name] for baseline in BASELINES if name in found.get(baseline, {})}
    if not others or name not in found[chosen]:
        return
    mine, titles = found[chosen][name], result["titles"]
    above = {baseline: value for baseline, value in others.items() if value["mean"] >= mine["mean"]}
    best = max(others, key=lambda baseline: others[baseline]["mean"])
    shown = above or {best: others[best]}
    told = ("" if above else "the best of them ") + ", ".join(
        f"{titles[baseline]} {value['mean']:.3f}" for baseline, value in shown.items()
    )
    unknown = [titles.get(baseline, baseline) for baseline in BASELINES if baseline not in others]
    yield (
        f"{what} above every baseline's",
        f"{_verdict(not above, mine, *shown.values())} {mine['mean']:.3f}; {told}"
        + (f"; not measured: {', '.join(unknown)}" if unknown else ""),
    )


# In the column of self-influence, for their network was trained on the row; what they are instead.
_TRAINED_ON_ROW = {"whole_loss": "loss", "leave_one_out_head": "margin", "record": "probability"}


def _own(result: Figures, found: Figures, name: str) -> Verdicts:
    """Compare row scores, which need no validation rows; against cleanlab, the time too."""
    kinds = {kind: found[name][key] for key, kind in _KINDS.items() if key in found.get(name, {})}
    if not kinds:
        return
    if name in _TRAINED_ON_ROW:
        kinds = {_TRAINED_ON_ROW[name]: kinds["self-influence"]}
    told = ", ".join(f"{kind} {_told(one)}" for kind, one in kinds.items())
    title = result["titles"][name]
    if "cleanlab" in found:
        other = found["cleanlab"]["held_out_found"]
        ours, theirs = _seconds(found[name]), _seconds(found["cleanlab"])
        enough = any(one["mean"] - other["mean"] > -_sd(one, other) for one in kinds.values())
        late = enough and ours >= theirs
        yield (
            f"{title}: no fewer in the worst 10 %, beyond one sd, than {result['titles']['cleanlab']}, in less time",
            f"{_verdict(enough and not late, other, *kinds.values())} {told}; {_told(other)}; in {ours:.1f}, "
            f"{theirs:.1f} s" + (", not in less time" if late else ""),
        )
    for baseline in ("training_loss", "aum", "forgetting"):
        if baseline not in found:
            continue
        other = found[baseline]["self_found"]
        enough = any(one["mean"] > other["mean"] for one in kinds.values())
        yield (
            f"{title}: more in the worst 10 % than {result['titles'][baseline]}",
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


def gaps(result: Figures) -> list[str]:
    """Return one line per task and ground truth."""
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
    baselines = {method: known[method] for method in BASELINES if method in known}
    if chosen not in known or not baselines or "tod" not in known or "replicas" not in known:
        return
    best = max(baselines, key=lambda method: baselines[method])
    one, several, count = known["tod"], known["replicas"], result["setting"]["replicas"]
    spread = found["tod"][name].get("sd")
    known_well = spread is not None and one > spread  # less is noise, and one seed does not tell
    limit = without_noise(one, several, count) if known_well else None
    most = task["ceiling"].get(view)
    text = f"the default has {known[chosen]:.3f}, the best baseline, {result['titles'][best]}, {baselines[best]:.3f}"
    text += f", with a ceiling of {most:.3f} by retraining noise. " if most is not None else ". "
    text += f"Raw scores have {one:.3f} from one model and {several:.3f} from {count} replicas"
    if known_well and several <= one:
        text += ": more models do not help, so that noise is not what is missing."
    elif limit is None:
        text += ": too little to say how much of it is noise."
    else:
        share = (one / limit) ** 2
        text += (
            f", as if {share:.0%} of the variance of one model's were signal; without any noise it would be {limit:.3f}"
        )
        text += (
            ": noise is what they lack."
            if limit >= baselines[best]
            else f". The {baselines[best] - limit:.3f} that they lack beyond are bias: two half networks, neither of "
            "which is the one that is retrained."
        )
    yield text
