"""Does ordinary dropout beside the masks bring accuracy back? By length of training, for two kinds of networks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import turnover
from turnover.layers import Dim
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.numbers import Rows
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import (
    Finding,
    agreements,
    graded,
    paragraphs,
    seeds_words,
    spread,
    standard_error,
)
from turnover_bench.experiments.mask_cost.experiment import (
    BATCH,
    KINDS,
    RATES,
    Kind,
    build,
    images_of,
    masked_sites,
    train,
)
from turnover_bench.experiments.networks import with_dropout
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.side_effects.experiment import Images, accuracy, memory
from turnover_bench.experiments.timing import one_thread


@dataclass(frozen=True)
class Network:
    """What the later half of the sites has.

    Attributes:
        masked: masks.
        dropout: share that ordinary dropout drops besides; 0: none.
    """

    masked: bool = False
    dropout: float = 0.0


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        networks: by name; "plain" and "masks" are among them.
        epochs: of the trainings, as multiples of `base_epochs`.
        kinds: of networks, as in mask_cost.
        width: of the last hidden layer.
        rows: training images of CIFAR-10.
        test: held-out images.
        pixels: of a side of these images.
        base_epochs: of the shortest training.
        seeds: of weights, masks, order and ordinary dropout.
    """

    networks: dict[str, Network]
    epochs: tuple[int, ...] = (1, 3, 6)
    kinds: tuple[Kind, ...] = ("vgg", "resnet")
    width: int = 64
    rows: int = 4_000
    test: int = 2_000
    pixels: int = 16
    base_epochs: int = 12
    seeds: tuple[int, ...] = (0, 1)


