"""Why do masks on one late site cost much with many classes? One thing varied at a time, on rendered letters."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import turnover
from turnover.layers import Dim
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.images import FONTS, change_labels, load_letters
from turnover_bench.experiments.datasets.numbers import Rows, digit_rows, standardized
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, paragraphs, seeds_words, spread
from turnover_bench.experiments.mask_cost.experiment import (
    BATCH,
    KINDS,
    LITTLE,
    RATES,
    build,
    cost,
    images_of,
    share_right,
    train,
)
from turnover_bench.experiments.mask_cost.experiment import Kind as Other
from turnover_bench.experiments.networks import ResidualNetwork
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import one_thread

Kind = Literal["letters", "mlp", "vgg", "resnet"]
Place = Literal["last", "before", "all"]


@dataclass(frozen=True)
class Setting:
    """One network and its training.

    Attributes:
        width: units of the last hidden layer; earlier ones of letters have 32 and 16 channels at any width.
        place: which sites are masked: the input of the output layer, the site before it, or all.
        keep: share of units that a row trains.
        rows: share of the training rows.
        epochs: as a multiple of those of the task; there are as many steps with fewer rows.
        classes: how many; fewer than 26 letters are drawn by seed.
        wrong: share of the labels of training rows that are wrong.
        replicas: masked parts.
    """

    width: int = 64
    place: Place = "last"
    keep: float = 0.5
    rows: float = 1.0
    epochs: float = 1.0
    classes: int = 26
    wrong: float = 0.05
    replicas: int = 1


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        settings: that are tried on letters.
        rows: training images of letters.
        test: held-out images of letters.
        epochs: of a training on letters.
        seeds: of letters, weights, masks and order.
        others: networks of `mask_cost`, with ten classes, that are trained beside it.
        other_rows: training rows of these: digits, and images of CIFAR-10.
        other_test: held-out images of CIFAR-10.
        pixels: of a side of these images.
        other_epochs: of a training on digits, and on CIFAR-10.
    """

    settings: tuple[Setting, ...]
    rows: int = 3_328
    test: int = 2_600
    epochs: int = 4
    seeds: tuple[int, ...] = (0, 1)
    others: tuple[Other, ...] = ("mlp", "vgg", "resnet")
    other_rows: tuple[int, int] = (1_300, 4_000)
    other_test: int = 2_000
    pixels: int = 16
    other_epochs: tuple[int, int] = (20, 12)


_BASE = Setting()
_TEN = replace(_BASE, classes=10, wrong=0.0)
_CLASSES = (5, 10)
_LONG = 3.0


def _per_class(classes: int, epochs: float = 1.0) -> Setting:
    return replace(_BASE, classes=classes, rows=classes / _BASE.classes, epochs=epochs)


LETTERS = (
    *(replace(_BASE, width=width) for width in (16, 64, 256)),
    *(replace(_BASE, classes=classes) for classes in _CLASSES),
    *(_per_class(classes) for classes in _CLASSES),
    # As many visits of each class, so fewer steps.
    *(_per_class(classes, epochs=classes / _BASE.classes) for classes in _CLASSES),
    replace(_BASE, rows=0.25),
    replace(_BASE, wrong=0.0),
    replace(_BASE, keep=0.7),
    replace(_BASE, replicas=4),
    replace(_BASE, place="before"),
    replace(_BASE, place="all"),
    replace(_BASE, epochs=_LONG),
    replace(_BASE, epochs=_LONG, width=16),
    replace(_BASE, epochs=_LONG, place="before"),
    replace(_BASE, epochs=_LONG, place="all"),
)
OTHERS = (_TEN, replace(_TEN, epochs=1 / 3), replace(_TEN, place="before"))
SIZES = {
    "toy": Config(LETTERS, 52, 26, 1, (0,), other_rows=(60, 48), other_test=24, pixels=8, other_epochs=(1, 1)),
    # Two minutes; all settings take half an hour.
    "small": Config((_BASE, _per_class(5), replace(_BASE, epochs=_LONG)), seeds=(0,), others=("mlp",)),
    "medium": Config(LETTERS),
    # The paper has no such measurement, so no setting either.
    "full": Config(LETTERS, seeds=(0, 1, 2, 3, 4)),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4, hours=0.5)}
