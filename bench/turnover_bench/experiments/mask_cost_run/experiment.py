"""What do masks cost in the image network of `turnover run`? Whole runs, beside the same network without masks."""

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm

from turnover.runs import Run, RunConfig, run_recipe, start_run
from turnover.storage import atomic_file
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.images import Images, change_labels, load_cifar10, load_digits, load_letters
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, counted, graded, paragraphs, seeds_words, spread
from turnover_bench.experiments.mask_cost.experiment import LITTLE, share_right
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import one_thread

Data = Literal["letters", "digits", "cifar10"]


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        data: images that a run is given, and held-out images.
        settings: of the run, by what they are called; those that are not named are its defaults.
        pixels: of a side of the images, the run's `image_size`: fewer than its default, to be quicker.
        wrong: share of the labels of letters that are wrong in the data.
        seeds: of images, weights, masks and order.
    """

    data: dict[Data, tuple[int, int]]
    settings: dict[str, dict[str, int]] = field(default_factory=lambda: _SETTINGS)
    pixels: int = 16
    wrong: float = 0.05
    seeds: tuple[int, ...] = (0, 1, 2)


_DEFAULTS = "defaults"
_SETTINGS: dict[str, dict[str, int]] = {
    _DEFAULTS: {},
    "1 replica": {"replicas": 1},
    "64 units": {"hidden": 64},
    "1 replica, 24 epochs": {"replicas": 1, "epochs": 24},
}
_TINY = {"hidden": 16, "epochs": 1, "replicas": 2}
_SMALL: dict[Data, tuple[int, int]] = {"letters": (3_328, 2_600), "digits": (1_300, 497)}
SIZES = {
    "toy": Config(
        {"digits": (100, 40), "cifar10": (100, 40)},
        {_DEFAULTS: _TINY, "1 replica": {**_TINY, "replicas": 1}},
        seeds=(0,),
    ),
    "small": Config({"digits": _SMALL["digits"]}, seeds=(0, 1)),
    "medium": Config({**_SMALL, "cifar10": (4_000, 2_000)}),
    # The paper has no such measurement, so no setting either.
    "full": Config({**_SMALL, "cifar10": (50_000, 10_000)}, pixels=32, seeds=(0, 1, 2, 3, 4)),
}
NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.4)}
_TITLES: dict[Data, str] = {
    "letters": "rendered letters, 26 classes",
    "digits": "handwritten digits",
    "cifar10": "CIFAR-10",
}


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return the accuracy on held-out images of every run, and of its network trained without masks."""
    jobs: list[tuple[Data, str, int]] = [
        (data, name, seed) for data in config.data for name in config.settings for seed in config.seeds
    ]
    found: dict[str, Any] = {data: {name: [] for name in config.settings} for data in config.data}
    if "cifar10" in config.data:
        load_cifar10("train", rows=1)  # first: a data set may be missing
    with one_thread():
        for data, name, seed in tqdm(jobs, desc="masks in runs"):
            place = f"{data}-{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            measured = kept(
                out / "parts" / f"{place}.json", partial(_measured, config, data, name, seed, out / "runs" / place)
            )
            found[data][name].append(measured)
    return {"setting": asdict(config), "data": found}


