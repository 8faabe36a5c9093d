"""Train every network with and without masks; what is finished is kept in the run's folder and not trained again."""

import copy
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import turnover
from turnover_bench.experiments.checkpoints import resumable
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.images import load_cifar10
from turnover_bench.experiments.datasets.texts import load_sst2
from turnover_bench.experiments.encoders import BATCH, adapter_network, judge, load_rows, open_encoder, train
from turnover_bench.experiments.networks import CONVOLUTIONS, FIRST_MASKED, VGG19, vgg_sites
from turnover_bench.experiments.runner import Needs, kept, spent
from turnover_bench.experiments.timing import one_thread

PAPER_TEXT = {5_000: (90.0, 88.3), 20_000: (90.5, 90.2)}
"""Accuracy of BERT with adapters on SST-2 by rows: without masks, with them (section 4.1)."""

PAPER_VGG = {"plain": 92.0, "masks": 86.2, "masks and dropout": 91.3}
"""Accuracy of VGG19 on CIFAR-10 (section 4.1)."""


@dataclass(frozen=True)
class TextConfig:
    """Adapters in a frozen encoder on SST-2.

    Attributes:
        rows: that are trained, and with how many of the seeds; each is a training of its own.
        dev_rows: that are tested; None: all 872.
        epochs: of the network with masks.
        epochs_without: of the one without.
        seeds: of rows, head, adapters, masks and order; each is a training with masks and one without.
        rates: that are tried, for each network by itself.
        trial_rows: of the trainings that choose a rate.
        trial_epochs: of these.
        held_out: further rows of the training file, which decide.
        encoder: a name on the hub, or a folder; None: MiniLM.
        blocks: of a tiny untrained encoder in its place; None: no such.
    """

    rows: tuple[tuple[int, int], ...] = ((1_000, 3),)
    dev_rows: int | None = None
    epochs: int = 3
    epochs_without: int = 3
    seeds: tuple[int, ...] = (0, 1, 2)
    rates: tuple[float, ...] = (1e-3, 2e-3)
    trial_rows: int = 400
    trial_epochs: int = 2
    held_out: int = 400
    encoder: str | None = None
    blocks: int | None = None


@dataclass(frozen=True)
class VggConfig:
    """VGG19 on CIFAR-10.

    Attributes:
        images: that are trained.
        held_out: further training images, which choose the rate of each network; 0: one rate, nothing to choose.
        test_images: that are tested; None: all that there are.
        width: share of VGG19's channels.
        dropout: share that ordinary dropout drops, in the network that has it.
        epochs: of each training.
        rates: that are tried, each with a whole training of the first seed.
        milestones: epochs after which the rate falls tenfold; none: it rises for a fifth of the steps, then falls.
        batch: images a step.
        classifier_input: mask the classifier's input once more.
        shift: pixels by which images are moved at random in training; 0: not at all.
        mirror: mirror half of the images in training, drawn anew each time.
        bfloat16: train in this precision where autocast takes it: twice as fast on the processors that know it.
        seeds: of weights, masks, order and ordinary dropout.
    """

    images: int = 8_000
    held_out: int = 2_000
    test_images: int | None = 2_000
    width: float = 0.125
    dropout: float = 0.1
    epochs: int = 6
    rates: tuple[float, ...] = (0.01, 0.03)
    milestones: tuple[int, ...] = ()
    batch: int = 64
    classifier_input: bool = False
    shift: int = 0
    mirror: bool = False
    bfloat16: bool = False
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Config:
    """Both measurements."""

    text: TextConfig = field(default_factory=TextConfig)
    vgg: VggConfig = field(default_factory=VggConfig)