_TITLES: dict[Kind, str] = {"letters": "ResNet-like, three blocks with BatchNorm, letters", **KINDS}


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return the accuracy with and without masks of every setting, and after BatchNorm is recalibrated."""
    images = images_of(config.other_rows[1], config.other_test, config.pixels) if "vgg" in config.others else None
    data: dict[Kind, Any] = {"mlp": digit_rows(config.other_rows[0]), "vgg": images, "resnet": images}
    kinds: tuple[Kind, ...] = ("letters", *config.others)
    tried = {"letters": config.settings}
    jobs: list[tuple[Kind, Setting]] = [(kind, one) for kind in kinds for one in tried.get(kind, OTHERS)]
    found: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    with one_thread():
        for kind, setting in tqdm(jobs, desc="mask cost by classes"):
            found[kind].append(_point(config, kind, setting, data.get(kind), out / "parts"))
    return {"setting": asdict(config), "kinds": found}


def _point(config: Config, kind: Kind, setting: Setting, data: Rows | None, parts: Path) -> dict[str, Any]:
    """Return the accuracies of one setting, by seed; each training is a part of its own."""
    each = []
    for seed in config.seeds:
        options = (config, kind, setting, data, seed)
        trained = f"{setting.classes}-{setting.wrong:g}-{setting.rows:g}-{setting.epochs:g}-{seed}.json"
        plain = f"{kind}-plain-{setting.width}-{trained}"
        with_masks = f"{kind}-masks-{setting.width}-{setting.place}-{setting.keep:g}-{setting.replicas}-{trained}"
        without = kept(parts / plain, partial(_accuracy, *options, masked=False))
        masked = kept(parts / with_masks, partial(_accuracy, *options, masked=True))
        each.append({"plain": without["accuracy"], **masked})
    return {"setting": asdict(setting), "seeds": each}


@lru_cache(maxsize=8)
def letter_rows(rows: int, test: int, classes: int, wrong: float, seed: int) -> Rows:
    """Return images of letters with some wrong labels for training, and with their own labels held out."""
    found = load_letters(rows + test, classes=classes, seed=seed)
    pixels = torch.from_numpy(found.pixels).unsqueeze(1)
    x, held = (part.expand(-1, 3, -1, -1) for part in standardized(pixels[:rows], pixels[rows:]))
    given = change_labels(found.labels[:rows], share=wrong, classes=classes, seed=seed).given
    return x, given, held, found.labels[rows:]


def network(kind: Kind, setting: Setting, inputs: int) -> tuple[nn.Module, list[tuple[str, Dim]]]:
    """Return a network and its sites from the first to the last."""
    if kind != "letters":
        return build(kind, setting.width, inputs)
    model = ResidualNetwork(classes=setting.classes, channels=(16, 32, setting.width), blocks=1)
    blocks: list[tuple[str, Dim]] = [(f"stages.{stage}.0.relu1", "channels") for stage in range(3)]
    return model, [*blocks, ("classifier_input", "features")]


def masked_sites(sites: Sequence[tuple[str, Dim]], place: Place) -> dict[str, Dim]:
    """Return those that are masked, as `turnover.wrap` takes them."""
    first, end = {"last": (-1, None), "before": (-2, -1), "all": (0, None)}[place]
    return dict(sites[first:end])


def _accuracy(
    config: Config, kind: Kind, setting: Setting, data: Rows | None, seed: int, *, masked: bool
) -> dict[str, Any]:
    epochs, rate = (config.epochs, RATES["resnet"]) if kind == "letters" else (_other_epochs(config, kind), RATES[kind])
    x, labels, held, held_labels = (
        letter_rows(config.rows, config.test, setting.classes, setting.wrong, seed) if data is None else data
    )
    count = max(BATCH, round(setting.rows * len(x))) if len(x) > BATCH else len(x)
    x, y = x[:count], torch.from_numpy(labels)[:count]
    torch.manual_seed(seed)
    model, sites = network(kind, setting, x.shape[1])
    if masked:
        at = masked_sites(sites, setting.place)
        model = turnover.wrap(model, at=at, keep=setting.keep, seed=seed, replicas=setting.replicas)
    train(model, x, y, masked=masked, epochs=max(1, round(epochs * setting.epochs / setting.rows)), rate=rate)
    test_labels = torch.from_numpy(held_labels)
    found: dict[str, Any] = {"accuracy": share_right(model, held, test_labels)}
    if masked and kind != "mlp":
        ids = torch.arange(min(count, len(held)))
        before = {view: share_right(model, x[ids], y[ids], ids, view) for view in ("keep", "flip")}
        turnover.recalibrate(model, DataLoader(TensorDataset(x, y), BATCH, drop_last=count > BATCH))
        after = {f"{view}_recalibrated": share_right(model, x[ids], y[ids], ids, view) for view in ("keep", "flip")}
        found |= {"recalibrated": share_right(model, held, test_labels), **before, **after}
    return found


def _other_epochs(config: Config, kind: Kind) -> int:
    return config.other_epochs[kind != "mlp"]


_FIGURE = "mask_cost_classes.svg"
_PLACES = {"last": "input of the output layer", "before": "site before it", "all": "all sites"}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    how = result["setting"]
    lines = [
        "# What masks cost with many classes",
        f"A ResNet-like network is trained on {how['rows']:,} letters of 12 × 12 pixels, rendered with {len(FONTS)} "
        "fonts, of 26 classes; 5 % have a wrong label. Trainings with masks and without have the same weights at the "
        f"beginning and as many steps. *Epochs* are multiples of {how['epochs']}; with fewer rows there are more, for "
        "as many steps. *Cost* is the accuracy without masks minus that of the full network with masks, in "
        "points, on held-out rows with their own labels; where there is BatchNorm, after `turnover.recalibrate`. "
        f"{seeds_words(how['seeds']).capitalize()}.",
        f"![Cost of masks by classes, epochs, width and place]({_FIGURE})",
        *agreements(findings(result)),
    ]
    for kind, points in result["kinds"].items():
        lines += [f"## {_TITLES[kind]}", _table(points, kind)]
    return paragraphs(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what masks cost by length of training, and what else changes it."""
    how, letters = result["setting"], result["kinds"]["letters"]
    about = f"{how['rows']:,} letters, {seeds_words(how['seeds'])}"
    by_epochs = [
        f"{cost(point):.1f} points after {how['epochs'] * point['setting']['epochs']:g} epochs"
        for point in letters
        if point["setting"] == {**asdict(_BASE), "epochs": point["setting"]["epochs"]}
    ]
    others = [
        f"{cost(point):.1f} with {_changed(point['setting'])}"
        for point in letters
        if point["setting"]["epochs"] <= 1.0 and point["setting"] != asdict(_BASE)
    ]
    longer = [
        f"{cost(point):.1f} with {_changed(point['setting'], replace(_BASE, epochs=_LONG))}"
        for point in letters
        if point["setting"]["epochs"] == _LONG and point["setting"] != asdict(replace(_BASE, epochs=_LONG))
    ]
    ten = [f"{kind} {', '.join(f'{cost(point):.1f}' for point in result['kinds'][kind])}" for kind in result["kinds"]][
        1:
    ]
    made = [
        Finding(
            "cost of masks on the input of the output layer, 26 classes of letters",
            "–",
            ", ".join(by_epochs),
            about,
            f"Masks on the input of the output layer, 64 units, cost {' and '.join(by_epochs)} on 26 classes.",
        ),
        Finding(
            f"the same after {how['epochs']} epochs, one thing changed",
            "–",
            ", ".join(others),
            about,
            f"After {how['epochs']} epochs they cost {', '.join(others)}.",
        ),
    ]
    if longer:
        epochs = f"{how['epochs'] * _LONG:g}"
        made.append(
            Finding(
                f"the same after {epochs} epochs, one thing changed",
                "–",
                ", ".join(longer),
                about,
                f"After {epochs} epochs they cost {', '.join(longer)}.",
            )
        )
    made.append(
        Finding(
            "cost with ten classes of digits and CIFAR-10: as trained, after a third of the epochs, on the site before",
            "–",
            "; ".join(ten),
            f"width 64, {seeds_words(how['seeds'])}",
            "With ten classes of digits and CIFAR-10, masks of 64 units cost, on the input of the output layer, there "
            f"after a third of the epochs, and on the site before it: {'; '.join(ten)}.",
        )
    )
    return made


