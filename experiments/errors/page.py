"""The results page of one data set, and its findings."""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.findings import Finding
from turnover.evaluation import Bootstrap, markdown_table, mean_interval

from .image_figure import image_figure
from .repaired import ESTIMATES
from .text_figure import text_figure

TITLES = {"sst2": "SST-2", "yahoo": "Yahoo Answers", "cifar10": "CIFAR-10"}
_PAPER = {
    "sst2": "one text whose many subwords recur in the row behind it (Figure on SST-2)",
    "yahoo": "one text that shares “ch ##rist” with two rows behind it (Figure on Yahoo Answers)",
    "cifar10": "images that resemble those behind them in shape, layout or color (Figure on CIFAR-10)",
}


def error_page(result: dict[str, Any], folder: Path, *, name: str) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    how, repair = result["setting"], result["repair"]
    draw = image_figure if how["data"] == "cifar10" else text_figure
    draw(result["shown"], folder / f"{name}.svg", salt=name)
    title = TITLES[how["data"]]
    parts = [
        f"# Wrong predictions on {title}, and the training rows behind them",
        "",
        f"{result['train_rows']:,} training rows, {_network(how)}, {result['replicas']} replicas; of "
        f"{result['test_rows']:,} test rows {result['wrong']:,} are predicted wrongly (accuracy "
        f"{result['accuracy']:.1%}). Shown are the first {len(result['shown'])} of them in the file{_short(how)}, each "
        f"with the {how['behind']} training rows of the predicted label that pushed it there most (denoised score ± "
        "standard error, in units of the loss; * stands out from noise)"
        + ("." if how["data"] == "cifar10" else "; subwords that both texts have are marked."),
        "",
        f"![wrong predictions and the rows behind them]({name}.svg)",
        "",
        "## Are errors repaired without these rows?",
        "",
        f"For each of {repair['errors']} errors drawn at random, the {how['share']:.0%} of the training rows "
        f"({repair['removed']}) of the predicted label that pushed it there most are removed, and the network without "
        f"masks is trained anew, from {_several(len(how['seeds']), 'seed')}; beside it, as many random rows of that "
        f"label. An error counts where a training on all rows makes it too: {repair['tried']} cases. "
        "Intervals (95 %) are drawn over errors.",
        "",
        markdown_table(["removed", "repaired", "share", "more than at random"], _rows(result)),
        "",
        *(f"- {one.agreement}" for one in error_findings(result)),
    ]
    return "\n".join(parts)


def error_findings(result: dict[str, Any]) -> list[Finding]:
    """Return what the paper shows beside what we measure."""
    how, repair = result["setting"], result["repair"]
    about = f"{result['train_rows']:,} rows, {_network(how)}"
    found = []
    shared = result["shared"]
    if shared is not None:
        more = shared["behind"] > shared["random"]
        found.append(
            Finding(
                f"{TITLES[how['data']]}: what an error and the rows behind it share",
                _PAPER[how["data"]],
                f"{shared['behind']:.2f} subwords in common, with random rows of that label {shared['random']:.2f}",
                about,
                f"The rows behind an error share {'more' if more else 'no more'} subwords with it than random rows of "
                f"that label do ({shared['behind']:.2f} against {shared['random']:.2f}): "
                + ("what the paper shows in one example holds on average." if more else "the paper's example is one."),
            )
        )
    else:
        found.append(
            Finding(
                f"{TITLES[how['data']]}: errors and the rows behind them",
                _PAPER[how["data"]],
                "figure",
                about,
                "Whether images resemble those behind them is for the reader to see; the number is the repair below.",
            )
        )
    share = {name: _share(repair, name) for name in ("denoised", "random")}
    low, high = _difference(repair, "denoised")
    verdict = "more often than" if low > 0 else "less often than" if high < 0 else "not clearly more often than"
    found.append(
        Finding(
            f"{TITLES[how['data']]}: errors repaired by removing {how['share']:.0%}",
            "–",
            f"{share['denoised']:.0%}, random rows of that label {share['random']:.0%}",
            about,
            f"Removing the {how['share']:.0%} that pushed an error most repairs it {verdict} removing random rows of "
            f"that label (difference {low:+.0%} to {high:+.0%}).",
        )
    )
    return found


def _rows(result: dict[str, Any]) -> list[list[str]]:
    repair = result["repair"]
    rows = []
    for name in (*ESTIMATES, "random"):
        title = f"by {ESTIMATES[name]}" if name in ESTIMATES else "random rows of that label"
        more = "–" if name == "random" else "{:+.0%} to {:+.0%}".format(*_difference(repair, name))
        rows.append([title, f"{repair['repaired'][name]} of {repair['tried']}", f"{_share(repair, name):.0%}", more])
    return rows


def _share(repair: dict[str, Any], name: str) -> float:
    return repair["repaired"][name] / repair["tried"] if repair["tried"] else 0.0


def _difference(repair: dict[str, Any], name: str) -> tuple[float, float]:
    """Return the 95 % interval over errors of how much more often errors are repaired than at random."""
    pairs = zip(repair["by_error"][name], repair["by_error"]["random"], strict=True)
    each = np.array([one - other for one, other in pairs if one is not None])
    if len(each) < 2:
        return -1.0, 1.0
    interval = mean_interval(each, Bootstrap())
    return interval.low, interval.high


def _short(how: dict[str, Any]) -> str:
    return "" if how["data"] == "cifar10" else " whose texts are short"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _network(how: dict[str, Any]) -> str:
    if how["data"] == "cifar10":
        return f"a small convolutional network on {how['image_size']} × {how['image_size']} pixels"
    encoder = "MiniLM" if how["model"] is None else how["model"]
    return f"{encoder} with adapters" if how["adapters"] else f"a masked layer on frozen features of {encoder}"
