"""The results page of one data set, and its findings."""

from pathlib import Path
from typing import Any

import numpy as np

from turnover.evaluation import Bootstrap, mean_interval
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.findings import Finding, agreements, counted, graded, paragraphs

from .figures import image_figure, text_figure
from .run import ESTIMATES

_TITLES = {"sst2": "SST-2", "yahoo": "Yahoo Answers", "cifar10": "CIFAR-10"}
_PAPER = {
    "sst2": "one text whose many subwords recur in its supporting row (Figure on SST-2)",
    "yahoo": "one text that shares “ch ##rist” with two supporting rows (Figure on Yahoo Answers)",
    "cifar10": "images that resemble their supporting images in shape, layout or color (Figure on CIFAR-10)",
}

_MOST = 0.5
"""Of the errors: where fewer are corrected, most are not due to these rows alone."""


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    how, repair = result["setting"], result["repair"]
    images, figure = how["data"] == "cifar10", f"error_{how['data']}.svg"
    (image_figure if images else text_figure)(result["shown"], folder / figure)
    parts = [
        f"# Errors on {_TITLES[how['data']]}, and the training rows behind them",
        f"{result['train_rows']:,} training rows, {_network(how)}, {result['replicas']} replicas; "
        f"{result['wrong']:,} errors on {result['test_rows']:,} test rows (accuracy {result['accuracy']:.1%}). Shown "
        f"are the first {len(result['shown'])} of the file{'' if images else ' whose texts are short'}, each with the "
        f"{how['supporting']} training rows of the predicted label that support it most (score ± standard error; * "
        "significant)" + ("." if images else "; subwords of both texts are marked."),
        f"![errors and their supporting rows]({figure})",
        "## Are errors corrected without these rows?",
        f"For each of {repair['errors']} errors drawn at random, the {how['share']:.0%} of the training rows "
        f"({repair['removed']}) of the predicted label that support it most are removed, and the network without masks "
        f"is retrained from {counted(len(how['seeds']), 'seed')}; beside it, as many random rows of that label. An "
        f"error counts where a training on all rows makes it too: {repair['tried']} cases. Intervals (95 %) are over "
        f"errors. All cases together take {_trainings(repair, how):,} trainings, hence a small network.",
        markdown_table(["removed", "corrected", "share", "more than at random"], _rows(result)),
        *agreements(findings(result)),
    ]
    return paragraphs(parts)


def _trainings(repair: dict[str, Any], how: dict[str, Any]) -> int:
    """Return how many networks are trained: without the rows of every choice for every case, and on all rows."""
    return (len(ESTIMATES) + 1) * repair["tried"] + len(how["seeds"])


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what the paper shows beside what we measure."""
    how, repair, shared = result["setting"], result["repair"], result["shared"]
    title, about = _TITLES[how["data"]], f"{result['train_rows']:,} rows, {_network(how)}, one training"
    if shared is not None:
        more = shared["supporting"] > shared["random"]
        first = Finding(
            f"{title}: what an error and its supporting rows share",
            _PAPER[how["data"]],
            f"{shared['supporting']:.2f} shared subwords; with random rows of that label {shared['random']:.2f}",
            about,
            f"Supporting rows share {'more' if more else 'no more'} subwords with an error than random rows of that "
            f"label do ({shared['supporting']:.2f} against {shared['random']:.2f}): "
            + (
                "what the paper shows in one example holds on average."
                if more
                else "the paper's example is not typical."
            ),
            f"{title}: an error and its supporting rows share subwords",
            graded(more),
            "more than random rows",
        )
    else:
        first = Finding(
            f"{title}: errors and their supporting rows",
            _PAPER[how["data"]],
            "figure",
            about,
            "Visual resemblance is not scored, only whether retraining corrects the error, below.",
        )
    share = {name: _share(repair, name) for name in ("recommended", "tod", "random")}
    low, high = _difference(repair, "recommended")
    verdict = "corrects it more" if low > 0 else "corrects it less" if high < 0 else "does not clearly correct it more"
    second = Finding(
        f"{title}: errors corrected by removing {how['share']:.0%}",
        "–",
        f"{share['recommended']:.0%} corrected by the recommended estimator, {share['tod']:.0%} by the original "
        f"one; by removing random rows of that label {share['random']:.0%}",
        f"{about}, {repair['tried']} cases, retrained from {counted(len(how['seeds']), 'seed')}",
        f"Removing the {how['share']:.0%} that support an error most {verdict} often than removing random rows of "
        f"that label does (difference {low:+.0%} to {high:+.0%}); by the original estimator "
        "{:+.0%} to {:+.0%}.".format(*_difference(repair, "tod")),
        f"{title}: an error is due to its most supporting rows (our test: retraining without them corrects it)",
        graded(low > 0 and share["recommended"] > _MOST, in_part=low > 0),
        f"recommended estimator: significantly more than random, and {_MOST:.0%} of the errors; in part: the first",
    )
    return [first, second]


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


def _network(how: dict[str, Any]) -> str:
    if how["data"] == "cifar10":
        return f"a small convolutional network on {how['image_size']} × {how['image_size']} pixels"
    encoder = "MiniLM" if how["model"] is None else how["model"]
    return f"{encoder} with adapters" if how["adapters"] else f"a masked layer on frozen features of {encoder}"
