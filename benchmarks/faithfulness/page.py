"""The results page, made of the numbers that exist; what is missing is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnover.evaluation import markdown_table

from .earlier import MARK
from .explored import ALONE
from .gap import gaps
from .goals import goals
from .methods import own_methods
from .ours import CANDIDATES
from .plot import plot

Figures = dict[str, Any]


def page(result: Figures, folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    parts = ["# How faithful are the scores?", "", *_setting(result)]
    if plot(result, folder / "faithfulness.svg"):
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
    machine = result["machine"]
    about = (
        f"Written by `make bench-faithfulness` ({machine['cores']} cores of {machine['processor']}, "
        f"torch {machine['torch']}, turnover "
        f"{machine['turnover']}). All numbers: [faithfulness.json](faithfulness.json)."
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
        "the masked one, asked in full view, with masks of another seed than any method's.",
        "- **Mean influence** on clean validation rows: how well the lowest finds wrong labels, AUC / share of them "
        "among the worst 10 % of the rows.",
        "- **Self-influence** and **unseen**: the same without any validation row. Unseen means the probability of the "
        "row's label by a model that did not learn the row: the flipped view, or held-out folds. Losses over "
        "checkpoints are those of the flipped view (unseen), of the whole masked network, which has learned the row "
        "(under self-influence), or of both (unseen).",
        f"- Mean ± standard deviation over trainings with seeds {_list(how['seeds'])}, for what is said of the row "
        f"itself {_list(how['own_seeds'])}; one seed where no ± stands. Seconds of the processor, one thread, "
        "more of them where others used the machine too: trainings (of EK-FAC its factors, of TRAK its features too) + "
        "scoring of all rows against all validation rows and of the rows themselves (of Feldman & Zhang and cleanlab: "
        "their trainings too). Memory: how far the process grew.",
        f"- Options are chosen on seeds {_list(how['chosen_on'])} (as far as they are measured), never on those "
        "that are reported.",
    ]


def _why(result: Figures) -> list[str]:
    return [
        "Noise lowers LDS, and replicas lower noise by a known law, so that one model and several together tell what "
        "LDS would be without noise. What is missing beyond that is bias.",
        "",
        *gaps(result),
    ]


def _about(task: Figures) -> list[str]:
    how = task["setting"]
    wrong = "labels that people gave" if how["labels"] == "people" else "10 % of the labels changed at random"
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
        + (f"; retraining noise allows an LDS of: {', '.join(limits)}." if limits else "; the ceiling is not known.")
    ]


def _table(result: Figures, task: Figures) -> str:
    head = ["method", "LDS plain", "LDS masked", "mean influence", "self-influence", "unseen", "seconds", "memory"]
    chosen = (result["choice"] or {}).get("default")
    rows = []
    for name, found in task["methods"].items():
        title = result["titles"][name] + (" (the default)" if name == chosen else "")
        title = (f"**{title}**" if name in (*CANDIDATES, *own_methods()) else title) + _mark(found)
        rows.append(
            [
                title,
                _figure(found, "lds_plain"),
                _figure(found, "lds_full"),
                _pair(found, "mean"),
                _pair(found, "self"),
                _pair(found, "unseen"),
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
        lines.append(f"- Not measured: {', '.join(result['titles'][name] for name in task['missing'])}.")
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
        return ["Not chosen yet: `python -m benchmarks.faithfulness --choose`."]
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
        *(["", f"Not measured on all of these, so left out: {', '.join(left)}."] if left else []),
    ]


def _beside_masks(result: Figures) -> list[str]:
    """Say what of the default is not turn-over dropout: readers would credit masks with it."""
    default = (result["choice"] or {}).get("default") or ""
    how = CANDIDATES.get(default)
    if how is None or how.denoise is None or not how.denoise.gradients:
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
        shown = {result["titles"][name]: base[name] for name in ("paper", "ridge", "replicas_ridge") if name in base}
        rows = [
            [name + _mark(one), _figure(one, "lds_plain"), _figure(one, "lds_full"), _pair(one, "mean"), _cost(one)]
            for name, one in (shown | found).items()
        ]
        head = ["estimate", "LDS plain", "LDS masked", "mean influence", "seconds"]
        lines += [f"{result['tasks'][task]['setting']['title']}, one model unless said:", ""]
        lines += [markdown_table(head, rows), ""]
    return lines or ["Not measured yet: `python -m benchmarks.faithfulness --explore`."]


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
