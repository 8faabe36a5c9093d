"""The figure: accuracy on SST-2 and of VGG19, where in VGG19 an image leaks, and what its masks memorize."""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.networks import FIRST_MASKED

from .config import PAPER_TEXT, PAPER_VGG
from .run import WITH, WITHOUT

_PLAIN, _MASKED, _DROPPED, _ALL = "#8c8c8c", "#1f4e9c", "#2e8b57", "#c8102e"
_TITLES = {
    "plain": ("no masks", _PLAIN),
    "masks": ("masks after\nlayer 11", _MASKED),
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
        for panel, draw in zip(figure.subplots(2, 2).flat, (_text, _vgg, _leak, _memory), strict=True):
            draw(panel, result)
            tidy(panel, grid="y")


def _text(panel: Any, result: Mapping[str, Any]) -> None:
    """Draw a dot a seed, joined from without to with masks, and the paper's numbers."""
    groups = [f"{size['rows']:,}\nrows" for size in result["text"]["sizes"]]
    for place, size in enumerate(result["text"]["sizes"]):
        sides = (place - 0.15, place + 0.15)
        for pair in zip(size[WITHOUT], size[WITH], strict=True):
            values = [100 * one["accuracy"] for one in pair]
            panel.plot(sides, values, color="#bbbbbb", linewidth=0.9, zorder=1)
            panel.scatter(sides, values, c=[_PLAIN, _MASKED], s=22, zorder=2)
    ours = len(groups)
    for place, (rows, values) in enumerate(PAPER_TEXT.items(), start=ours):
        sides = (place - 0.15, place + 0.15)
        panel.plot(sides, values, color="#bbbbbb", linewidth=0.9, linestyle=":", zorder=1)
        panel.scatter(sides, values, facecolors="none", edgecolors=[_PLAIN, _MASKED], s=26, zorder=2)
        groups.append(f"paper,\n{rows:,}")
    panel.scatter([], [], color=_PLAIN, s=22, label="without masks")
    panel.scatter([], [], color=_MASKED, s=22, label="with masks")
    panel.set_xticks(range(len(groups)), groups)
    panel.set(title="SST-2, adapters", ylabel="accuracy, %", xlim=(-0.5, len(groups) - 0.5))
    panel.legend(frameon=False, fontsize=8, loc="best")


def _vgg(panel: Any, result: Mapping[str, Any]) -> None:
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
