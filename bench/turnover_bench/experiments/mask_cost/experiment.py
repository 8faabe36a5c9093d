"""Trainings with masks and without, from the same weights, and how their cost falls with the width."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import turnover
from turnover.layers import Dim
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.checkpoints import resumable
from turnover_bench.experiments.datasets.numbers import Rows, cifar10_rows, digit_rows
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, paragraphs, seeds_words, spread
from turnover_bench.experiments.networks import ResidualNetwork, mlp
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import growth, one_thread

Kind = Literal["mlp", "vgg", "resnet"]
Place = Literal["last", "half", "all"]


@dataclass(frozen=True)
class Setting:
    """One network and its training.

    Attributes:
        width: units of the last hidden layer; earlier ones of images have half and a quarter of it.
        place: which sites are masked: the last, the later half or all.
        keep: share of units that a row trains.
        rows: share of the training rows.
        epochs: as a multiple of those of the task; there are as many steps with fewer rows.
    """

    width: int = 64
    place: Place = "last"
    keep: float = 0.5
    rows: float = 1.0
    epochs: float = 1.0


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        widths: that are tried, by kind of network; other kinds are not trained.
        rows: training rows: digits, and images of CIFAR-10.
        test: held-out images of CIFAR-10.
        pixels: of a side of these images: 8 or 16.
        epochs: of a training on digits, and on images.
        seeds: of weights, masks and order.
    """

    widths: dict[Kind, tuple[int, ...]]
    rows: tuple[int, int] = (1_300, 2_000)
    test: int = 2_000
    pixels: int = 8
    epochs: tuple[int, int] = (20, 12)
    seeds: tuple[int, ...] = (0, 1)


SIZES = {
    "toy": Config({"mlp": (8, 16, 64), "vgg": (16, 64), "resnet": (16, 64)}, (60, 48), 24, 8, (1, 1), (0,)),
    # Seconds; networks for images take half an hour.
    "small": Config({"mlp": (16, 32, 64, 128, 256, 512)}),
    "medium": Config(
        {"mlp": (16, 32, 64, 128, 256, 512), "vgg": (16, 32, 64, 128), "resnet": (16, 32, 64, 128)},
        rows=(1_300, 4_000),
        pixels=16,
    ),
    # The paper has no such measurement, so no setting either.
    "full": Config(
        {"mlp": (16, 64, 256, 1024), "vgg": (64, 128, 256, 512), "resnet": (64, 128, 256, 512)},
        rows=(1_300, 10_000),
        pixels=16,
        epochs=(20, 30),
        seeds=(0, 1, 2),
    ),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4, hours=0.5)}

KINDS: dict[Kind, str] = {
    "mlp": "MLP, two hidden layers, digits",
    "vgg": "VGG-like, four convolutions with BatchNorm, CIFAR-10",
    "resnet": "ResNet-like, three blocks with BatchNorm, CIFAR-10",
}
BASE = Setting()
VARIED = (
    replace(BASE, place="half"),
    replace(BASE, place="all", keep=0.7),
    replace(BASE, place="all", keep=0.9),
    replace(BASE, place="all", rows=0.25),
    replace(BASE, place="all", epochs=3.0),
)
BATCH = 64
RATES = {"mlp": 0.1, "vgg": 0.05, "resnet": 0.05}
LITTLE = 2.0
"""Points of accuracy."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return the accuracy with and without masks of every setting, and after BatchNorm is recalibrated."""
    images = images_of(config.rows[1], config.test, config.pixels) if len(config.widths) > 1 else None
    data: dict[Kind, Any] = {"mlp": digit_rows(config.rows[0]), "vgg": images, "resnet": images}
    jobs: list[tuple[Kind, Setting]] = [(kind, one) for kind in config.widths for one in settings(config, kind)]
    with one_thread():
        # The width at which all else is varied first, and both networks for images side by side.
        for kind, setting in tqdm(sorted(jobs, key=_order), desc="mask cost"):
            _point(config, kind, setting, data[kind], out / "parts")
        found = {
            kind: [_point(config, kind, setting, data[kind], out / "parts") for setting in settings(config, kind)]
            for kind in config.widths
        }
    return {"setting": asdict(config), "kinds": found, "law": _law(found)}


def _order(job: tuple[Kind, Setting]) -> tuple[Any, ...]:
    _, setting = job
    return abs(math.log2(setting.width / BASE.width)) == 1, setting.width != BASE.width, setting.place == "half"


