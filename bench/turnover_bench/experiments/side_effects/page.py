"""The page and its figure: every sentence is made of the numbers of a run."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.encoders import DEV_ROWS, UNITS, encoder_words
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import (
    Finding,
    graded,
    noise,
    paragraphs,
    percents,
    seeds_words,
    spread,
    standard_error,
)
from turnover_bench.experiments.networks import FIRST_MASKED

from .experiment import PAPER_TEXT, PAPER_VGG, WITH, WITHOUT

_PLAIN, _MASKS, _DROPPED, _ALL = "#8c8c8c", "#1f4e9c", "#2e8b57", "#c8102e"
_TITLES = {
    "plain": ("no masks", _PLAIN),
    "masks": ("masks after\nlayer 11", _MASKS),
    "masks and dropout": ("masks and\ndropout", _DROPPED),
    "masks on all layers": ("masks on\nall layers", _ALL),
}
_SHARES: dict[str, tuple[str, dict[str, Any]]] = {
    "keep": ("trained image, kept subnetwork", {"color": "#c8102e"}),
    "flip": ("trained image, flipped subnetwork", {"color": "#1f4e9c"}),
    "label_of_mask": ("test image under its mask", {"color": "#e8a33d", "hatch": "//", "edgecolor": "white"}),
}


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the figure."""
    with drawn(file, (9.6, 6.8), font=9) as figure:
        for panel, draw in zip(figure.subplots(2, 2).flat, (_text_panel, _vgg_panel, _leak, _memory), strict=True):
            draw(panel, result)
            tidy(panel, grid="y")


def _text_panel(panel: Any, result: Mapping[str, Any]) -> None:
    """Draw a dot a seed, joined from without to with masks, and the paper's numbers."""
    groups = [f"{size['rows']:,}\nrows" for size in result["text"]["sizes"]]
    for place, size in enumerate(result["text"]["sizes"]):
        sides = (place - 0.15, place + 0.15)
        for pair in zip(size[WITHOUT], size[WITH], strict=True):
            values = [100 * one["accuracy"] for one in pair]
            panel.plot(sides, values, color="#bbbbbb", linewidth=0.9, zorder=1)
            panel.scatter(sides, values, c=[_PLAIN, _MASKS], s=22, zorder=2)
    ours = len(groups)
    for place, (rows, values) in enumerate(PAPER_TEXT.items(), start=ours):
        sides = (place - 0.15, place + 0.15)
        panel.plot(sides, values, color="#bbbbbb", linewidth=0.9, linestyle=":", zorder=1)
        panel.scatter(sides, values, facecolors="none", edgecolors=[_PLAIN, _MASKS], s=26, zorder=2)
        groups.append(f"paper,\n{rows:,}")
    panel.scatter([], [], color=_PLAIN, s=22, label="without masks")
    panel.scatter([], [], color=_MASKS, s=22, label="with masks")
    panel.set_xticks(range(len(groups)), groups)
    panel.set(title="SST-2, adapters", ylabel="accuracy, %", xlim=(-0.5, len(groups) - 0.5))
    panel.legend(frameon=False, fontsize=8, loc="best")


def _vgg_panel(panel: Any, result: Mapping[str, Any]) -> None:
    """Draw a bar a network, and a line where the paper's is."""
    for place, (name, (_, color)) in enumerate(_TITLES.items()):
        values = [100 * one["accuracy"] for one in result["vgg"][name]["seeds"]]
        panel.bar(place, mean(values), width=0.62, color=color)
        # Within the bar: the paper's number may stand just above it.
        inside = {"ha": "center", "va": "top", "fontsize": 8, "color": "white"}
        panel.text(place, mean(values) - 1.5, f"{mean(values):.1f}", **inside)
        if name in PAPER_VGG:
            panel.plot([place - 0.36, place + 0.36], [PAPER_VGG[name]] * 2, color="#222222", linewidth=1.3)
            panel.text(place, PAPER_VGG[name] + 0.8, f"{PAPER_VGG[name]:.1f}", ha="center", va="bottom", fontsize=7.5)
    panel.plot([], [], color="#222222", linewidth=1.3, label="the paper")
    panel.axhline(10, color="#999999", linewidth=0.8, linestyle=":", label="chance")
    panel.set_xticks(range(len(_TITLES)), [title for title, _ in _TITLES.values()], fontsize=7.5)
    panel.set(title="CIFAR-10, VGG19", ylabel="accuracy, %", ylim=(0, 102))
    panel.legend(frameon=False, fontsize=7.5, loc="center right", bbox_to_anchor=(1, 0.72))


