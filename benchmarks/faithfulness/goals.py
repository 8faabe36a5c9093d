"""What was aimed at, and whether it was reached, in sentences made of the numbers."""

from collections.abc import Iterator
from typing import Any

Figures = dict[str, Any]

_MEAN_AUC, _MEAN_FOUND = 0.93, 0.85
RIVALS = ("tracin", "tracin_fast", "trak_1", "trak_5", "ekfac", "ekfac_damped")
_OWN = ("cleanlab", "training_loss")
_KINDS = {"self_found": "self-influence", "unseen_found": "flipped probability"}
_SOME = 0.02  # LDS below this is nothing that one could be so many times above


def goals(result: Figures) -> list[str]:
    """Return one line a goal and task."""
    chosen = (result["choice"] or {}).get("default")
    if chosen is None:
        return ["There is no default yet."]
    lines = []
    for task in result["tasks"].values():
        found = task["methods"]
        if chosen not in found or "paper" not in found:
            continue
        title = task["setting"]["title"]
        for line in [*_against_paper(found, chosen), *_mean(result, found, chosen), *_lds(result, found, chosen)]:
            lines.append(f"- {title}: {line}")
        lines += [f"- {title}: {line}" for line in _own(result, found)]
    return lines or ["Nothing is measured yet."]


def _against_paper(found: Figures, chosen: str) -> Iterator[str]:
    ours, paper = found[chosen], found["paper"]
    for name, what in (("lds_plain", "LDS (plain)"), ("lds_full", "LDS (masked)"), ("mean_auc", "mean influence AUC")):
        if name not in ours or name not in paper:
            yield f"not measured: {what}."
            continue
        one, other = ours[name], paper[name]
        beyond = one["mean"] - other["mean"] > _sd(one, other)
        twice = name == "mean_auc" or one["mean"] >= 2 * other["mean"]
        times = f" ({one['mean'] / other['mean']:.1f} times)" if name != "mean_auc" and other["mean"] > _SOME else ""
        yield (
            f"{_verdict(beyond and twice, one, other)} {what} above the paper's estimate by more than one sd"
            f"{'' if name == 'mean_auc' else ' and twice as high'}: {one['mean']:.3f} against {other['mean']:.3f}"
            f"{times}."
        )


def _mean(result: Figures, found: Figures, chosen: str) -> Iterator[str]:
    auc, share = found[chosen]["mean_auc"]["mean"], found[chosen]["mean_found"]["mean"]
    reached = auc >= _MEAN_AUC and share >= _MEAN_FOUND
    yield (
        f"{_verdict(reached, found[chosen]['mean_auc'])} mean influence finds wrong labels with AUC ≥ {_MEAN_AUC} and "
        f"≥ {_MEAN_FOUND} of them in the worst 10 %: {auc:.3f}, {share:.3f}."
    )
    yield from _above(result, found, chosen, "mean_auc", "mean influence (AUC)")


def _lds(result: Figures, found: Figures, chosen: str) -> Iterator[str]:
    yield from _above(result, found, chosen, "lds_plain", "LDS (plain)")
    yield from _above(result, found, chosen, "lds_full", "LDS (masked)")


def _above(result: Figures, found: Figures, chosen: str, name: str, what: str) -> Iterator[str]:
    others = {rival: found[rival][name] for rival in RIVALS if name in found.get(rival, {})}
    if not others or name not in found[chosen]:
        return
    mine = found[chosen][name]
    titles = result["titles"]
    beaten = [titles[rival] for rival, value in others.items() if value["mean"] < mine["mean"]]
    above = [f"{titles[rival]} {value['mean']:.3f}" for rival, value in others.items() if value["mean"] >= mine["mean"]]
    unknown = [titles.get(rival, rival) for rival in RIVALS if rival not in others]
    yield (
        f"{_verdict(not above, mine, *others.values())} {what} above every {'measured ' if unknown else ''}rival's: "
        f"{mine['mean']:.3f}"
        + (f"; above {', '.join(beaten)}" if beaten else "; above none")
        + (f"; not above {', '.join(above)}" if above else "")
        + (f"; not measured: {', '.join(unknown)}." if unknown else ".")
    )


def _own(result: Figures, found: Figures) -> Iterator[str]:
    for rival in _OWN:
        if rival not in found:
            continue
        other = found[rival]["unseen_found" if rival == "cleanlab" else "self_found"]
        for name in ("paper", "replicas", "two_views"):
            kinds = {kind: found[name][key] for key, kind in _KINDS.items() if key in found.get(name, {})}
            if not kinds:
                continue
            ours, theirs = _seconds(found[name]), _seconds(found[rival])
            # Against cleanlab the goal is no fewer, for less time; against the training loss, which is free, more.
            least = (lambda sd: -sd) if rival == "cleanlab" else (lambda sd: 0.0)
            enough = [kind for kind, one in kinds.items() if one["mean"] - other["mean"] > least(_sd(one, other))]
            late = rival == "cleanlab" and ours >= theirs
            told = ", ".join(f"{kind} {_told(one)}" for kind, one in kinds.items())
            goal = "no fewer (beyond one sd) than" if rival == "cleanlab" else "more than"
            yield (
                f"{_verdict(bool(enough) and not late, other, *kinds.values())} without validation rows, "
                f"{result['titles'][name]}: {goal} {result['titles'][rival]} in the worst 10 %: {told} against "
                f"{_told(other)}, in {ours:.1f} against {theirs:.1f} s"
                + (f"; reached by {' and '.join(enough)}" if enough else "")
                + ("; but not in less time." if enough and late else ".")
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
    word = "reached" if reached else "MISSED"
    return f"{word}:" if all(figure["sd"] is not None for figure in figures) else f"{word}, partly by one seed only:"
