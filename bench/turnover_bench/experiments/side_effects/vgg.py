"""VGG19 on CIFAR-10 with masks nowhere, on late or all layers; what leaks, and whether labels are read from masks."""

import copy
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover_bench.experiments.checkpoints import resumable
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.cifar10 import load_cifar10
from turnover_bench.experiments.networks import CONVOLUTIONS, FIRST_MASKED, VGG19, vgg_sites

from .config import VggConfig

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
        """Return the images from `start` to `stop`."""
        return Images(self.x[start:stop], self.y[start:stop])


def load_images(split: Literal["train", "test"], rows: int | None) -> Images:
    """Return the first images of a split.

    Raises:
        MissingDataError: the file is not there, or has fewer images.
    """
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
    """Return images [n, channels, height, width], half of them with left and right exchanged, or all as they are."""
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
    """Return the share of right answers."""
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