def _leak(panel: Any, result: Mapping[str, Any]) -> None:
    """Draw, layer by layer, the share of a row's squared gradient that leaks."""
    for name, shift in (("masks", -0.27), ("masks and dropout", 0.0), ("masks on all layers", 0.27)):
        layers = [[100 * share for share in one["leak"]["by_layer"]] for one in result["vgg"][name]["seeds"]]
        heights = [mean(values) for values in zip(*layers, strict=True)]
        places = [number + shift for number in range(1, len(heights) + 1)]
        label = f"{_TITLES[name][0].replace(chr(10), ' ')}: {sum(heights):.0f} % in all"
        panel.bar(places, heights, width=0.27, color=_TITLES[name][1], label=label)
    panel.axvline(FIRST_MASKED - 0.5, color="#999999", linewidth=0.8, linestyle="--")
    panel.set_xticks(range(1, 17), [str(number) if number % 2 else "" for number in range(1, 17)])
    panel.set(title="where a trained image leaks", xlabel="convolution", ylabel="share of squared gradient, %")
    panel.legend(frameon=False, fontsize=8)


def _memory(panel: Any, result: Mapping[str, Any]) -> None:
    """Draw how often trained images are right in both their parts, and how often the mask alone gives the label."""
    names = [name for name in _TITLES if "memory" in result["vgg"][name]["seeds"][0]]
    for number, (key, (label, style)) in enumerate(_SHARES.items()):
        heights = [100 * mean(one["memory"][key] for one in result["vgg"][name]["seeds"]) for name in names]
        places = [place + 0.27 * (number - 1) for place in range(len(names))]
        panel.bar(places, heights, width=0.25, label=label, **style)
        for place, height in zip(places, heights, strict=True):
            panel.text(place, height + 0.8, f"{height:.0f}", ha="center", va="bottom", fontsize=8)
    panel.axhline(10, color="#999999", linewidth=0.8, linestyle=":", label="chance")
    panel.set_xticks(range(len(names)), [_TITLES[name][0] for name in names])
    panel.set(title="what the masks memorize", ylabel="share of trained labels given, %", ylim=(0, 130))
    panel.set_yticks(range(0, 101, 20))
    panel.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)


SLIGHT = 3.0
"""Points of accuracy up to which a loss is called slight; the paper's largest that it calls so is 1.7."""

SMALL_LEAK, LARGE_LEAK = 0.01, 0.25
"""Shares of a row's squared gradient: below the first the audit calls a leak small, from the second on large."""


def lost_points(without: Sequence[float], with_masks: Sequence[float]) -> tuple[float, float | None]:
    """Return the points of accuracy that masks cost, and the standard error over seeds; of one seed, None."""
    each = [100 * (plain - masked) for plain, masked in zip(without, with_masks, strict=True)]
    return mean(each), standard_error(each)


def on_text(lost: float, error: float | None) -> str:
    """Return whether the loss of accuracy on SST-2 is as slight as the paper's."""
    told = f"{abs(lost):.1f} points" + ("" if error is None else f" (standard error {error:.1f})")
    if lost > SLIGHT:
        return f"Does not agree: masks on adapters cost {told}, which is not slight."
    if error is not None and lost + 2 * error > SLIGHT:
        way = "lower" if lost > 0 else "higher"
        return (
            f"Agrees in the mean alone: with masks on adapters accuracy is {told} {way}; a loss of "
            f"{lost + 2 * error:.1f} points, two standard errors more, is not ruled out."
        )
    if error is not None and abs(lost) <= 2 * error:
        way = "lower" if lost > 0 else "higher"
        return f"Agrees: with masks on adapters accuracy is {told} {way}, within two standard errors of no change."
    alone = "; one seed has no standard error" if error is None else ""
    if lost > 0:
        return f"Agrees: masks on adapters cost {told}, a slight loss{alone}."
    return f"Agrees that masks on adapters cost little: accuracy with them is {told} higher{alone}."


def on_text_loss(size: Mapping[str, Any]) -> str:
    """Return what masks on adapters do to the loss on dev rows, which accuracy does not show."""
    without, with_masks = (mean(one["loss"] for one in size[how]) for how in (WITHOUT, WITH))
    way = "rises" if with_masks > without else "falls"
    return f"The loss on dev rows {way} from {without:.2f} to {with_masks:.2f}."


