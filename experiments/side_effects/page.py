"""The results page."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.findings import Finding, spread

from . import words
from .adapters import encoder_title, told_setting
from .plot import plot
from .run import WITH, WITHOUT

_FIGURE = "side_effects.svg"
_DEV_ROWS = 872
_MASKED = {"masks": "after the 11th layer", "masks and dropout": "after the 11th layer, and ordinary dropout",
           "masks on all layers": "on all layers"}  # fmt: skip


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    plot(result, folder / _FIGURE)
    parts = (_text(result), _vgg(result), _leaks(result), _rates(result))
    return "\n".join(
        [
            "# Side effects: what masks cost in accuracy, and what leaks",
            "",
            f"![Accuracy with and without masks, and the leak by layer]({_FIGURE})",
            "",
            *(line for part in parts for line in part),
            f"Measured in {result['spent']['seconds'] / 60:.1f} processor minutes.",
        ]
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's numbers beside ours."""
    setting, accuracy = result["setting"], words.vgg_accuracy(result)
    text, vgg, tested = setting["text"], setting["vgg"], result["tested_images"] * len(setting["vgg"]["seeds"])
    found = []
    for size in result["text"]["sizes"]:
        paper = words.PAPER_TEXT.get(size["rows"]) or words.PAPER_TEXT[5_000]
        rows = "" if size["rows"] in words.PAPER_TEXT else ", 5,000 rows"
        found.append(
            Finding(
                what=f"SST-2, {size['rows']:,} rows: accuracy without and with masks",
                paper=f"{paper[0]:.1f} → {paper[1]:.1f} (§4.1, BERT{rows})",
                ours=f"{_points(size[WITHOUT])} → {_points(size[WITH])}",
                setting=f"{encoder_title(text['encoder'], text['blocks'])}, {_epochs(text)}, {_seeds(text['seeds'])}",
                agreement=words.on_text(*words.lost_points(_accuracies(size[WITHOUT]), _accuracies(size[WITH]))),
            )
        )
    how = (
        f"width {vgg['width']:g}, {vgg['images']:,} images, {vgg['epochs']} epochs, rate chosen on held-out images, "
        f"{_seeds(vgg['seeds'])}"
    )
    networks = {name: _points(one["seeds"]) for name, one in result["vgg"].items()}
    leaked = mean(one["leak"]["early_share"] for one in result["vgg"]["masks"]["seeds"])
    paper = words.PAPER_VGG
    return [
        *found,
        Finding(
            "CIFAR-10, VGG19: accuracy without masks and with masks after the 11th layer",
            f"{paper['plain']:.1f} → {paper['masks']:.1f} (§4.1)",
            f"{networks['plain']} → {networks['masks']}",
            how,
            words.on_masks(accuracy, tested),
        ),
        Finding(
            "CIFAR-10, VGG19 with masks: accuracy, and accuracy with BatchNorm's statistics of the full network",
            "–",
            f"{networks['masks']} → {_points(result['vgg']['masks']['seeds'], 'statistics_of_the_whole')}",
            how,
            words.on_statistics(accuracy, words.vgg_accuracy(result, "statistics_of_the_whole"), tested),
        ),
        Finding(
            "CIFAR-10, VGG19: masks, and masks with ordinary dropout",
            f"{paper['masks']:.1f} → {paper['masks and dropout']:.1f} (§4.1)",
            f"{networks['masks']} → {networks['masks and dropout']}",
            f"{how}, dropout {vgg['dropout']:g}",
            words.on_dropout(accuracy, tested),
        ),
        Finding(
            "CIFAR-10, VGG19: masks on all layers",
            "no number: training unstable (§4.1)",
            networks["masks on all layers"],
            how,
            words.on_all_layers(accuracy, tested),
        ),
        Finding(
            "CIFAR-10, VGG19 with masks after the 11th layer: leak through the early layers",
            "no number: assumed to be small (§4.1, footnote)",
            f"{leaked:.0%} of a row's squared gradient",
            f"{how}, by `turnover.audit`",
            words.on_leak(leaked),
        ),
    ]


def _text(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]["text"]
    yield "## Adapters on SST-2"
    yield ""
    yield (
        f"{told_setting(setting)}, {_epochs(setting)}, accuracy on {setting['dev_rows'] or _DEV_ROWS} dev rows; "
        f"{_seeds(setting['seeds'])}, with other rows, masks and order each. Both networks of a seed start from the "
        "same weights and see the same rows."
    )
    yield from ["", "| rows | without | with masks | the paper, BERT |", "| ---: | ---: | ---: | --- |"]
    for size in result["text"]["sizes"]:
        paper = words.PAPER_TEXT.get(size["rows"])
        beside = "–" if paper is None else f"{paper[0]:.1f} → {paper[1]:.1f}"
        yield f"| {size['rows']:,} | {_points(size[WITHOUT])} | {_points(size[WITH])} | {beside} |"
    if not any(size["rows"] in words.PAPER_TEXT for size in result["text"]["sizes"]):
        every = "; ".join(f"{rows:,} rows {one:.1f} → {two:.1f}" for rows, (one, two) in words.PAPER_TEXT.items())
        yield from ["", f"The paper has other numbers of rows: {every}."]
    for size in result["text"]["sizes"]:
        lost = words.lost_points(_accuracies(size[WITHOUT]), _accuracies(size[WITH]))
        yield from ["", f"{size['rows']:,} rows: {words.on_text(*lost)}"]
    yield ""


