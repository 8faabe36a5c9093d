"""Trainings with masks and without, from the same weights, and how their cost falls with the width."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import turnover
from turnover.layers import Dim
from turnover_bench.experiments.checkpoints import resumable
from turnover_bench.experiments.datasets.numbers import Rows, cifar10_rows, digit_rows
from turnover_bench.experiments.networks import ResidualNetwork, mlp
from turnover_bench.experiments.runner import kept
from turnover_bench.experiments.timing import growth, one_thread

from .config import BASE, BATCH, LITTLE, RATES, VARIED, Config, Kind, Place, Setting


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
    """Return those that are masked, as `turnover.wrap` takes them."""
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