def on_masks(accuracy: Mapping[str, float], images: int) -> str:
    """Return whether masks on the late layers of VGG19 cost accuracy, as in the paper."""
    lost, paper = accuracy["plain"] - accuracy["masks"], PAPER_VGG["plain"] - PAPER_VGG["masks"]
    if abs(lost) <= noise(accuracy["plain"], accuracy["masks"], images):
        return f"Inconclusive: masks on VGG19 change accuracy by {-lost:+.1f} points, within the noise of the test."
    if lost < 0:
        return f"Does not agree: with masks VGG19 is {-lost:.1f} points better, in the paper {paper:.1f} worse."
    size = "about as many as in the paper" if lost <= 2 * paper else "far more than in the paper"
    return f"Agrees that masks on VGG19 cost accuracy: {lost:.1f} points, {size} ({paper:.1f})."


def on_dropout(accuracy: Mapping[str, float], images: int) -> str:
    """Return whether ordinary dropout brings back what masks cost, as in the paper."""
    gained, lost = accuracy["masks and dropout"] - accuracy["masks"], accuracy["plain"] - accuracy["masks"]
    if gained <= noise(accuracy["masks and dropout"], accuracy["masks"], images):
        return (
            "Does not agree: ordinary dropout in addition to the masks of VGG19 brings nothing back "
            f"({gained:+.1f} points)."
        )
    if gained >= lost / 2:
        return f"Agrees: ordinary dropout brings {gained:.1f} of the {max(lost, 0.0):.1f} lost points of VGG19 back."
    return (
        f"Agrees in part: ordinary dropout brings {gained:.1f} of the {lost:.1f} lost points of VGG19 back; in the "
        "paper most of them."
    )


def on_all_layers(accuracy: Mapping[str, float], images: int) -> str:
    """Return whether masks on all layers do worse than those on late layers, as the paper says without a number."""
    every, late = accuracy["masks on all layers"], accuracy["masks"]
    if abs(every - late) <= noise(every, late, images):
        return (
            f"Inconclusive: masks on all layers of VGG19 change accuracy by {every - late:+.1f} points beside masks "
            "on the late ones, within the noise of the test."
        )
    if every < late:
        return f"Agrees: masks on all layers of VGG19 do worse than on the late ones, by {late - every:.1f} points."
    return f"Does not agree: masks on all layers of VGG19 do {every - late:.1f} points better than on the late ones."


def on_statistics(accuracy: Mapping[str, float], anew: Mapping[str, float], images: int) -> str:
    """Return whether the full network suffers from BatchNorm statistics that were gathered under masks."""
    before, after = accuracy["masks"], anew["masks"]
    told = (
        "BatchNorm's running statistics are those of masked networks; recalibrated in the full network on trained "
        "images, without a training step, they change the accuracy of VGG19 with masks from "
        f"{before:.1f} to {after:.1f}"
    )
    if abs(after - before) <= noise(before, after, images):
        return f"{told}: within the noise of the test."
    beside = f"of the network without masks from {accuracy['plain']:.1f} to {anew['plain']:.1f}"
    if after < before:
        return (
            f"{told} ({beside}), so recalibrating brings nothing back. These images were taken as they are, not moved "
            "or mirrored as in training, and in batches of another size, which may be why both fall."
        )
    return f"{told} ({beside}): part of what masks seem to cost is due to them."


def on_leak(share: float, with_dropout: float) -> str:
    """Return whether the leak of the early layers is small, as the paper assumes, without ordinary dropout and with."""
    told = (
        f"{share:.1%} of a row's squared gradient is in the early layers of VGG19, which its flipped network uses, and "
        f"{with_dropout:.1%} with ordinary dropout in addition"
    )
    if max(share, with_dropout) < SMALL_LEAK:
        return f"Agrees: {told}."
    if min(share, with_dropout) < LARGE_LEAK:
        return f"Agrees in part: {told}; scores come out too small."
    return f"Does not agree: {told}."


def _early_leaks(result: Mapping[str, Any]) -> tuple[float, float]:
    """Return the mean share of the early layers for masks after the 11th, without ordinary dropout and with."""
    masks, dropout = (
        mean(one["leak"]["early_share"] for one in result["vgg"][name]["seeds"])
        for name in ("masks", "masks and dropout")
    )
    return masks, dropout