def _vgg(result: Mapping[str, Any]) -> Iterable[str]:
    setting, accuracy = result["setting"]["vgg"], words.vgg_accuracy(result)
    tested = result["tested_images"] * len(setting["seeds"])
    yield "## VGG19 on CIFAR-10"
    yield ""
    yield (
        f"Width {setting['width']:g} of the usual, {setting['images']:,} images, {setting['epochs']} epochs, "
        f"batches of {setting['batch']}; channel masks on the ReLU of the convolutions; ordinary dropout of "
        f"{setting['dropout']:g} at the same places. Accuracy of the full network on "
        f"{result['tested_images']:,} test images, {_seeds(setting['seeds'])}."
    )
    yield from [
        "",
        "| network | rate | test images | trained images | test images, statistics of the full network | the paper |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, one in result["vgg"].items():
        beside = f"{words.PAPER_VGG[name]:.1f}" if name in words.PAPER_VGG else "unstable"
        yield (
            f"| {name} | {one['best']:g} | {_points(one['seeds'])} | {_points(one['seeds'], 'trained')} | "
            f"{_points(one['seeds'], 'statistics_of_the_whole')} | {beside} |"
        )
    order = sorted(words.PAPER_VGG, key=lambda name: -accuracy[name])
    same = order == sorted(words.PAPER_VGG, key=lambda name: -words.PAPER_VGG[name])
    yield ""
    near = [
        f"“{one}” and “{other}”"
        for one, other in pairwise(order)
        if accuracy[one] - accuracy[other] <= words.noise(accuracy[one], accuracy[other], tested)
    ]
    yield (
        f"From best to worst: {', '.join(order)}. The paper's order is {'the same' if same else 'another'}"
        + (f", but {' and '.join(near)} cannot be told apart here." if near else ".")
    )
    yield ""
    yield from (f"- {told}" for told in (words.on_masks(accuracy, tested), words.on_dropout(accuracy, tested)))
    yield f"- {words.on_all_layers(accuracy, tested)}"
    yield f"- {words.on_statistics(accuracy, words.vgg_accuracy(result, 'statistics_of_the_whole'), tested)}"
    yield ""


def _leaks(result: Mapping[str, Any]) -> Iterable[str]:
    yield "## What leaks, and what is memorized"
    yield ""
    yield (
        "Shares of a trained row's squared gradient that `turnover.audit` finds on parameters which its flipped "
        "network uses, after training; running statistics of BatchNorm leak besides and have no gradient."
    )
    yield from [
        "",
        "| masks | all leaks | early layers (1 to 11) | by cause, first seed |",
        "| --- | ---: | ---: | --- |",
    ]
    for name, title in _MASKED.items():
        leaks = [one["leak"] for one in result["vgg"][name]["seeds"]]
        shares = [spread([100 * one[key] for one in leaks], ".1f") for key in ("gradient_share", "early_share")]
        causes = ", ".join(f"{cause} {share:.1%}" for cause, share in leaks[0]["by_cause"].items() if share > 0)
        yield f"| {title} | {shares[0]} % | {shares[1]} % | {causes or 'none'} |"
    first = result["vgg"]["masks"]["seeds"]
    yield from ["", words.on_leak(mean(one["leak"]["early_share"] for one in first)), ""]
    for name, title in _MASKED.items():
        one = result["vgg"][name]["seeds"][0]
        yield f"- Masks {title}, first seed. {words.on_memory(one['memory'], one['trained'])}"
    yield ""


def _rates(result: Mapping[str, Any]) -> Iterable[str]:
    tried = {f"adapters {name}": one for name, one in result["text"]["rates"].items()} | {
        f"VGG19 {name}": one for name, one in result["vgg"].items()
    }
    if all(len(one["held_out"]) < 2 for one in tried.values()):
        return
    yield "## Learning rates"
    yield ""
    yield "For each network by itself, by accuracy on held-out rows of the training data; no dev or test row decides."
    yield from ["", "| network | held-out accuracy by rate | chosen |", "| --- | --- | --- |"]
    for name, one in tried.items():
        known = {rate: value for rate, value in one["held_out"].items() if value is not None}
        by_rate = ", ".join(f"{rate}: {100 * value:.1f}" for rate, value in known.items())
        yield f"| {name} | {by_rate or 'not tried'} | {one['best']:g} |"
    yield ""


def _accuracies(runs: Sequence[Mapping[str, float]]) -> list[float]:
    return [one["accuracy"] for one in runs]


def _points(runs: Sequence[Mapping[str, float]], name: str = "accuracy") -> str:
    return spread([100 * one[name] for one in runs], ".1f")


def _epochs(text: Mapping[str, Any]) -> str:
    if text["epochs"] == text["epochs_without"]:
        return f"{text['epochs']} epoch{'s' if text['epochs'] > 1 else ''}"
    return f"{text['epochs']} epochs with masks and {text['epochs_without']} without"


def _seeds(seeds: Sequence[int]) -> str:
    return "one seed" if len(seeds) == 1 else f"mean ± sd of {len(seeds)} seeds"