_NETWORKS = {
    "plain": Network(),
    "plain, dropout 0.3": Network(dropout=0.3),
    "masks": Network(masked=True),
    "masks, dropout 0.3": Network(masked=True, dropout=0.3),
    "masks, dropout 0.5": Network(masked=True, dropout=0.5),
}
SIZES = {
    "toy": Config(_NETWORKS, (1, 3), rows=48, test=24, pixels=8, base_epochs=1, seeds=(0,)),
    # Five minutes.
    "small": Config(_NETWORKS, (1, 3), rows=2_000, pixels=8),
    "medium": Config(_NETWORKS),
    # The paper trains for 300 epochs, on all images.
    "full": Config(_NETWORKS, (1, 5, 25), width=256, rows=10_000, seeds=(0, 1, 2)),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4, hours=1.3)}


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracies of every network after every training, and how far labels are read from masks."""
    data = images_of(config.rows, config.test, config.pixels)
    jobs = [
        (kind, name, epochs, seed)
        for epochs in config.epochs
        for kind in config.kinds
        for name in config.networks
        for seed in config.seeds
    ]
    found: dict[str, Any] = {kind: {name: {} for name in config.networks} for kind in config.kinds}
    with one_thread():
        for kind, name, epochs, seed in tqdm(jobs, desc="masks and dropout"):
            file = out / "parts" / f"{kind}-{name.replace(', ', '-').replace(' ', '-')}-{epochs}-{seed}.json"
            measured = kept(file, partial(_measured, config, kind, config.networks[name], epochs, seed, data))
            found[kind][name].setdefault(str(epochs), []).append(measured)
    return {"setting": asdict(config), "kinds": found}


def network(kind: Kind, width: int, inputs: int, dropout: float) -> tuple[nn.Module, dict[str, Dim]]:
    """Return a network with ordinary dropout at the later half of its sites, and these sites."""
    model, sites = build(kind, width, inputs)
    later = masked_sites(sites, "half")
    return with_dropout(model, later, dropout), later


def _measured(config: Config, kind: Kind, how: Network, epochs: int, seed: int, data: Rows) -> dict[str, float]:
    x, labels, held, held_labels = data
    images, others = Images(x, torch.from_numpy(labels)), Images(held, torch.from_numpy(held_labels))
    torch.manual_seed(seed)
    model, sites = network(kind, config.width, x.shape[1], how.dropout)
    if how.masked:
        model = turnover.wrap(model, at=sites, seed=seed)
    train(model, images.x, images.y, masked=how.masked, epochs=epochs * config.base_epochs, rate=RATES[kind])
    found = {"before": accuracy(model, others), **(memory(model, images, others=others) if how.masked else {})}
    turnover.recalibrate(model, DataLoader(TensorDataset(images.x, images.y), BATCH, drop_last=len(x) > BATCH))
    return {**found, "accuracy": accuracy(model, others), "trained": accuracy(model, images)}


_FIGURE = "mask_dropout.svg"
_COLORS = {"plain": "#8c8c8c", "masks": "#c8102e"}
_STYLES = {"0": "-", "0.3": "--", "0.5": ":"}
_RATE = 0.3
"""Of dropout, as in side_effects: by which the findings are judged, so that no rate is chosen by its result."""
_MOST = 0.5
"""Of what masks cost: dropout that brings back more has brought back most of it."""


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    how = result["setting"]
    lines = [
        "# Ordinary dropout in addition to the masks",
        "In the paper ordinary dropout, in addition to masks after the 11th layer, gives VGG19 back most of the "
        "accuracy that the masks cost (86.2 → 91.3, without masks 92.0), after 300 epochs. Here small networks are "
        f"trained for {_epochs_words(how)} epochs on {how['rows']:,} images of CIFAR-10 of {how['pixels']} × "
        f"{how['pixels']} pixels, which are neither moved nor mirrored; masks and dropout are on the later half of the "
        f"sites, and the last layer has a width of {how['width']}. Trainings of a seed begin with the same weights. "
        "*Accuracy* is that of the full network on held-out rows, after `turnover.recalibrate`. *Label of the mask*: "
        "share of held-out images, shown under the mask of a trained image of another class, that get its label "
        f"instead of their own. {seeds_words(how['seeds']).capitalize()}.",
        f"![Accuracy by length of training, and labels read from masks]({_FIGURE})",
        *agreements(findings(result)),
    ]
    head = ["network", "epochs", "accuracy", "trained rows", "kept subnetworks", "flipped", "label of the mask"]
    for kind, networks in result["kinds"].items():
        rows = [
            [name, str(int(times) * how["base_epochs"]), *(_cell(seeds, what) for what in _SHOWN)]
            for name, by_epochs in networks.items()
            for times, seeds in by_epochs.items()
        ]
        lines += [f"## {KINDS[kind]}", markdown_table(head, rows)]
    return paragraphs(lines)


_SHOWN = ("accuracy", "trained", "keep", "flip", "label_of_mask")


def _cell(seeds: Sequence[dict[str, float]], what: str) -> str:
    return spread([100 * one[what] for one in seeds], ".1f") if what in seeds[0] else "–"


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what masks cost, and how much of it dropout brings back, by kind of network."""
    how, kinds = result["setting"], result["kinds"]
    longest = str(max(how["epochs"]))
    shares = {kind: _brought_back(networks, longest) for kind, networks in kinds.items()}
    known = [share for share in shares.values() if share is not None]
    most = [
        share is not None and share > _MOST and _clear(_gains(kinds[kind], longest)) for kind, share in shares.items()
    ]
    made = [_by_epochs(kind, networks, how) for kind, networks in kinds.items()]
    told = ", ".join(f"{kind} {'–' if share is None else f'{share:.0%}'}" for kind, share in shares.items())
    epochs = int(longest) * how["base_epochs"]
    made.append(
        Finding(
            f"share of what masks cost that ordinary dropout brings back after {epochs} epochs",
            "88% (86.2 → 91.3, without masks 92.0; §4.1, VGG19)",
            told,
            _about(how),
            f"After {epochs} epochs dropout of {_RATE:g} brings back of what masks cost: {told}."
            + (
                " Where masks cost less than a point, or no more than two standard errors, nothing can be brought back."
                if None in shares.values()
                else ""
            )
            + (
                " No gain is beyond two standard errors."
                if not any(_clear(_gains(networks, longest)) for networks in kinds.values())
                else ""
            ),
            "ordinary dropout in addition to the masks brings most of their cost back (small networks, long trainings)",
            graded(all(most), in_part=any(most)) if known else "not comparable here",
            f"a significant gain of more than {_MOST:.0%} of a significant cost for both networks; in part: for one; "
            "not comparable: masks cost less than a point, or not significantly",
        )
    )
    return made


def _about(how: dict[str, Any]) -> str:
    return f"{how['rows']:,} images of {how['pixels']} × {how['pixels']} pixels, {seeds_words(how['seeds'])}"