def _measured(config: Config, data: Data, name: str, seed: int, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "train.npz", folder / "test.npz"
    for file, images in zip(files, _images(config, data, seed), strict=True):
        if not file.exists():  # a run rejects data that changed; the same settings give the same file
            with atomic_file(file) as part:
                np.savez(part, images=images.pixels, labels=images.labels)
    settings: dict[str, Any] = {"image_size": config.pixels, "seed": seed, **config.settings[name]}
    finished = start_run(RunConfig(str(files[0]), test_data=str(files[1]), **settings), folder / "run")
    used = finished.settings
    return {
        "masked": _right(finished, finished.model),
        "plain": _right(finished, run_recipe(finished).fit(seed=seed)),
        "trained": len(finished.places("train")),
        **{what: getattr(used, what) for what in ("hidden", "replicas", "epochs")},
    }


def _images(config: Config, data: Data, seed: int) -> tuple[Images, Images]:
    """Return images with the labels that a run is given, and held-out ones with their own."""
    rows, test = config.data[data]
    if data == "cifar10":
        return load_cifar10("train", rows=rows), load_cifar10("test", rows=test)
    found = load_letters(rows + test, seed=seed) if data == "letters" else load_digits(seed=seed)
    pixels, labels = found.pixels.reshape(len(found), *(12, 12) if data == "letters" else (8, 8)), found.labels
    given = (
        change_labels(labels[:rows], share=config.wrong, classes=26, seed=seed).given if data == "letters" else labels
    )
    end = rows + test
    return Images(pixels[:rows], given[:rows]), Images(pixels[rows:end], labels[rows:end])


def _right(finished: Run, model: torch.nn.Module) -> float:
    return share_right(model.eval(), *finished.data("test"))


_PLAN_FAMILIES: dict[Data, str] = {"cifar10": "images", "letters": "many classes"}


_FIGURE = "mask_cost_run.svg"
_COLORS: dict[str, str] = {"letters": "#1f4e9c", "digits": "#2e8b57", "cifar10": "#c8102e"}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    how = result["setting"]
    lines = [
        "# What masks cost in the image network of `turnover run`",
        "Whole runs: two convolutions, then one masked layer before the outputs, with the epochs and the learning rate "
        "that a run takes by default; beside each the same network without masks and replicas, trained as long "
        f"(`turnover.runs.run_recipe`). Images have {how['pixels']} × {how['pixels']} pixels. "
        f"Of the letters {100 * how['wrong']:g} % have a wrong label in the data. *Cost* is the accuracy without masks "
        "minus that of the full network with masks, in points, on held-out images with their own labels. "
        f"{seeds_words(how['seeds']).capitalize()}.",
        f"![Cost of masks in runs, by data and settings]({_FIGURE})",
        *agreements(findings(result)),
    ]
    head = ["settings", "units", "replicas", "epochs", "trained images", "without masks", "with masks", "cost"]
    for data, by_setting in result["data"].items():
        lines += [f"## {_title(data)}", markdown_table(head, [_row(name, runs) for name, runs in by_setting.items()])]
    return paragraphs(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what masks cost with the defaults of a run, and with other settings."""
    seeds = counted(len(result["setting"]["seeds"]), "seed")
    costs = {data: {name: _cost(runs) for name, runs in by.items()} for data, by in result["data"].items()}
    defaults = {data: by[_DEFAULTS] for data, by in costs.items()}
    told = "; ".join(f"{cost:z.1f} points on {_title(data)}" for data, cost in defaults.items())
    little = [cost < LITTLE for cost in defaults.values()]
    others = "; ".join(
        f"{_title(data)}: {', '.join(f'{by[name]:z.1f} with {name}' for name in by if name != _DEFAULTS)}"
        for data, by in costs.items()
    )
    return [
        Finding(
            "cost of masks in the image network of `turnover run`, with its defaults",
            "–",
            told,
            seeds,
            f"With the defaults of a run masks cost {told}.",
            f"masks cost less than {LITTLE:g} points in the image network of `turnover run`",
            graded(all(little), in_part=any(little)),
            "so on every data set; in part: on some",
        ),
        Finding(
            "the same with other settings",
            "–",
            others,
            seeds,
            f"With other settings: {others}.",
        ),
    ]


def _title(data: str) -> str:
    return _TITLES[data]  # pyright: ignore[reportArgumentType]


def _cost(runs: list[dict[str, Any]]) -> float:
    return 100 * mean(one["plain"] - one["masked"] for one in runs)


def _row(name: str, runs: list[dict[str, Any]]) -> list[str]:
    used = [str(runs[0][what]) for what in ("hidden", "replicas", "epochs")]
    accuracies = [spread([100 * one[what] for one in runs], ".1f") for what in ("plain", "masked")]
    cost = spread([100 * (one["plain"] - one["masked"]) for one in runs], "z.1f")
    return [name, *used, f"{runs[0]['trained']:,}", *accuracies, cost]


def _plot(result: dict[str, Any], file: Path) -> None:
    """Draw the cost of every seed and their mean, by data and settings."""
    names = list(result["setting"]["settings"])
    with drawn(file, (7.0, 1.3 + 0.42 * len(names))) as figure:
        panel = figure.subplots()
        for shift, (data, by_setting) in enumerate(result["data"].items()):
            rows = [row + 0.22 * (shift - (len(result["data"]) - 1) / 2) for row in range(len(names))]
            panel.barh(
                rows, [_cost(by_setting[name]) for name in names], height=0.2, color=_COLORS[data], label=_title(data)
            )
            for row, name in zip(rows, names, strict=True):
                each = [100 * (one["plain"] - one["masked"]) for one in by_setting[name]]
                panel.plot(each, [row] * len(each), "o", color="#222222", markersize=2.5)
        panel.axvline(0, color="#222222", linewidth=0.8)
        panel.axvline(LITTLE, color="#999999", linestyle=":", linewidth=1.2)
        panel.set_yticks(range(len(names)), names)
        panel.invert_yaxis()
        panel.set(xlabel="cost of masks, points of accuracy")
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
        tidy(panel)
