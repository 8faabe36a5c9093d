"""The results page and its figure, made of the numbers that exist; what is missing is said."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from turnover.influence import Ridge
from turnover_bench.baselines import DATTRI_SOLVERS, LOGRA
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn
from turnover_bench.experiments.findings import Finding
from turnover_bench.experiments.runner import machine_words

from .goals import BASELINES, gaps, goals
from .methods import own_methods, plain_methods
from .ours import ALONE, CANDIDATES
from .table import MARK

Figures = dict[str, Any]
_TOO_EXPENSIVE = {
    "sst2": {"arnoldi": "more than 3 processor minutes per training", "cg": "about 6 processor minutes per training"},
    "cifar10": {
        "arnoldi": "about 10 processor minutes per training",
        "cg": "about 50 processor minutes per training",
        "datainf": "the gradients of all rows take 11 GB, and it took 2 to 4 times that on the other tasks",
    },
}
"""What a method that is not measured would cost, as estimated from smaller tasks."""
_PANELS = (("lds_plain", "LDS, plain network retrained"), ("mean_auc", "wrong labels by mean influence, AUC"))


def _plot(result: dict[str, Any], file: Path) -> bool:
    """Write one bar per method, one row of panels per task; return whether there was anything to draw."""
    tasks = [task for task in result["tasks"].values() if task["methods"]]
    if not tasks:
        return False
    with drawn(file, (11, 4.2 * len(tasks)), letters="path") as figure:
        axes = figure.subplots(len(tasks), 2, squeeze=False)
        for row, task in zip(axes, tasks, strict=True):
            for axis, (name, title) in zip(row, _PANELS, strict=True):
                known = {key: found[name] for key, found in task["methods"].items() if name in found}
                means, deviations = ([value[key] or 0.0 for value in known.values()] for key in ("mean", "sd"))
                colors = ["C0" if key in CANDIDATES else "C7" for key in known]
                axis.barh(range(len(known)), means, xerr=deviations, color=colors)
                axis.set_yticks(range(len(known)), [result["titles"][key] for key in known], fontsize=7)
                axis.invert_yaxis()
                axis.set_title(f"{task['setting']['title']}: {title}", fontsize=8)
                if name == "mean_auc":
                    axis.set_xlim(0.5, 1.0)
    return True


_JUDGED = {"lds_plain": "LDS (plain)", "lds_full": "LDS (masked)", "mean_auc": "mean influence, AUC of wrong labels"}


def findings(result: Figures) -> list[Finding]:
    """Return how the default and row scores do on all tasks; nothing where none is chosen."""
    chosen = (result["choice"] or {}).get("default")
    return [] if chosen is None else [*_default(result, chosen), *_own(result)]


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


def _own(result: Figures) -> Iterator[Finding]:
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
    parts += ["", "## How the default was chosen", "", *_choice(result), *_beside_masks(result)]
    parts += ["", "## What else was tried", "", *_explored(result)]
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
        f"- Options are chosen on seeds {_list(how['chosen_on'])} (as far as they are measured), never on those "
        "that are reported.",
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
    chosen = (result["choice"] or {}).get("default")
    ours = (*CANDIDATES, *own_methods(result["setting"]["replicas"]), *plain_methods())
    rows = []
    for name, found in task["methods"].items():
        title = result["titles"][name] + (" (the default)" if name == chosen else "")
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


def _choice(result: Figures) -> list[str]:
    choice = result["choice"]
    if not choice or not choice["default"]:
        return ["Not chosen yet: `python -m turnover_bench.benchmarks.faithfulness --choose`."]
    rows = [[result["titles"].get(name, name), f"{share:.3f}"] for name, share in choice["shares"].items()]
    titles = [result["tasks"][task]["setting"]["title"] for task in choice["tasks"]]
    left = [result["titles"][name] for name in CANDIDATES if name in result["titles"] and name not in choice["shares"]]
    seeds = min(found["mean_auc"]["seeds"] for task in choice["tasks"] for found in result["chosen_on"][task].values())
    return [
        "Each of LDS plain, LDS masked and the AUC of mean influence counts as a share of the best estimate's on that "
        f"task; the mean over these and over the tasks decides ({'; '.join(titles)}; "
        f"{seeds} or more trainings each).",
        "",
        markdown_table(["estimate", "mean share of the best"], rows),
        *(["", f"Not measured on all of these, so not shown: {', '.join(left)}."] if left else []),
    ]


def _beside_masks(result: Figures) -> list[str]:
    """Say what part of the default is not turn-over dropout: readers would credit masks with it."""
    default = (result["choice"] or {}).get("default") or ""
    how = CANDIDATES.get(default)
    if default == "replicas_curvature":
        return [
            "",
            "The default is influence functions with K-FAC curvature, in the full view of each replica, with "
            "calibrated outputs: it needs no masks. What masked training adds are replicas from one training, held-out "
            "predictions and a null distribution. The rows *no masks* above are the same estimator on plain networks.",
        ]
    if how is None or not isinstance(how.estimator, Ridge) or not how.estimator.gradients:
        return []
    lines = [
        "",
        "The default averages the denoised scores with influence functions of the last layer, taken from the same "
        "networks. Those need no masks. Alone, on trainings that are not reported:",
        "",
    ]
    for task, tried in result["explored"].items():
        alone, both = tried.get(ALONE), result["chosen_on"][task].get(default)
        if alone and both:
            told = [
                f"{what} {_figure(alone, name)} (the default {_figure(both, name)})"
                for name, what in (
                    ("lds_plain", "LDS plain"),
                    ("lds_full", "LDS masked"),
                    ("mean_auc", "mean influence"),
                )
            ]
            lines.append(f"- {result['tasks'][task]['setting']['title']}: {', '.join(told)}.")
    return lines if len(lines) > 3 else [*lines, "not measured."]


def _explored(result: Figures) -> list[str]:
    lines = []
    for task, found in result["explored"].items():
        if not found:
            continue
        base = result["chosen_on"][task]
        shown = {result["titles"][name]: base[name] for name in ("tod", "ridge", "replicas_ridge") if name in base}
        rows = [
            [name + _mark(one), _figure(one, "lds_plain"), _figure(one, "lds_full"), _pair(one, "mean"), _cost(one)]
            for name, one in (shown | found).items()
        ]
        head = ["estimate", "LDS plain", "LDS masked", "mean influence", "seconds"]
        lines += [f"{result['tasks'][task]['setting']['title']}, one model unless said:", ""]
        lines += [markdown_table(head, rows), ""]
    return lines or ["Not measured yet: `python -m turnover_bench.benchmarks.faithfulness --explore`."]


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
