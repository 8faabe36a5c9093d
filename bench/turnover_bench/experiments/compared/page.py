"""The results page: one table per task and ground truth, its figure, and sentences made of the numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn
from turnover_bench.experiments.findings import Finding, paragraphs

from .methods import NAMES, ONCE

_TRUTHS = {"plain": "plain model retrained", "full": "masked model retrained, full view"}


def _plot(result: dict[str, Any], file: Path) -> None:
    """Write the figure: one panel per task, one dot per method and ground truth."""
    tasks = result["tasks"]
    with drawn(file, (5 * len(tasks), 3.6), letters="path") as figure:
        for panel, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks.values(), strict=True):
            keys = [key for key in NAMES if key in task["plain"]["methods"]][::-1]
            for view, color, shift in (("plain", "tab:blue", 0.12), ("full", "tab:orange", -0.12)):
                for place, key in enumerate(keys):
                    figures = task[view]["methods"][key]
                    if figures.get("lds") is not None:
                        ends = [figures["lds_low"], figures["lds_high"]]
                        panel.plot(ends, [place + shift] * 2, color=color, linewidth=1)
                        panel.plot(figures["lds"], place + shift, "o", color=color, markersize=4)
                panel.axvline(task[view]["ceiling"], color=color, linestyle=":", linewidth=1, label=_TRUTHS[view])
            panel.axvline(0, color="gray", linewidth=0.6)
            panel.set_yticks(range(len(keys)), [NAMES[key] for key in keys], fontsize=7)
            panel.set_xlabel("LDS (dotted: ceiling)", fontsize=8)
            panel.set_title(task["name"], fontsize=9)
            panel.legend(fontsize=6, loc="lower right")


OURS = "turnover"
Figures = dict[str, Any]


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    _plot(result, folder / "compared.svg")
    parts = ["# Turn-over dropout beside its baselines", *_setting(result), "![LDS](compared.svg)"]
    for task in result["tasks"].values():
        parts += [f"## {task['name']}", _about(task)]
        for view, truth in _TRUTHS.items():
            table = task[view]
            parts += [f"### Ground truth: {truth}", _table(table, result["setting"]), *_said(table)]
            parts += _problems(table)
    return paragraphs(parts, _reading(result))


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return where the original estimator stands among its baselines, by task and ground truth."""
    found = []
    for task in result["tasks"].values():
        for view, truth in _TRUTHS.items():
            known = _known(task[view], "lds")
            if OURS not in known:
                continue
            best = max(known, key=known.__getitem__)
            found.append(
                Finding(
                    what=f"{task['name']}, {truth}: LDS of the original estimator, of several models, of the "
                    "recommended estimator, and the best of all",
                    paper="–",
                    ours=f"{known[OURS]:.3f}, {known['turnover_several']:.3f}, {known['recommended']:.3f}; "
                    f"{NAMES[best]} {known[best]:.3f}",
                    setting=f"{task['rows']:,} rows, {task['queries']} queries, {result['setting']['seeds']} trainings",
                    agreement=f"{task['name']}, {truth}: by LDS the original estimator has place "
                    f"{_rank(known, OURS)} of {len(known)}, several models together place "
                    f"{_rank(known, 'turnover_several')}, the recommended estimator of these models place "
                    f"{_rank(known, 'recommended')}.",
                )
            )
    return found


def _setting(result: dict[str, Any]) -> list[str]:
    how = result["setting"]
    once = " and ".join(name for key, name in NAMES.items() if key in ONCE)
    return [
        "All methods score the same rows and queries and are judged by the same retrainings. Turn-over dropout "
        "trains the masked network; every other method trains what the ground truth retrains: the plain network, or "
        "the masked one in full view, as it would be deployed.",
        *[_task_line(task) for task in how["tasks"]],
        f"- LDS: {how['subsets']} random halves of the rows, each retrained {how['subset_seeds']} times. Leave one "
        f"out: {how['loo_rows']} rows, seeds of retraining: {how['loo_seeds']}. Predictions changed: the "
        f"{how['removed']} most helpful rows removed for each of {how['brittle_queries']} queries, a training each. No "
        "seed of the ground truth is a seed of a method.",
        f"- Figures are means over {how['seeds']} trainings of each method's own; {once}, and the changed predictions, "
        "have one. Brackets: 95 % bootstrap interval over queries; the variation between trainings is not in it.",
        f"- Koh+: conjugate gradients on the last layer, damping {how['damping']:g} (how it was chosen, and why not "
        "all parameters: bench/turnover_bench/experiments/compared/README.md). Hara+: the last epoch is walked back.",
        f"- Feldman & Zhang: {how['models']} models on 70 % of the rows. TracIn: {how['checkpoints']} checkpoints. "
        f"Several models: {how['ensemble']}, each with masks of its own, averaged; the recommended estimator, which "
        "`Influence` takes by default, has models trained in the same way.",
    ]


def _task_line(task: Figures) -> str:
    return (
        f"- {task['data']}: {task['rows']} rows, {task['changed']:.0%} of the labels changed; {task['queries']} "
        f"queries with correct labels. ReLU network, {task['layers']} hidden layer{'s' if task['layers'] > 1 else ''} "
        f"of {task['hidden']}; SGD (rate {task['learning_rate']:g}, momentum 0.9), {task['epochs']} epochs, batches of "
        f"{task['batch_size']}."
    )


def _about(task: Figures) -> str:
    plain, full = task["plain"]["accuracy"], task["full"]["accuracy"]
    return (
        f"{task['rows']} rows, {task['wrong']} with a wrong label; {task['queries']} queries. Accuracy on held-out "
        f"rows: plain network {plain:.1%}, masked network in full view {full:.1%}."
    )