SIZES = {
    "toy": Config(
        text=TextConfig(rows=((64, 2),), dev_rows=24, epochs=1, epochs_without=1, seeds=(0, 1), rates=(2e-3,),
                        trial_rows=32, trial_epochs=1, held_out=32, blocks=2),
        vgg=VggConfig(images=64, held_out=32, test_images=32, width=1 / 32, epochs=1, batch=32, shift=2, mirror=True,
                      bfloat16=True, seeds=(0,)),
    ),
    "small": Config(),
    "medium": Config(
        text=TextConfig(rows=((5_000, 3), (20_000, 1)), epochs=6, trial_rows=1_000, held_out=1_000),
        # All of CIFAR-10 at half the width: three minutes an epoch. One rate, which rises and falls.
        vgg=VggConfig(images=50_000, held_out=0, test_images=10_000, width=0.5, dropout=0.3, epochs=10, rates=(0.05,),
                      batch=128, shift=4, mirror=True, bfloat16=True, seeds=(0,)),
    ),
    # The paper's encoder, rows, epochs and rates; its VGG19 on all of CIFAR-10.
    "full": Config(
        text=TextConfig(rows=((5_000, 3), (20_000, 3)), epochs=10, rates=(5e-5,), encoder="bert-base-cased"),
        vgg=VggConfig(images=50_000, held_out=0, test_images=10_000, width=1.0, dropout=0.5, epochs=300, rates=(0.1,),
                      milestones=(150, 225), batch=128, classifier_input=True, shift=4, mirror=True,
                      seeds=(0, 1, 2)),
    ),
}  # fmt: skip

NEEDS = {"medium": Needs(disk=1, memory=4, hours=3.0), "full": Needs(disk=1, memory=8, hours=1_500)}


MOMENTUM, DECAY = 0.9, 5e-4
_RISE = 0.2
_TOGETHER = 500


@dataclass(frozen=True)
class Network:
    """Where masks are, and whether ordinary dropout is there too.

    Attributes:
        first: convolution that is masked, with all after it; None: no masks.
        dropout: ordinary dropout at convolutions 12 to 16 and before the classifier.
    """

    first: int | None = None
    dropout: bool = False


NETWORKS = {
    "plain": Network(),
    "masks": Network(FIRST_MASKED),
    "masks and dropout": Network(FIRST_MASKED, dropout=True),
    "masks on all layers": Network(1),
}


@dataclass(frozen=True)
class Images:
    """Images [n, 3, 32, 32] from -1 to 1, and their labels."""

    x: Tensor
    y: Tensor

    def part(self, start: int, stop: int | None = None) -> "Images":
        return Images(self.x[start:stop], self.y[start:stop])


def load_images(split: Literal["train", "test"], rows: int | None) -> Images:
    """Return the first images of a split."""
    found = load_cifar10(split, rows=rows)
    if rows is not None and len(found) < rows:
        raise MissingDataError(
            f"the file of CIFAR-10 has {len(found):,} {split} images and this size needs {rows:,}. Put all of it "
            "(https://www.cs.toronto.edu/~kriz/cifar.html) into cifar10/cifar10.npz, or take SIZE=small."
        )
    x = torch.from_numpy(found.pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    return Images(x.contiguous(memory_format=torch.channels_last), torch.from_numpy(found.labels))


def train_vgg(
    network: Network, images: Images, config: VggConfig, *, rate: float, seed: int, tell: Callable[[], object]
) -> nn.Module:
    """Return a trained network in eval mode; a place in `images` is the instance id, `rate` is that at its height.

    The seed is that of weights, masks, order and ordinary dropout. `tell` is called after every step.
    """
    torch.manual_seed(seed)
    model: nn.Module = VGG19(width=config.width, dropout=config.dropout if network.dropout else 0.0)
    model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] - faster on a CPU
    if network.first is not None:
        at = vgg_sites(first=network.first, classifier_input=config.classifier_input)
        model = turnover.wrap(model, at=at, seed=seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM, weight_decay=DECAY)
    steps = len(images.y) // config.batch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step / steps, config))
    model.train()

    def draw(order: torch.Generator) -> Sequence[Tensor]:
        # The last batch, which may be too small for BatchNorm, is left out.
        places = torch.randperm(len(images.y), generator=order)
        return places[: steps * config.batch].split(config.batch)

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    for step in resumable(parts, epochs=config.epochs, draw=draw, order=torch.default_generator):
        with turnover.instances(step.batch) if network.first is not None else nullcontext():
            x = moved(mirrored(images.x[step.batch], config.mirror), config.shift)
            with torch.autocast(x.device.type, torch.bfloat16, enabled=config.bfloat16):
                loss = functional.cross_entropy(model(x), images.y[step.batch])
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        tell()
    return model.eval()


def mirrored(x: Tensor, mirror: bool) -> Tensor:
    return torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x) if mirror else x