def _changed(setting: dict[str, Any], base: Setting = _BASE) -> str:
    """Return how a setting differs from that at which all else of letters is varied."""
    before, words = asdict(base), []
    changed = {name for name in before if setting[name] != before[name]}
    if "classes" in changed:
        rows = "the same rows per class" if "rows" in changed else "the same rows"
        if "rows" in changed and setting["epochs"] == setting["rows"]:
            rows = "the same rows and epochs per class"
            changed.remove("epochs")
        words.append(f"{setting['classes']} classes and {rows}")
    elif "rows" in changed:
        words.append(f"{setting['rows']:.0%} of the rows")
    by_name = {
        "width": f"{setting['width']} units",
        "place": f"masks on {'the ' if setting['place'] == 'before' else ''}{_PLACES[setting['place']]}",
        "keep": f"keep {setting['keep']:g}",
        "epochs": f"{setting['epochs']:g} times the epochs",
        "wrong": f"{setting['wrong']:.0%} wrong labels" if setting["wrong"] else "no wrong labels",
        "replicas": f"{setting['replicas']} replicas",
    }
    return ", ".join([*words, *(text for name, text in by_name.items() if name in changed)])


def _table(points: Sequence[dict[str, Any]], kind: str) -> str:
    head = ["classes", "width", "masks on", "keep", "rows", "epochs"]
    head += ["wrong labels", "replicas"] if kind == "letters" else []
    rows = []
    for point in points:
        setting = point["setting"]
        row = [
            str(setting["classes"]),
            str(setting["width"]),
            _PLACES[setting["place"]],
            f"{setting['keep']:g}",
            f"{setting['rows']:.0%}",
            f"× {setting['epochs']:.2g}",
        ]
        row += [f"{setting['wrong']:.0%}", str(setting["replicas"])] if kind == "letters" else []
        rows.append([*row, *_accuracies(point["seeds"]), f"{cost(point):+.1f}"])
    return markdown_table([*head, "without masks", "with masks", "recalibrated", "cost"], rows)


def _accuracies(seeds: Sequence[dict[str, float]]) -> list[str]:
    names = ("plain", "accuracy", "recalibrated")
    return [spread([100 * one[name] for one in seeds], ".1f") if name in seeds[0] else "–" for name in names]


def _plot(result: dict[str, Any], file: Path) -> None:
    costs = {_changed(point["setting"]): cost(point) for point in result["kinds"]["letters"]}
    names = [name or f"26 classes, {result['setting']['epochs']} epochs, 64 units" for name in costs]
    with drawn(file, (8.4, 0.8 + 0.26 * len(costs)), font=9) as figure:
        panel = figure.subplots()
        panel.barh(range(len(costs)), [*costs.values()], height=0.6, color="#1f4e9c")
        panel.axvline(LITTLE, color="#2e8b57", linestyle=":", linewidth=1.2)
        panel.set_yticks(range(len(names)), names, fontsize=8)
        panel.invert_yaxis()
        panel.set(xlabel="cost of masks, points of accuracy")
        tidy(panel)
