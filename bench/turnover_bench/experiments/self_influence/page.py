"""The results page and its figure: histograms of self-influence beside null ids, and C-scores."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import (
    Finding,
    Verdict,
    agreements,
    graded,
    paragraphs,
    percents,
    replicas_words,
    spread,
)

_TRAINED, _NEVER, _MANY = "#1b7fa6", "#a0a0a0", "#d95f02"
_TITLES = {"sst2": "SST-2", "cifar10": "CIFAR-10"}


def _plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the figure: histograms of the first seed, and C-scores of all seeds."""
    with drawn(file, (13, 4)) as figure:
        panels = figure.subplots(1, 3)
        for panel, (name, task) in zip(panels, result["tasks"].items(), strict=False):
            _histogram(panel, task["runs"]["1"][0])
            panel.set_title(f"{_TITLES[name]}, one model")
        panels[0].set_ylabel("training rows")
        _cscores(panels[2], result["tasks"]["cifar10"]["runs"])
        for panel in panels:
            tidy(panel, grid=None)


def _histogram(panel: Any, found: Mapping[str, Any]) -> None:
    # The outermost bins hold all that lies beyond them and would look like peaks.
    edges = found["histogram"]["edges"][1:-1]
    rows, null = (found["histogram"][who][1:-1] for who in ("trained", "null"))
    trained = f"trained rows: {found['positive']:.0%} above 0"
    panel.stairs(rows, edges, fill=True, color=_TRAINED, alpha=0.55, label=trained)
    panel.stairs(null, edges, color="#333333", linewidth=1.2, label=f"null ids: {found['null_positive']:.0%} above 0")
    panel.axvline(0, ymax=0.8, color="black", linewidth=0.8, linestyle=":")
    panel.set(xlabel="self-influence (loss without − loss with the row)", xlim=(edges[0], edges[-1]))
    panel.set_ylim(0, 1.25 * max(*rows, *null))
    panel.legend(frameon=False, loc="upper left", fontsize=9)


def _cscores(panel: Any, runs: Mapping[str, Any]) -> None:
    for (replicas, found), color, marker in zip(runs.items(), (_TRAINED, _MANY), "os", strict=False):
        panel.plot(
            *_means(found, "trained"), marker, color=color, linestyle="-", markersize=5, label=replicas_words(replicas)
        )
    first = next(iter(runs.values()))
    panel.plot(*_means(first, "null"), color=_NEVER, linestyle="--", label="null ids")
    panel.axhline(0, color="black", linewidth=0.8, linestyle=":")
    panel.set(
        xlabel="C-score (mean of a tenth of the images)", ylabel="mean self-influence", title="CIFAR-10, C-scores"
    )
    panel.legend(frameon=False, fontsize=9)


def _means(found: list[Mapping[str, Any]], what: str) -> tuple[list[float], list[float]]:
    """Return C-scores and the mean over seeds of each tenth."""
    tenths = zip(*(one["deciles"][what] for one in found), strict=True)
    return found[0]["deciles"]["consistency"], [sum(some) / len(some) for some in tenths]


