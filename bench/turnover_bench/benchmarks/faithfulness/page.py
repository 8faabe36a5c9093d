"""The results page and its figure: figures, goals and gaps, made of the numbers that exist; what is missing is said."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from turnover_bench.baselines import DATTRI_SOLVERS, LOGRA
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn
from turnover_bench.experiments.findings import Finding
from turnover_bench.experiments.runner import machine_words

from .methods import our_methods

Figures = dict[str, Any]
MARK = "earlier"
"""Key of figures of an earlier run with the same settings: cells lie in runs/, which is not published."""
_TOO_EXPENSIVE = {
    "sst2": {"arnoldi": "more than 3 processor minutes per training", "cg": "about 6 processor minutes per training"},
    "cifar10": {
        "arnoldi": "about 10 processor minutes per training",
        "cg": "about 50 processor minutes per training",
        "datainf": "the gradients of all rows take 11 GB, and it took 2 to 4 times that on the other tasks",
    },
}
"""What a method that is not measured would cost, as estimated from smaller tasks."""
Verdicts = Iterator[tuple[str, str]]  # a goal, and what a task shows of it

_MEAN_AUC, _MEAN_FOUND = 0.93, 0.85
BASELINES = (
    *("tracin", "tracin_fast", "trak_1", "trak_5", "ekfac", "ekfac_damped"),
    *("arnoldi", "similarity", "cg", "lissa", "datainf", "logra"),
)
_LDS = {"lds_plain": "LDS (plain)", "lds_full": "LDS (masked)"}
_KINDS = {"self_found": "self-influence", "held_out_found": "held-out"}
_SOME = 0.02  # LDS below this is nothing that one could be so many times above
_PANELS = (("lds_plain", "LDS, plain network retrained"), ("mean_auc", "wrong labels by mean influence, AUC"))


def _plot(result: dict[str, Any], file: Path) -> bool:
    """Write one bar per method, one row of panels per task; return whether there was anything to draw."""
    tasks = [task for task in result["tasks"].values() if task["methods"]]
    if not tasks:
        return False
    ours = our_methods(result["setting"]["replicas"])
    with drawn(file, (11, 4.2 * len(tasks)), letters="path") as figure:
        axes = figure.subplots(len(tasks), 2, squeeze=False)
        for row, task in zip(axes, tasks, strict=True):
            for axis, (name, title) in zip(row, _PANELS, strict=True):
                known = {key: found[name] for key, found in task["methods"].items() if name in found}
                means, deviations = ([value[key] or 0.0 for value in known.values()] for key in ("mean", "sd"))
                colors = ["C0" if key in ours else "C7" for key in known]
                axis.barh(range(len(known)), means, xerr=deviations, color=colors)
                axis.set_yticks(range(len(known)), [result["titles"][key] for key in known], fontsize=7)
                axis.invert_yaxis()
                axis.set_title(f"{task['setting']['title']}: {title}", fontsize=8)
                if name == "mean_auc":
                    axis.set_xlim(0.5, 1.0)
    return True


_JUDGED = {"lds_plain": "LDS (plain)", "lds_full": "LDS (masked)", "mean_auc": "mean influence, AUC of wrong labels"}


def findings(result: Figures) -> list[Finding]:
    return [*_default(result, result["default"]), *_own_findings(result)]


def _default(result: Figures, chosen: str) -> Iterator[Finding]:
    for name, what in _JUDGED.items():
        told, over_original, over_baselines = [], [], []
        for task in result["tasks"].values():
            known = {method: found[name]["mean"] for method, found in task["methods"].items() if name in found}
            baselines = {method: known[method] for method in BASELINES if method in known}
            if chosen not in known or "tod" not in known or not baselines:
                continue
            best = max(baselines, key=baselines.__getitem__)
            baseline = f"{result['titles'][best]} {baselines[best]:.3f}"
            asked = (chosen, "tod", best)
            once = any(task["methods"][method][name]["sd"] is None for method in asked)
            seeds = " (partly one seed)" if once else ""
            told.append(f"{_short(task)}: {known[chosen]:.3f}, {known['tod']:.3f}, {baseline}{seeds}")
            over_original.append(known[chosen] > known["tod"])
            over_baselines.append(known[chosen] > baselines[best])
        if told:
            yield Finding(
                what=f"{what}: the default, the original estimator, the best baseline",
                paper="–",
                ours="; ".join(told),
                setting=f"{result['titles'][chosen]}, trainings: {len(result['setting']['seeds'])}",
                agreement=f"{what[0].upper()}{what[1:]}: the default is above the original estimator on "
                f"{sum(over_original)} of {len(told)} tasks, above every baseline that was measured "
                f"on {sum(over_baselines)}.",
            )


def _own_findings(result: Figures) -> Iterator[Finding]:
    told, enough = [], []
    for task in result["tasks"].values():
        ours, folds = (task["methods"].get(name, {}).get("held_out_found") for name in ("two_views", "cleanlab"))
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


def page(result: Figures, folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    parts = ["# How faithful are the scores?", "", *_setting(result)]
    if _plot(result, folder / "faithfulness.svg"):
        parts += ["", "![LDS and wrong labels found](faithfulness.svg)"]
    parts += ["", "## What was aimed at", "", *goals(result)]
    parts += ["", "## How far LDS is from more, and why", "", *_why(result)]
    for task in result["tasks"].values():
        parts += ["", f"## {task['setting']['title']}", "", *_about(task)]
        if task["methods"]:
            parts += ["", _table(result, task)]
        parts += ["", *_missing(result, task)]
    parts += ["", "## The default", "", _BESIDE_MASKS]
    about = (
        f"Written by `make bench-faithfulness` ({machine_words(result['machine'])}). "
        "All numbers: [faithfulness.json](faithfulness.json)."
    )
    return "\n".join([*parts, "", about]) + "\n"


def _setting(result: Figures) -> list[str]:
    how = result["setting"]
    return [
        "All methods have the same rows, labels, validation rows and training recipe and are judged by the same "
        "retrainings. Turn-over dropout trains the masked network, every other method the plain one.",
        "",
        "- **LDS**: scores of random halves of the rows, added up, against the losses of models retrained on those "
        'halves (mean rank correlation over queries). "plain": the network without masks was retrained; "masked": '
        "the masked one, in full view, with masks of another seed than any method's.",
        "- **Mean influence** on clean validation rows: how well the lowest finds wrong labels, AUC / share of them "
        "among the worst 10 % of the rows.",
        "- **Self-influence** and **held-out**: the same without any validation row. Held-out means the probability of "
        "the row's label by a model that was not trained on the row: the flipped view, or held-out folds. Losses over "
        "checkpoints are those of the flipped view (held-out), of the full masked network, which was trained on the "
        "row (under self-influence), or of both (held-out). Also under self-influence, for the network was trained on "
        "the row: AUM (mean margin of the label over epochs), forgetting counts, and leave-one-out heads (ridge "
        "regression on the full view's last features, fitted without the row).",
        f"- Mean ± standard deviation over trainings with seeds {_list(how['seeds'])}, for row scores "
        f"{_list(how['own_seeds'])}; one seed where no ± stands. Seconds of the processor, one thread, "
        "more of them where others used the machine too: trainings (of EK-FAC its factors, of TRAK its features too) + "
        "scoring of all rows against all validation rows and of the rows themselves (of Feldman & Zhang and cleanlab: "
        "their trainings too). Memory: growth of the process.",
        "- Baselines have the defaults of their packages; those of dattri, influence functions too, the options of its "
        f"examples ({_list(f'{one.title}: {_options(one.options)}' for one in DATTRI_SOLVERS.values())}, LoGra: "
        f"{_options(LOGRA)}). Similarity is that of the last hidden layer. Left out, for another row is the same "
        "method: captum's TracInCPFastRandProj; dattri's TRAK, TracIn, Arnoldi iteration and EK-FAC. Conjugate "
        "gradients and LiSSA solve for every query anew, for minutes to an hour per training; not measured everywhere.",
    ]


def _options(options: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} {value:g}" for name, value in options.items())


def _why(result: Figures) -> list[str]:
    return [
        "Noise lowers LDS, and replicas lower noise by a known law, so that one model and several together show what "
        "LDS would be without noise. What is missing beyond that is bias.",
        "",
        *gaps(result),
    ]


def _about(task: Figures) -> list[str]:
    how = task["setting"]
    wrong = "labels given by people" if how["labels"] == "people" else "10 % of the labels changed at random"
    net = (
        f"ReLU network, hidden layers of {_list(how['hidden'])}, all masked"
        if how["network"] == "mlp"
        else f"two convolutions ({how['hidden'][0]} and {how['hidden'][1]} channels), a pooling and a ReLU layer of "
        f"{how['hidden'][2]} on images averaged to 16 × 16 pixels; masks on the ReLU layer, so that the convolutions "
        "are shared and leak"
    )
    limits = [f"{name} {value:.3f}" for name, value in task["ceiling"].items() if value is not None]
    return [
        f"{how['rows']:,} rows, {wrong}; {how['validation']} validation rows, {how['queries']} of them the queries of "
        f"LDS. {net[0].upper()}{net[1:]}. SGD (rate {how['learning_rate']:g}, momentum 0.9), {how['epochs']} epochs, "
        f"batches of {how['batch_size']}. {how['halves']} halves, each retrained "
        f"{'once' if how['retrainings'] == 1 else str(how['retrainings']) + ' times'}"
        + (f"; ceiling of LDS by retraining noise: {', '.join(limits)}." if limits else "; the ceiling is not known.")
    ]


def _table(result: Figures, task: Figures) -> str:
    head = ["method", "LDS plain", "LDS masked", "mean influence", "self-influence", "held-out", "seconds", "memory"]
    ours = our_methods(result["setting"]["replicas"])
    rows = []
    for name, found in task["methods"].items():
        title = result["titles"][name] + (" (the default)" if name == result["default"] else "")
        title = (f"**{title}**" if name in ours else title) + _mark(found)
        rows.append(
            [
                title,
                _figure(found, "lds_plain"),
                _figure(found, "lds_full"),
                _pair(found, "mean"),
                _pair(found, "self"),
                _pair(found, "held_out"),
                _cost(found),
                _size(found),
            ]
        )
    return markdown_table(head, rows)


def _missing(result: Figures, task: Figures) -> list[str]:
    lines = [f"- {name} failed: {why}" for name, why in task["failed"].items()]
    if any(MARK in found for found in task["methods"].values()):
        lines.append("- †: of an earlier run with the same settings on another machine, to which its seconds belong.")
    if task["methods"] and not any("lds_plain" in found for found in task["methods"].values()):
        lines.append("- Not measured: LDS; the halves are not retrained yet.")
    if task["missing"]:
        reasons = _TOO_EXPENSIVE.get(task["setting"]["data"], {})
        told = [result["titles"][name] + (f": {reasons[name]}" if name in reasons else "") for name in task["missing"]]
        lines.append(f"- Not measured: {'; '.join(told)}.")
    short = [
        f"{result['titles'][name]} ({found['score_seconds']['seeds']})"
        for name, found in task["methods"].items()
        if found["score_seconds"]["seeds"] < len(result["setting"]["seeds"]) and name != "subsets"
    ]
    if short:
        lines.append(f"- Fewer seeds than planned: {', '.join(short)}.")
    return lines


# Readers would credit masks with it.
_BESIDE_MASKS = (
    "The default is influence functions with K-FAC curvature, in the full view of each replica, with calibrated "
    "outputs: it needs no masks. What masked training adds are replicas from one training, held-out predictions and a "
    "null distribution. The rows *no masks* above are the same estimator on plain networks."
)


def _mark(found: Figures) -> str:
    return " †" if MARK in found else ""


def _figure(found: Figures, name: str, form: Callable[[float], str] = "{:.3f}".format) -> str:
    value = found.get(name)
    if value is None:
        return "–"
    return form(value["mean"]) + ("" if value["sd"] is None else f" ± {form(value['sd'])}")


def _pair(found: Figures, name: str) -> str:
    if f"{name}_auc" not in found:
        return "–"
    return f"{_figure(found, f'{name}_auc')} / {_figure(found, f'{name}_found', lambda v: f'{v:.2f}')}"


def _cost(found: Figures) -> str:
    return f"{found['train_seconds']['mean']:.1f} + {found['score_seconds']['mean']:.1f}"


def _size(found: Figures) -> str:
    return f"{found['peak_bytes']['mean'] / 1e6:.0f} MB" if "peak_bytes" in found else "–"


def _list(values: Any) -> str:
    return ", ".join(str(value) for value in values)


def goals(result: Figures) -> list[str]:
    """Return the table, and what its words mean."""
    chosen = result["default"]
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
    scoring = found.get("own_seconds") or found["score_seconds"]
    return found["train_seconds"]["mean"] + scoring["mean"]


def _sd(*figures: Figures) -> float:
    return max(figure["sd"] or 0.0 for figure in figures)


def _verdict(reached: bool, *figures: Figures) -> str:
    word = "reached" if reached else "**missed**"
    return f"{word}:" if all(figure["sd"] is not None for figure in figures) else f"{word} (one seed):"


def gaps(result: Figures) -> list[str]:
    """Return one line per task and ground truth."""
    lines = []
    for task in result["tasks"].values():
        for view, name in (("plain", "plain"), ("full", "masked")):
            lines += [
                f"- {task['setting']['title']}, {name}: {line}" for line in _gap(result, task, view, result["default"])
            ]
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


def _gap(result: Figures, task: Figures, view: str, chosen: str) -> Iterator[str]:
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