def _by_epochs(kind: str, networks: dict[str, Any], how: dict[str, Any]) -> Finding:
    """Return the cost of masks and the gain by dropout after each training, beside the gain without masks."""
    times = list(networks["masks"])
    costs = [_accuracy(networks["plain"][one]) - _accuracy(networks["masks"][one]) for one in times]
    gains, plain = (
        [_accuracy(networks[f"{name}, dropout {_RATE:g}"][one]) - _accuracy(networks[name][one]) for one in times]
        for name in ("masks", "plain")
    )
    read = [mean(one["label_of_mask"] for one in networks["masks"][time]) for time in times]
    epochs = _epochs_words(how)
    series = {
        name: ", ".join(f"{value:+.1f}" for value in values)
        for name, values in (("cost", costs), ("gain", gains), ("plain", plain))
    }
    labels = ", ".join(f"{share:.0%}" for share in read)
    flipped = [
        mean(one["flip"] for one in networks[name][times[-1]]) for name in ("masks", f"masks, dropout {_RATE:g}")
    ]
    return Finding(
        f"{kind}: points that masks cost, that dropout brings back, and that it brings without masks, after {epochs} "
        "epochs",
        "5.8, 5.1 after 300 epochs (§4.1, VGG19)",
        f"{series['cost']}; {series['gain']}; {series['plain']}",
        _about(how),
        f"{kind}: after {epochs} epochs masks cost {series['cost']} points; dropout of {_RATE:g} brings "
        f"{series['gain']} (without masks {series['plain']}); in {labels} of the cases a test image is "
        "given the label of the trained image whose mask it is shown under. "
        "After the longest training flipped subnetworks predict {:.0%} of their own rows, with dropout {:.0%}.".format(
            *flipped
        ),
    )


def _accuracy(seeds: Sequence[dict[str, float]]) -> float:
    return 100 * mean(one["accuracy"] for one in seeds)


def _brought_back(networks: dict[str, Any], times: str) -> float | None:
    costs = _points_more(networks, times, "plain")
    return mean(_gains(networks, times)) / mean(costs) if mean(costs) >= 1 and _clear(costs) else None


def _gains(networks: dict[str, Any], times: str) -> list[float]:
    return _points_more(networks, times, f"masks, dropout {_RATE:g}")


def _points_more(networks: dict[str, Any], times: str, name: str) -> list[float]:
    pairs = zip(networks[name][times], networks["masks"][times], strict=True)
    return [100 * (one["accuracy"] - other["accuracy"]) for one, other in pairs]


def _clear(points: Sequence[float]) -> bool:
    error = standard_error(points)
    return error is not None and abs(mean(points)) > 2 * error


def _epochs_words(how: dict[str, Any]) -> str:
    *first, last = (str(times * how["base_epochs"]) for times in how["epochs"])
    return f"{', '.join(first)} and {last}"


def _plot(result: dict[str, Any], file: Path) -> None:
    kinds, base = result["kinds"], result["setting"]["base_epochs"]
    with drawn(file, (9.6, 3.6), font=9) as figure:
        panels = figure.subplots(1, len(kinds) + 1)
        for panel, (kind, networks) in zip(panels, kinds.items(), strict=False):
            for name, by_epochs in networks.items():
                color, style = _look(name)
                epochs = [int(times) * base for times in by_epochs]
                values = [_accuracy(seeds) for seeds in by_epochs.values()]
                panel.plot(epochs, values, style, marker="o", markersize=3, color=color, label=name)
            panel.set(title=kind, xlabel="epochs", ylabel="accuracy of the full network, %")
        panels[0].legend(frameon=False, fontsize=7, handlelength=3)
        for marker, (kind, networks) in zip("os^", kinds.items(), strict=False):
            for name, by_epochs in networks.items():
                if name.startswith("masks"):
                    color, style = _look(name)
                    shares = [100 * mean(one["label_of_mask"] for one in seeds) for seeds in by_epochs.values()]
                    epochs = [int(times) * base for times in by_epochs]
                    panels[-1].plot(epochs, shares, style, marker=marker, markersize=3.5, color=color)
            panels[-1].plot([], [], marker=marker, color=_COLORS["masks"], linestyle="", label=kind)
        panels[-1].legend(frameon=False, fontsize=7)
        panels[-1].set(title="labels read from masks", xlabel="epochs", ylabel="label of the mask, %")
        for panel in panels:
            panel.set_xscale("log")
            ticks = [times * base for times in result["setting"]["epochs"]]
            panel.set_xticks(ticks, [str(one) for one in ticks])
            panel.minorticks_off()
            tidy(panel)


def _look(name: str) -> tuple[str, str]:
    base, _, dropout = name.partition(", dropout ")
    return _COLORS[base], _STYLES[dropout or "0"]