def _table(table: Figures, how: Figures) -> str:
    head = [
        "method",
        "LDS [95 %]",
        "leave one out r / ρ",
        "wrong labels by self-influence: AUC / found at 10 %",
        "by mean influence",
        f"predictions changed, {how['removed']} removed",
        "seconds to build",
        "to score",
        "peak memory",
        "storage",
    ]
    return markdown_table(head, [_row(key, table["methods"][key]) for key in NAMES if key in table["methods"]])


def _row(key: str, found: Figures) -> list[str]:
    return [
        NAMES[key],
        _show(found, ("lds", "lds_low", "lds_high"), lambda mean, low, high: f"{mean:.3f} [{low:.3f}, {high:.3f}]"),
        _show(found, ("loo_pearson", "loo_spearman"), lambda r, rho: f"{r:.2f} / {rho:.2f}"),
        _show(found, ("self_auc", "self_found"), lambda auc, share: f"{auc:.3f} / {share:.0%}"),
        _show(found, ("mean_auc", "mean_found"), lambda auc, share: f"{auc:.3f} / {share:.0%}"),
        _show(found, ("brittleness",), lambda share: f"{share:.0%}"),
        _show(found, ("build_seconds",), lambda value: f"{value:.2f}"),
        _show(found, ("score_seconds",), lambda value: f"{value:.2f}"),
        _show(found, ("peak_bytes",), _size),
        _show(found, ("storage_bytes",), _size),
    ]


def _show(found: Figures, names: tuple[str, ...], form: Callable[..., str]) -> str:
    values = [found.get(name) for name in names]
    return "–" if None in values else form(*values)


def _size(value: float) -> str:
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def _said(table: Figures) -> list[str]:
    """Return the table in sentences: who is best, where turn-over dropout stands."""
    removed = table["random_brittleness"]
    lines = [
        f"- Retraining noise allows an LDS of {table['ceiling']:.3f}. "
        + ("" if removed is None else f"Removing rows at random changes {removed:.0%} of the predictions."),
        _place(table, "lds", "LDS", "{:.3f}"),
        _place(table, "loo_spearman", "Rank correlation with leaving one out", "{:.2f}"),
        _place(table, "self_auc", "Wrong labels by self-influence (AUC)", "{:.3f}"),
        _place(table, "mean_auc", "Wrong labels by mean influence (AUC)", "{:.3f}"),
        _place(table, "brittleness", "Predictions changed", "{:.0%}"),
        _seconds(table),
    ]
    ours, chance = table["methods"][OURS], table["methods"]["random"]
    if len(ours.get("lds_by_seed", [])) > 1:
        each = ", ".join(f"{value:.3f}" for value in ours["lds_by_seed"])
        lines.append(f"- LDS of the original estimator, training by training: {each}.")
    if ours.get("lds") is not None and ours["lds_low"] <= chance["lds_high"]:
        lines.append("- By LDS the original estimator is not better than random scores here: the intervals overlap.")
    return [line for line in lines if line]


def _place(table: Figures, name: str, what: str, form: str) -> str:
    known = _known(table, name)
    if OURS not in known:
        return ""
    best = max(known.values())
    leaders = [NAMES[key] for key, value in known.items() if value == best]
    ours = f"the original estimator has {form.format(known[OURS])}, place {_rank(known, OURS)} of {len(known)}"
    return f"- {what}: best {' and '.join(leaders)} with {form.format(best)}; {ours}."


def _known(table: Figures, name: str) -> dict[str, float]:
    """Return a figure of every method that has it, without random scores."""
    methods = table["methods"].items()
    return {key: figures[name] for key, figures in methods if key != "random" and figures.get(name) is not None}


def _rank(known: dict[str, float], key: str) -> int:
    return 1 + sum(value > known[key] for value in known.values())


def _seconds(table: Figures) -> str:
    scoring = _known(table, "score_seconds")
    total = {key: table["methods"][key]["build_seconds"] + seconds for key, seconds in scoring.items()}
    if OURS not in total:
        return ""
    fastest, slowest = min(total, key=total.__getitem__), max(total, key=total.__getitem__)
    return (
        f"- Seconds, training included: least {NAMES[fastest]} with {total[fastest]:.2f}, most {NAMES[slowest]} with "
        f"{total[slowest]:.2f}; the original estimator takes {total[OURS]:.2f}."
    )


def _problems(table: Figures) -> list[str]:
    return [
        f"- {NAMES[key]}, {what}: {why}"
        for key, found in table["methods"].items()
        for what, why in found["problems"].items()
    ]


def _reading(result: dict[str, Any]) -> list[str]:
    left_out = [task["data"] for task in result["setting"]["tasks"] if not task["retrain"]]
    lines = [
        "## How to read this",
        "- The baselines are those of the paper. The recommended estimator is measured beside further ones in "
        "docs/results/faithfulness.md.",
        "- Seconds are of one process on a machine that others use too: compare orders, not digits. They hold the "
        "method's own training and the scores of all rows on all queries, not self-influence. Where a run was stopped "
        "and resumed, trainings of Re-train and Feldman & Zhang from before are not counted.",
        "- Peak memory is the growth of the process; memory that was freed before and used again is not counted, so "
        "that small figures are lower bounds. Storage is what is kept to answer further queries; Re-train and "
        "Feldman & Zhang keep answers, no models: other queries need all trainings again.",
        "- Re-train has one seed, the ground truth has others. Where the two hardly correlate, the "
        "effect of a single row is small beside the noise of a training: a method that averages this noise out can do "
        "better than Re-train, and none comes near 1.",
    ]
    if left_out:
        lines.append(
            f"- Re-train needs one training per row; in this size it is skipped on {' and '.join(left_out)}, where it "
            "serves as ground truth for some rows only."
        )
    return lines