def on_memory(memory: Mapping[str, float], trained: float) -> str:
    """Return what trained images tell of how a masked network learns them."""
    told = (
        f"Trained images are predicted correctly in {memory['keep']:.0%} by their kept subnetwork, in "
        f"{memory['flip']:.0%} by their flipped subnetwork and in {trained:.0%} by the full network."
    )
    read, seen = memory["label_of_mask"], memory["label_of_image"]
    how = f"A test image of another class, shown under the mask of a trained one, gets that one's label in {read:.0%}"
    if read > seen:
        return f"{told} {how} and its own in {seen:.0%}: labels are read from the mask more than from the image."
    return f"{told} {how} and its own in {seen:.0%}."


def vgg_accuracy(result: Mapping[str, Any], kind: str = "accuracy") -> dict[str, float]:
    return {name: 100 * mean(one[kind] for one in found["seeds"]) for name, found in result["vgg"].items()}


_FIGURE = "side_effects.svg"
_MASKED = {"masks": "after the 11th layer", "masks and dropout": "after the 11th layer, and ordinary dropout",
           "masks on all layers": "on all layers"}  # fmt: skip


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    plot(result, folder / _FIGURE)
    parts = (_text(result), _vgg(result), _leaks(result), _rates(result))
    return paragraphs(
        [
            "# Side effects: what masks cost in accuracy, and what leaks",
            f"![Accuracy with and without masks, and the leak by layer]({_FIGURE})",
            *(line for part in parts for line in part),
        ]
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's numbers beside ours."""
    setting, accuracy = result["setting"], vgg_accuracy(result)
    text, vgg, tested = setting["text"], setting["vgg"], result["tested_images"] * len(setting["vgg"]["seeds"])
    found = []
    for size in result["text"]["sizes"]:
        lost, error = lost_points(_accuracies(size[WITHOUT]), _accuracies(size[WITH]))
        paper = PAPER_TEXT.get(size["rows"]) or PAPER_TEXT[5_000]
        rows = "" if size["rows"] in PAPER_TEXT else ", 5,000 rows"
        found.append(
            Finding(
                what=f"SST-2, {size['rows']:,} rows: accuracy without and with masks",
                paper=f"{paper[0]:.1f} → {paper[1]:.1f} (§4.1, BERT{rows})",
                ours=f"{_points(size[WITHOUT])} → {_points(size[WITH])}",
                setting=f"{encoder_words(text['encoder'], text['blocks'])}, {_epochs(text)}, "
                f"{seeds_words(text['seeds'][: len(size[WITH])])}",
                agreement=f"{size['rows']:,} rows: {on_text(lost, error)} {on_text_loss(size)}",
                claim=f"masks on adapters cost little accuracy (SST-2, {size['rows']:,} rows)",
                verdict=graded(error is not None and lost + 2 * error <= SLIGHT, in_part=lost <= SLIGHT),
                rule=f"a loss of {SLIGHT:g} points or less, two standard errors added; in part: without them (one seed "
                "has none)",
            )
        )
    how = (
        f"width {vgg['width']:g}, {vgg['images']:,} images, {vgg['epochs']} epochs, "
        f"{'mirrored images (not so in the paper), ' if vgg.get('mirror') else ''}"
        f"{'learning rate chosen on held-out images, ' if vgg['held_out'] else ''}{seeds_words(vgg['seeds'])}"
    )
    networks = {name: _points(one["seeds"]) for name, one in result["vgg"].items()}
    leaks, paper = _early_leaks(result), PAPER_VGG
    lost, gained = accuracy["plain"] - accuracy["masks"], accuracy["masks and dropout"] - accuracy["masks"]
    clear = gained > noise(accuracy["masks and dropout"], accuracy["masks"], tested)
    worse = accuracy["masks"] - accuracy["masks on all layers"]
    return [
        *found,
        Finding(
            "CIFAR-10, VGG19: accuracy without masks and with masks after the 11th layer",
            f"{paper['plain']:.1f} → {paper['masks']:.1f} (§4.1)",
            f"{networks['plain']} → {networks['masks']}",
            how,
            on_masks(accuracy, tested),
            "masks after the 11th layer cost VGG19 some accuracy",
            graded(0 < lost <= 2 * (paper["plain"] - paper["masks"]), in_part=lost > 0),
            "a loss of up to twice the paper's; in part: any loss",
        ),
        Finding(
            "CIFAR-10, VGG19 with masks: accuracy, and accuracy with recalibrated BatchNorm statistics",
            "–",
            f"{networks['masks']} → {_points(result['vgg']['masks']['seeds'], 'statistics_of_the_whole')}",
            how,
            on_statistics(accuracy, vgg_accuracy(result, "statistics_of_the_whole"), tested),
        ),
        Finding(
            "CIFAR-10, VGG19: masks, and masks with ordinary dropout",
            f"{paper['masks']:.1f} → {paper['masks and dropout']:.1f} (§4.1)",
            f"{networks['masks']} → {networks['masks and dropout']}",
            f"{how}, dropout {vgg['dropout']:g}",
            on_dropout(accuracy, tested),
            "ordinary dropout in addition to the masks recovers most of this loss",
            graded(clear and gained >= lost / 2, in_part=clear),
            "a significant gain of half of the loss or more; in part: a significant gain",
        ),
        Finding(
            "CIFAR-10, VGG19: masks on all layers",
            "no number: training unstable (§4.1)",
            networks["masks on all layers"],
            how,
            on_all_layers(accuracy, tested),
            "VGG19 trains badly with masks on all layers",
            graded(worse > noise(accuracy["masks"], accuracy["masks on all layers"], tested)),
            "significantly worse than masks on late layers",
        ),
        Finding(
            "CIFAR-10, VGG19 with masks after the 11th layer: leak through the early layers",
            "no number: assumed to be small (§4.1, footnote)",
            "{:.0%} of a row's squared gradient; {:.0%} with ordinary dropout".format(*leaks),
            f"{how}, by `turnover.audit`",
            on_leak(*leaks),
            "little of a row leaks through layers without masks",
            graded(max(leaks) < SMALL_LEAK, in_part=min(leaks) < LARGE_LEAK),
            f"below {SMALL_LEAK:.0%} in both networks; in part: below {LARGE_LEAK:.0%} in one",
        ),
    ]


def _text(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]["text"]
    yield "## Adapters on SST-2"
    yield (
        f"{encoder_words(setting['encoder'], setting['blocks'])} with adapters of {UNITS} units, "
        f"{_epochs(setting)}, accuracy and loss on {setting['dev_rows'] or DEV_ROWS} dev rows; "
        "mean ± sd over seeds, with other rows, masks and order each. Both networks of a seed start from the same "
        "weights and see the same rows."
    )
    rows = []
    for size in result["text"]["sizes"]:
        paper = PAPER_TEXT.get(size["rows"])
        beside = "–" if paper is None else f"{paper[0]:.1f} → {paper[1]:.1f}"
        seeds = str(len(size[WITH]))
        losses = [spread([one["loss"] for one in size[how]], ".2f") for how in (WITHOUT, WITH)]
        rows.append([f"{size['rows']:,}", seeds, _points(size[WITHOUT]), _points(size[WITH]), beside, *losses])
    head = ["rows", "seeds", "without", "with masks", "the paper, BERT", "loss without", "loss with masks"]
    yield markdown_table(head, rows)
    if not any(size["rows"] in PAPER_TEXT for size in result["text"]["sizes"]):
        every = "; ".join(f"{rows:,} rows {one:.1f} → {two:.1f}" for rows, (one, two) in PAPER_TEXT.items())
        yield f"The paper has other numbers of rows: {every}."
    for size in result["text"]["sizes"]:
        lost = lost_points(_accuracies(size[WITHOUT]), _accuracies(size[WITH]))
        yield f"{size['rows']:,} rows: {on_text(*lost)} {on_text_loss(size)}"


def _vgg(result: Mapping[str, Any]) -> Iterable[str]:
    setting, accuracy = result["setting"]["vgg"], vgg_accuracy(result)
    tested = result["tested_images"] * len(setting["seeds"])
    yield "## VGG19 on CIFAR-10"
    yield (
        f"Width {setting['width']:g} of the usual, {setting['images']:,} images, {setting['epochs']} epochs, "
        f"batches of {setting['batch']}{_augmented(setting)}; channel masks on the ReLU of the convolutions; ordinary "
        f"dropout of {setting['dropout']:g} at the same places. Accuracy of the full network on "
        f"{result['tested_images']:,} test images, {seeds_words(setting['seeds'])}."
    )
    rows = [
        [
            name,
            f"{one['best']:g}",
            *(_points(one["seeds"], measure) for measure in ("accuracy", "trained", "statistics_of_the_whole")),
            f"{PAPER_VGG[name]:.1f}" if name in PAPER_VGG else "unstable",
        ]
        for name, one in result["vgg"].items()
    ]
    head = ["network", "rate", "test images", "trained images", "test images, recalibrated BatchNorm", "the paper"]
    yield markdown_table(head, rows)
    order = sorted(PAPER_VGG, key=lambda name: -accuracy[name])
    same = order == sorted(PAPER_VGG, key=lambda name: -PAPER_VGG[name])
    near = [
        f"“{one}” and “{other}”"
        for one, other in pairwise(order)
        if accuracy[one] - accuracy[other] <= noise(accuracy[one], accuracy[other], tested)
    ]
    yield (
        f"From best to worst: {', '.join(order)}. The paper's order is {'the same' if same else 'another'}"
        + (f", but {' and '.join(near)} do not differ significantly here." if near else ".")
    )
    yield from (f"- {told}" for told in (on_masks(accuracy, tested), on_dropout(accuracy, tested)))
    yield f"- {on_all_layers(accuracy, tested)}"
    yield f"- {on_statistics(accuracy, vgg_accuracy(result, 'statistics_of_the_whole'), tested)}"


def _augmented(setting: Mapping[str, Any]) -> str:
    moved, mirrored = setting.get("shift"), setting.get("mirror")
    how = [f"moved by up to {moved} pixels"] * bool(moved) + ["mirrored at random"] * bool(mirrored)
    words = f", images {' and '.join(how)}" if how else ""
    return words + (", trained in bfloat16" if setting.get("bfloat16") else "")


def _leaks(result: Mapping[str, Any]) -> Iterable[str]:
    yield "## What leaks, and what is memorized"
    yield (
        "Shares of a trained row's squared gradient that `turnover.audit` finds on parameters which its flipped "
        "network uses, after training; running statistics of BatchNorm leak besides and have no gradient."
    )
    rows = []
    for name, title in _MASKED.items():
        leaks = [one["leak"] for one in result["vgg"][name]["seeds"]]
        shares = [f"{percents([one[key] for one in leaks])} %" for key in ("gradient_share", "early_share")]
        causes = ", ".join(f"{cause} {share:.1%}" for cause, share in leaks[0]["by_cause"].items() if share > 0)
        rows.append([title, *shares, causes or "none"])
    yield markdown_table(["masks", "all leaks", "early layers (1 to 11)", "by cause, first seed"], rows)
    yield on_leak(*_early_leaks(result))
    yield "By layer, in % of a row's squared gradient, mean over seeds:"
    by_layer = zip(*(_by_layer(result, name) for name in _MASKED), strict=True)
    layers = [[str(number), *(f"{100 * one:.1f}" for one in row)] for number, row in enumerate(by_layer, 1)]
    yield markdown_table(["convolution", *(f"masks {title}" for title in _MASKED.values())], layers)
    for name, title in _MASKED.items():
        one = result["vgg"][name]["seeds"][0]
        yield f"- Masks {title}, first seed. {on_memory(one['memory'], one['trained'])}"


def _by_layer(result: Mapping[str, Any], name: str) -> list[float]:
    seeds = [one["leak"]["by_layer"] for one in result["vgg"][name]["seeds"]]
    return [mean(shares) for shares in zip(*seeds, strict=True)]


def _rates(result: Mapping[str, Any]) -> Iterable[str]:
    tried = {f"adapters {name}": one for name, one in result["text"]["rates"].items()} | {
        f"VGG19 {name}": one for name, one in result["vgg"].items()
    }
    if all(len(one["held_out"]) < 2 for one in tried.values()):
        return
    yield "## Learning rates"
    yield "For each network by itself, by accuracy on held-out rows of the training data; no dev or test row decides."
    rows = []
    for name, one in tried.items():
        known = {rate: value for rate, value in one["held_out"].items() if value is not None}
        by_rate = ", ".join(f"{rate}: {100 * value:.1f}" for rate, value in known.items())
        rows.append([name, by_rate or "not tried", f"{one['best']:g}"])
    yield markdown_table(["network", "held-out accuracy by rate", "chosen"], rows)


def _accuracies(runs: Sequence[Mapping[str, float]]) -> list[float]:
    return [one["accuracy"] for one in runs]


def _points(runs: Sequence[Mapping[str, float]], name: str = "accuracy") -> str:
    return percents([one[name] for one in runs])


def _epochs(text: Mapping[str, Any]) -> str:
    if text["epochs"] == text["epochs_without"]:
        return f"{text['epochs']} epoch{'s' if text['epochs'] > 1 else ''}"
    return f"{text['epochs']} epochs with masks and {text['epochs_without']} without"