def _point(config: Config, kind: Kind, setting: Setting, data: Rows, parts: Path) -> dict[str, Any]:
    """Return the accuracies of one setting, by seed; each training is a part of its own."""
    each = []
    for seed in config.seeds:
        options = (config, kind, setting, data, seed)
        trained = f"{setting.rows:g}-{setting.epochs:g}-{seed}.json"
        plain = f"{kind}-plain-{setting.width}-{trained}"
        with_masks = f"{kind}-masks-{setting.width}-{setting.place}-{setting.keep:g}-{trained}"
        without = kept(parts / plain, partial(_accuracy, *options, masked=False))
        masked = kept(parts / with_masks, partial(_accuracy, *options, masked=True))
        each.append({"plain": without["accuracy"], **masked})
    return {"setting": asdict(setting), "seeds": each}


def settings(config: Config, kind: Kind) -> list[Setting]:
    """Return all settings of a kind of network: every width, for one site and for all, and what else is varied."""
    widths = [replace(BASE, width=width, place=place) for place in ("last", "all") for width in config.widths[kind]]
    return list(dict.fromkeys([*widths, *VARIED]))


def images_of(rows: int, test: int, pixels: int) -> Rows:
    """Return images of CIFAR-10 with so many pixels on a side."""
    x, labels, held, held_labels = cifar10_rows(rows, held_out=test)
    if pixels < x.shape[-1]:
        x, held = (functional.avg_pool2d(images, x.shape[-1] // pixels) for images in (x, held))
    return x, labels, held, held_labels


def build(kind: Kind, width: int, inputs: int) -> tuple[nn.Module, list[tuple[str, Dim]]]:
    """Return a network and its sites from the first to the last."""
    if kind == "mlp":
        return mlp(inputs, (width, width), 10), [("1", "features"), ("3", "features")]
    quarter, half = max(1, width // 4), max(1, width // 2)
    if kind == "vgg":
        parts: list[nn.Module] = []
        before = 3
        for place, wide in enumerate((quarter, half, width, width)):
            parts += [nn.Conv2d(before, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()]
            parts += [nn.MaxPool2d(2)] if place < 2 else []
            before = wide
        parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10, bias=False)]
        network = nn.Sequential(*parts)
        return network, [(str(place), "channels") for place, part in enumerate(parts) if isinstance(part, nn.ReLU)]
    network = ResidualNetwork(channels=(quarter, half, width), blocks=1)
    blocks: list[tuple[str, Dim]] = [(f"stages.{stage}.0.relu1", "channels") for stage in range(3)]
    return network, [*blocks, ("classifier_input", "features")]


def masked_sites(sites: Sequence[tuple[str, Dim]], place: Place) -> dict[str, Dim]:
    return dict(sites[{"last": len(sites) - 1, "half": len(sites) // 2, "all": 0}[place] :])


def _accuracy(config: Config, kind: Kind, setting: Setting, data: Rows, seed: int, *, masked: bool) -> dict[str, Any]:
    x, labels, held, held_labels = data
    count = max(BATCH, round(setting.rows * len(x))) if len(x) > BATCH else len(x)
    x, y = x[:count], torch.from_numpy(labels)[:count]
    torch.manual_seed(seed)
    model, sites = build(kind, setting.width, x.shape[1])
    if masked:
        model = turnover.wrap(model, at=masked_sites(sites, setting.place), keep=setting.keep, seed=seed)
    epochs = config.epochs[kind != "mlp"] * setting.epochs / setting.rows
    train(model, x, y, masked=masked, epochs=max(1, round(epochs)), rate=RATES[kind])
    test, test_labels = held, torch.from_numpy(held_labels)
    found: dict[str, Any] = {"accuracy": share_right(model, test, test_labels)}
    if masked and kind != "mlp":
        ids = torch.arange(min(count, len(test)))
        before = {view: share_right(model, x[ids], y[ids], ids, view) for view in ("keep", "flip")}
        turnover.recalibrate(model, DataLoader(TensorDataset(x, y), BATCH, drop_last=count > BATCH))
        after = {f"{view}_recalibrated": share_right(model, x[ids], y[ids], ids, view) for view in ("keep", "flip")}
        found |= {"recalibrated": share_right(model, test, test_labels), **before, **after}
    return found


def train(model: nn.Module, x: Tensor, y: Tensor, *, masked: bool, epochs: int, rate: float) -> None:
    """Train a model in place, with its masks or without."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    size = min(BATCH, len(x))
    total = epochs * (len(x) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=max(2, total))

    def draw(order: torch.Generator) -> Sequence[Tensor]:
        return torch.randperm(len(x), generator=order)[: len(x) // size * size].split(size)

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    model.train()
    for step in resumable(parts, epochs=epochs, draw=draw, order=torch.default_generator):
        with turnover.instances(step.batch) if masked else nullcontext() as active:
            outputs = model(x[step.batch])
            targets = y[step.batch] if active is None else active.repeat(y[step.batch])
            functional.cross_entropy(outputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()


@torch.no_grad()
def share_right(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor | None = None, view: Any = "full") -> float:
    """Return the accuracy on rows, over all replicas where a view of their masks is asked for."""
    right = total = 0
    for places in torch.arange(len(x)).split(500):
        with nullcontext() if ids is None else turnover.instances(ids[places], view=view) as active:
            outputs = model(x[places])
            targets = y[places] if active is None else active.repeat(y[places])
            right += int((outputs.argmax(1) == targets).sum())
            total += len(targets)
    return right / total


def cost(point: dict[str, Any], *, recalibrated: bool = True) -> float:
    """Return the points of accuracy that masks cost, in the mean over seeds."""
    best = [one.get("recalibrated", one["accuracy"]) if recalibrated else one["accuracy"] for one in point["seeds"]]
    return 100 * (mean(one["plain"] for one in point["seeds"]) - mean(best))


def _law(found: dict[str, Any]) -> dict[str, Any]:
    """Return how the cost of masks falls with the width of the masked layer, by kind and place: a power law."""
    laws: dict[str, Any] = {}
    for kind, points in found.items():
        for place in ("last", "all"):
            some = [(p["setting"]["width"], cost(p)) for p in points if _only_width(p["setting"], place)]
            known = [(width, points) for width, points in some if points > 0]
            laws[f"{kind}, {place}"] = {"points": some, "exponent": None, "enough": _enough(some)}
            if len(known) > 2:
                fit = growth([width for width, _ in known], [points for _, points in known])
                laws[f"{kind}, {place}"]["exponent"] = fit.exponent
    return laws


def _only_width(setting: dict[str, Any], place: str) -> bool:
    return asdict(replace(BASE, width=setting["width"], place=place)) == setting  # pyright: ignore


def _enough(points: Sequence[tuple[int, float]]) -> int | None:
    """Return the smallest width from which on masks cost less than two points at every width tried; None: none."""
    enough = None
    for width, lost in sorted(points, reverse=True):
        if lost >= LITTLE:
            break
        enough = width
    return enough


_FIGURE = "mask_cost.svg"
_COLORS: dict[Kind, str] = {"mlp": "#8c8c8c", "vgg": "#1f4e9c", "resnet": "#c8102e"}
_PLACES = {"last": "last site", "half": "later half of the sites", "all": "all sites"}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    how = result["setting"]
    lines = [
        "# When masks cost little accuracy",
        "Networks are trained with masks and without, from the same weights and for as many steps: "
        f"{_trained_on(result)}. *Cost* is the accuracy without masks minus that of the full network with masks, in "
        "points, on held-out rows; where there is BatchNorm, after `turnover.recalibrate`. *Width* is that of the last "
        "hidden layer; earlier ones of images have a half and a quarter of it. "
        f"{seeds_words(how['seeds']).capitalize()}.",
        f"![Cost of masks by width, and what changes it]({_FIGURE})",
        *agreements(findings(result)),
    ]
    for kind, title in KINDS.items():
        if kind not in result["kinds"]:
            continue
        rows = [_row(point) for point in result["kinds"][kind]]
        head = ["width", "masks on", "keep", "rows", "epochs", "without masks", "with masks", "recalibrated", "cost"]
        lines += [f"## {title}", markdown_table(head, rows)]
    if _has_images(result):
        lines += ["## Kept and flipped subnetworks after `turnover.recalibrate`", _views(result)]
    return paragraphs(lines)


def _trained_on(result: dict[str, Any]) -> str:
    how = result["setting"]
    told = f"an MLP on {how['rows'][0]:,} digits ({how['epochs'][0]} epochs)"
    if not _has_images(result):
        return f"{told}; `SIZE=medium` has networks for images, too"
    return (
        f"{told}, a VGG-like and a ResNet-like network on {how['rows'][1]:,} images of CIFAR-10 of {how['pixels']} × "
        f"{how['pixels']} pixels ({how['epochs'][1]} epochs)"
    )


def _has_images(result: dict[str, Any]) -> bool:
    return len(result["kinds"]) > 1


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return from which width on masks cost less than two points, and what else makes them cheap."""
    how = result["setting"]
    images = f", {how['rows'][1]:,} images of {how['pixels']} × {how['pixels']} pixels" if _has_images(result) else ""
    about = f"{how['rows'][0]:,} digits{images}"
    return [
        Finding(
            f"width from which on masks on {_PLACES[place]} cost less than {LITTLE:g} points",
            "–",
            ", ".join(f"{kind} {_width(result['law'][f'{kind}, {place}']['enough'])}" for kind in result["kinds"]),
            f"{about}, {seeds_words(how['seeds'])}",
            _sentence(result, place),
        )
        for place in ("last", "all")
    ]


def _width(enough: int | None) -> str:
    return "none tried" if enough is None else str(enough)


def _sentence(result: dict[str, Any], place: str) -> str:
    told = []
    for kind in result["kinds"]:
        points = result["law"][f"{kind}, {place}"]["points"]
        lowest = min(points, key=lambda point: point[1])
        between = (
            f"{lowest[1]:.1f} at {lowest[0]} (the least) and " if lowest not in (points[0], points[-1]) else "and "
        )
        told.append(
            f"{kind} {points[0][1]:.1f} points at {points[0][0]}, {between}{points[-1][1]:.1f} at {points[-1][0]}"
        )
    return f"Masks on {_PLACES[place]} cost, by width: {'; '.join(told)}."


def _row(point: dict[str, Any]) -> list[str]:
    setting, seeds = point["setting"], point["seeds"]
    again = spread([100 * one["recalibrated"] for one in seeds], ".1f") if "recalibrated" in seeds[0] else "–"
    accuracies = [spread([100 * one[name] for one in seeds], ".1f") for name in ("plain", "accuracy")]
    return [
        str(setting["width"]),
        _PLACES[setting["place"]],
        f"{setting['keep']:g}",
        f"{setting['rows']:.0%}",
        f"× {setting['epochs']:g}",
        *accuracies,
        again,
        f"{cost(point):+.1f}",
    ]


def _views(result: dict[str, Any]) -> str:
    """Return what full-view statistics do to the views that scores are made of, over all settings."""
    some = [one for kind in ("vgg", "resnet") for point in result["kinds"][kind] for one in point["seeds"]]
    change = {view: 100 * mean(one[f"{view}_recalibrated"] - one[view] for one in some) for view in ("keep", "flip")}
    full = 100 * mean(one["recalibrated"] - one["accuracy"] for one in some)
    return (
        f"Over all {len(some)} networks with BatchNorm, statistics of the full view change the accuracy of the full "
        f"network on held-out rows by {full:+.1f} points, and on trained rows that of kept subnetworks by "
        f"{change['keep']:+.1f} and of flipped ones by {change['flip']:+.1f}."
    )


def _plot(result: dict[str, Any], file: Path) -> None:
    with drawn(file, (9.6, 4.2), font=9) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for kind in result["kinds"]:
            for place, style in (("last", "-"), ("all", "--")):
                points = result["law"][f"{kind}, {place}"]["points"]
                label = f"{kind}, {_PLACES[place]}"
                left.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=_COLORS[kind], label=label)
        left.axhline(LITTLE, color="#2e8b57", linestyle=":", linewidth=1.2, label=f"{LITTLE:g} points")
        left.set_xscale("log", base=2)
        left.set(xlabel="width of the last hidden layer", ylabel="cost of masks, points of accuracy")
        left.legend(frameon=False, fontsize=7, handlelength=3)
        base = {kind: _at_base(result, kind) for kind in result["kinds"]}
        names = list(base["mlp"])
        for shift, kind in enumerate(result["kinds"]):
            places = [place + (shift - 1) * 0.27 for place in range(len(names))]
            right.barh(places, [base[kind][name] for name in names], height=0.25, color=_COLORS[kind], label=kind)
        right.axvline(LITTLE, color="#2e8b57", linestyle=":", linewidth=1.2)
        right.set_yticks(range(len(names)), names)
        right.invert_yaxis()
        right.set(xlabel=f"cost at width {BASE.width}, points")
        for panel in (left, right):
            tidy(panel)


def _at_base(result: dict[str, Any], kind: str) -> dict[str, float]:
    """Return the cost of every setting of the base width, by what it varies."""
    found = {}
    for point in result["kinds"][kind]:
        setting = point["setting"]
        if setting["width"] == BASE.width:
            words = [
                *([f"keep {setting['keep']:g}"] if setting["keep"] != BASE.keep else []),
                *([f"{setting['rows']:.0%} of the rows"] if setting["rows"] != BASE.rows else []),
                *([f"{setting['epochs']:g} times the epochs"] if setting["epochs"] != BASE.epochs else []),
            ]
            found[", ".join([_PLACES[setting["place"]], *words])] = cost(point)
    return found