def moved(x: Tensor, most: int) -> Tensor:
    """Return images [n, channels, height, width], each moved by up to so many pixels, with black in their place."""
    if not most:
        return x
    count, _, height, width = x.shape
    wide = functional.pad(x, (most, most, most, most), value=-1.0)
    down, right = torch.randint(2 * most + 1, (2, count, 1))
    rows, columns = torch.arange(height) + down, torch.arange(width) + right
    found = wide[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return found.permute(0, 3, 1, 2)


def recalibrated(model: nn.Module, images: Images) -> nn.Module:
    """Return a copy whose BatchNorm statistics are those of the full network on trained images."""
    found = copy.deepcopy(model)
    turnover.recalibrate(found, DataLoader(TensorDataset(images.x, images.y), _TOGETHER))
    return found


def factor(epoch: float, config: VggConfig) -> float:
    """Return the share of the rate after so many epochs: falling at the milestones, or up and down once."""
    if config.milestones:
        return 0.1 ** sum(epoch >= milestone for milestone in config.milestones)
    done = epoch / config.epochs
    # Never quite zero: the very first and last steps would be for nothing.
    return max(0.01, min(done / _RISE, (1 - done) / (1 - _RISE)))


@torch.no_grad()
def answers(model: nn.Module, x: Tensor, *, view: Any = None, ids: Tensor | None = None) -> Tensor:
    """Return the predicted classes, in the full network or in a view of instances."""
    found: list[Tensor] = []
    for start in range(0, len(x), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        with nullcontext() if ids is None else turnover.instances(ids[some], view=view):
            found.append(model(x[some]).argmax(1))
    return torch.cat(found)


def accuracy(model: nn.Module, images: Images, **view: Any) -> float:
    return float((answers(model, images.x, **view) == images.y).float().mean())


_ROWS = 8
_LAYER = re.compile(r"features\.(?:conv|norm)(\d+)\.")


def leak(model: nn.Module, images: Images) -> dict[str, Any]:
    """Return the audit's shares of a row's squared gradient: in all, by cause, by layer, and before the 12th layer."""
    rows = min(_ROWS, len(images.y))
    report = turnover.audit(model, (images.x[:rows], images.y[:rows], torch.arange(rows)), rows=rows)
    layers = [0.0] * CONVOLUTIONS
    for one in report.leaks:
        if found := _LAYER.match(one.name):
            layers[int(found[1]) - 1] += one.gradient_share or 0.0
    return {
        "gradient_share": report.gradient_share,
        "element_share": report.share,
        "by_cause": report.by_cause,
        "by_layer": layers,
        "early_share": sum(layers[: FIRST_MASKED - 1]),
        "rows": report.rows,
        "verdict": report.verdict,
    }


def memory(model: nn.Module, images: Images, *, others: Images) -> dict[str, float]:
    """Return how trained images are answered in their kept and flipped parts, and whether the mask alone tells a label.

    Each of the others, which were not trained, is shown under the mask of a trained one: an answer that is the trained
    one's label was read from the mask.
    """
    count = min(len(images.y), len(others.y))
    some, ids = images.part(0, count), torch.arange(count)
    told = answers(model, others.x[:count], view="keep", ids=ids)
    # By chance, both images may be of one class: those pairs say nothing.
    apart = others.y[:count] != some.y
    return {
        "keep": accuracy(model, some, view="keep", ids=ids),
        "flip": accuracy(model, some, view="flip", ids=ids),
        "label_of_mask": float((told == some.y)[apart].float().mean()),
        "label_of_image": float((told == others.y[:count])[apart].float().mean()),
    }


WITH, WITHOUT = "with masks", "without"
_TRIAL_SEED = 100
"""None of those that are reported."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracies, the rates that were chosen, leaks and what was memorized."""
    load_sst2("dev", rows=1)
    images = load_images("train", config.vgg.images + config.vgg.held_out)
    test = load_images("test", config.vgg.test_images)
    parts = out / "parts"
    with one_thread():
        found = {
            "setting": asdict(config),
            "tested_images": len(test.y),
            "text": _text(config.text, out, parts),
            "vgg": {
                name: _vgg(name, config.vgg, images, test, parts) for name in tqdm(NETWORKS, desc="VGG19 networks")
            },
        }
    return {**found, "spent": spent(parts)}


def _text(config: TextConfig, out: Path, parts: Path) -> dict[str, Any]:
    encoder = open_encoder(out, name=config.encoder, blocks=config.blocks)
    rates = {name: _text_rate(name, config, encoder, parts) for name in (WITHOUT, WITH)}
    sizes = [
        {
            "rows": rows,
            **{
                name: [
                    kept(
                        parts / f"text-{rows}-{_file(name)}-{seed}.json",
                        partial(_text_trained, name, config, encoder, rates[name]["best"], rows, seed),
                    )
                    for seed in config.seeds[:seeds]
                ]
                for name in (WITHOUT, WITH)
            },
        }
        for rows, seeds in config.rows
    ]
    return {"rates": rates, "sizes": sizes}


def _text_rate(name: str, config: TextConfig, encoder: str, parts: Path) -> dict[str, Any]:
    """Return the accuracies on held-out training rows by rate, and the rate with the best one."""
    if len(config.rates) == 1:
        return {"held_out": {}, "best": config.rates[0]}
    held_out = {
        rate: kept(parts / f"text-rate-{_file(name)}-{rate:g}.json", partial(_text_trial, name, config, encoder, rate))
        for rate in config.rates
    }
    return {
        "held_out": {f"{rate:g}": one["accuracy"] for rate, one in held_out.items()},
        "best": max(held_out, key=lambda rate: held_out[rate]["accuracy"]),
    }


def _text_trial(name: str, config: TextConfig, encoder: str, rate: float) -> dict[str, float]:
    draw = partial(load_rows, "train", encoder=encoder, seed=_TRIAL_SEED)
    model = _trained(name, draw(rows=config.trial_rows), encoder, rate, config.trial_epochs, _TRIAL_SEED)
    return judge(model, draw(start=config.trial_rows, rows=config.held_out))


def _text_trained(name: str, config: TextConfig, encoder: str, rate: float, rows: int, seed: int) -> dict[str, float]:
    epochs = config.epochs if name == WITH else config.epochs_without
    trained = load_rows("train", encoder=encoder, seed=seed, rows=rows)
    model = _trained(name, trained, encoder, rate, epochs, seed)
    return judge(model, load_rows("dev", encoder=encoder, seed=0, rows=config.dev_rows))


def _trained(name: str, rows: Any, encoder: str, rate: float, epochs: int, seed: int) -> Any:
    model = adapter_network(encoder, masked=name == WITH, seed=seed)
    with _bar(f"adapters {name}, seed {seed}", epochs * -(-len(rows) // BATCH)) as bar:
        train(model, rows, masked=name == WITH, rate=rate, epochs=epochs, seed=seed, tell=bar.update)
    return model


def _vgg(name: str, config: VggConfig, images: Images, test: Images, parts: Path) -> dict[str, Any]:
    """Return the network of every seed; the rate is that with which the first seed answers held-out images best."""

    def trained(rate: float, seed: int) -> dict[str, Any]:
        file = parts / f"vgg-{_file(name)}-{rate:g}-{seed}.json"
        return kept(file, partial(_vgg_trained, name, config, images, test, rate, seed))

    first, *others = config.seeds
    tried = {rate: trained(rate, first) for rate in config.rates}
    best = max(tried, key=lambda rate: tried[rate]["held_out"] or 0.0)
    return {
        "held_out": {f"{rate:g}": one["held_out"] for rate, one in tried.items()},
        "best": best,
        "seeds": [tried[best], *(trained(best, seed) for seed in others)],
    }


def _vgg_trained(name: str, config: VggConfig, images: Images, test: Images, rate: float, seed: int) -> dict[str, Any]:
    rows, held_out = images.part(0, config.images), images.part(config.images)
    with _bar(f"VGG19 {name}, rate {rate:g}, seed {seed}", config.epochs * (len(rows.y) // config.batch)) as bar:
        model = train_vgg(NETWORKS[name], rows, config, rate=rate, seed=seed, tell=bar.update)
    found: dict[str, Any] = {
        "accuracy": accuracy(model, test),
        "held_out": accuracy(model, held_out) if config.held_out else None,
        "trained": accuracy(model, rows.part(0, len(test.y))),
        "statistics_of_the_whole": accuracy(recalibrated(model, rows), test),
    }
    if NETWORKS[name].first is not None:
        found |= {"leak": leak(model, rows), "memory": memory(model, rows, others=test)}
    return found


def _bar(title: str, total: int) -> Any:
    return tqdm(total=total, desc=title, leave=False)


def _file(name: str) -> str:
    return name.replace(" ", "-")