_FIGURE = "self_influence.svg"
_MEASURES = {
    "self_influence": "self-influence",
    "held_out_probability": "held-out probability of the label",
    "full_loss": "loss of the full network (for comparison)",
    "null": "null ids on the same images",
}
_CAPTION = "Histograms of the first seed; about 2 % of the values lie beyond the edges. C-scores: means over seeds."
# A rank correlation that is no more than this is not worth calling one.
# Two binomial shares of the same many rows: five points are far outside what chance gives.
_CLEARLY = 0.05
_WEAK = 0.1


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    return paragraphs(
        ["# Self-influence on SST-2 and CIFAR-10, beside null ids and C-scores", *_settings(result)],
        [f"![Histograms and C-scores]({_FIGURE})", _CAPTION],
        ["## How much is positive", *_shares(result)],
        ["## C-scores", *_consistency(result), *agreements(findings(result)), *_notes(result)],
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's statements beside ours."""
    found = []
    for name, task in result["tasks"].items():
        runs = task["runs"]["1"]
        found.append(
            Finding(
                what=f"{_TITLES[name]}: share of rows with positive self-influence",
                paper="“most” (histogram, appendix)" if name == "sst2" else "“a similar distribution” (appendix)",
                ours=f"{_percent(runs, 'positive')} (null ids: {_percent(runs, 'null_positive')})",
                setting=f"{network(name, result['setting'])}, {task['rows']:,} rows, {len(runs)} seeds",
                agreement=agreement(_TITLES[name], runs),
                claim=f"most rows of {_TITLES[name]} have positive self-influence",
                verdict=_verdict(runs),
                rule=f"over half, and {100 * _CLEARLY:g} points more than null ids; in part: over half",
            )
        )
    task = result["tasks"]["cifar10"]
    ours = {replicas: [one["cscores"]["self_influence"] for one in runs] for replicas, runs in task["runs"].items()}
    told = ", ".join(f"{replicas_words(replicas)} {spread(values, '.2f')}" for replicas, values in ours.items())
    found.append(
        Finding(
            what="CIFAR-10: rank correlation of self-influence with C-scores",
            paper="–",
            ours=told,
            setting=f"{network('cifar10', result['setting'])}, {task['rows']:,} images",
            agreement=cscore_sentence(ours),
        )
    )
    return found


def _verdict(runs: list[Mapping[str, Any]]) -> Verdict:
    trained, null = _mean(runs, "positive"), _mean(runs, "null_positive")
    return graded(trained > 0.5 and trained > null + _CLEARLY, in_part=trained > 0.5)


def agreement(title: str, runs: list[Mapping[str, Any]]) -> str:
    """Return in a sentence whether most rows have positive self-influence, and more of them than null ids."""
    trained, null = _mean(runs, "positive"), _mean(runs, "null_positive")
    told = f"{trained:.0%} of the rows, against {null:.0%} of null ids"
    if trained > 0.5 and trained > null + _CLEARLY:
        return f"{title}: agrees with the paper, most rows have positive self-influence ({told})."
    if trained > 0.5:
        return (
            f"{title}: most rows are above zero, as in the paper, but hardly more than null ids are ({told}): the "
            "sign may be noise."
        )
    return f"{title}: does not agree with the paper, most rows do not have positive self-influence ({told})."


def cscore_sentence(ours: Mapping[str, list[float]]) -> str:
    """Return in a sentence whether consistent images have lower self-influence."""
    means = {replicas: sum(values) / len(values) for replicas, values in ours.items()}
    told = " and ".join(f"{value:.2f} for {replicas_words(replicas)}" for replicas, value in means.items())
    if all(value < -_WEAK for value in means.values()):
        return f"Images with a high C-score have lower self-influence, as expected: rank correlation {told}."
    if any(value < -_WEAK for value in means.values()):
        return f"That images with a high C-score have lower self-influence holds in part only: {told}."
    return f"Self-influence does not fall with the C-score: rank correlation {told}."


def network(name: str, setting: Mapping[str, Any]) -> str:
    """Return which network learns a data set, in words."""
    if name == "sst2":
        text = setting["text"]
        if text["encoder"] is not None:
            return f"masked adapters in {text['encoder']}"
        return f"MiniLM features and a masked layer of {text['hidden']}"
    image = setting["image"]
    if image["vgg"]:
        return f"VGG19 of {image['vgg']:g} times the usual width"
    first, second, width = image["hidden"]
    return f"two convolutions ({first} and {second} channels) and a masked layer of {width}, 16 × 16 pixels"


def _settings(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]
    yield (
        "Self-influence is the loss of a training row in its flipped subnetwork minus that in its kept one: positive "
        "where training on the row helps to predict it. As in the paper, scores are not centered. For every row a null "
        "id is scored on the same row, which shows the noise."
    )
    for name, task in result["tasks"].items():
        part = setting["text" if name == "sst2" else "image"]
        rate = task["rate"]
        tried = ", ".join(f"{one}: {loss:.3f}" for one, loss in rate["loss"].items())
        chosen = f" (loss on held-out training rows by rate: {tried})" if tried else ""
        precision = " in bfloat16" if part.get("bfloat16") else ""
        yield (
            f"- {_TITLES[name]}: {task['rows']:,} rows, {network(name, setting)}; {part['epochs']} epochs{precision}, "
            f"rate {rate['best']:g}{chosen}."
        )


def _shares(result: Mapping[str, Any]) -> Iterable[str]:
    rows = []
    for name, task in result["tasks"].items():
        for replicas, runs in task["runs"].items():
            cells = [_percent(runs, what) for what in ("accuracy", "positive", "null_positive", "beyond_null")]
            cells += [spread([one[what] for one in runs], ".4f") for what in ("mean", "null_mean")]
            between = task["agreement"][replicas]
            cells.append("–" if between is None else f"{between:.2f}")
            rows.append([_TITLES[name], replicas_words(replicas), *cells])
    head = ["data", "network", "test accuracy", "above 0", "null ids above 0", "beyond 95 % of these", "mean"]
    yield markdown_table([*head, "mean of null ids", "rank correlation of two seeds"], rows)
    yield (
        "Mean ± sd over seeds. The last column compares the order of rows between trainings with other masks, "
        "parameters and batches; where it is low, single values are mostly noise although their mean is not."
    )


def _consistency(result: Mapping[str, Any]) -> Iterable[str]:
    runs = result["tasks"]["cifar10"]["runs"]
    yield (
        "The C-score of an image (Jiang et al. 2021) is how often networks that were not trained on it recognize it. "
        "An image that is explained by others need not be memorized: expected are a negative rank correlation with "
        "self-influence, and a positive one with the held-out probability of its label."
    )
    rows = [
        [title, *(spread([one["cscores"][measure] for one in seeds]) for seeds in runs.values())]
        for measure, title in _MEASURES.items()
    ]
    yield markdown_table(["rank correlation with the C-score", *map(replicas_words, runs)], rows)


def _notes(result: Mapping[str, Any]) -> Iterable[str]:
    if not result["setting"]["image"]["vgg"]:
        yield (
            "The convolutions are shared by all masks and learn every image: part of an image's self-influence is "
            "in both views and cancels. The same holds below the 12th layer of the paper's VGG19."
        )


def _mean(runs: list[Mapping[str, Any]], what: str) -> float:
    return sum(one[what] for one in runs) / len(runs)


def _percent(runs: list[Mapping[str, Any]], what: str) -> str:
    return f"{percents([one[what] for one in runs])} %"
