"""Sizes, networks and what is varied, one thing at a time."""

from dataclasses import dataclass, replace
from typing import Literal

from turnover_bench.experiments.runner import Needs

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
