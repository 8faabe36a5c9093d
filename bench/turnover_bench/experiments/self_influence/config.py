"""Settings of the measurement."""

from dataclasses import dataclass, field

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class TextConfig:
    """SST-2.

    Attributes:
        rows: that are trained.
        encoder: None: features of a frozen MiniLM under a masked hidden layer; a folder or a name on the hub: masked
            adapters in that encoder.
        hidden: units of the masked hidden layer.
        rates: of AdamW, of which one is chosen on held-out training rows.
        epochs: of every training.
        batch_size: of every training.
    """

    rows: int = 5_000
    encoder: str | None = None
    hidden: int = 512
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    epochs: int = 6
    batch_size: int = 100


@dataclass(frozen=True)
class ImageConfig:
    """CIFAR-10.

    Attributes:
        rows: that are trained.
        vgg: share of VGG19's channels, masks after the 11th layer; 0: two convolutions and a masked hidden layer, on
            16 × 16 pixels.
        hidden: of the small network: channels of both convolutions, units of the hidden layer.
        rates: of SGD with momentum, of which one is chosen on held-out training rows.
        epochs: of every training.
        milestones: epochs after which the rate falls tenfold.
        weight_decay: of SGD.
        batch_size: of every training.
        bfloat16: train in this precision where autocast takes it: faster on the processors that know it.
    """

    rows: int = 10_000
    vgg: float = 0.0
    hidden: tuple[int, int, int] = (24, 32, 512)
    rates: tuple[float, ...] = (0.02, 0.05, 0.1)
    epochs: int = 8
    milestones: tuple[int, ...] = ()
    weight_decay: float = 0.0
    batch_size: int = 100
    bfloat16: bool = False


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        text: SST-2.
        image: CIFAR-10.
        replicas: numbers of masked parts in one training; 1 is the paper's.
        test_rows: at most so many, for accuracy; None: all.
        seeds: of initial parameters, masks and order.
    """

    text: TextConfig = field(default_factory=TextConfig)
    image: ImageConfig = field(default_factory=ImageConfig)
    replicas: tuple[int, ...] = (1, 8)
    test_rows: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)


SIZES = {
    "toy": Config(
        text=TextConfig(rows=96, hidden=32, rates=(1e-3, 1e-2), epochs=4, batch_size=16),
        image=ImageConfig(rows=96, hidden=(4, 8, 32), rates=(0.05,), epochs=4, batch_size=16),
        replicas=(1, 2),
        test_rows=24,
        seeds=(0, 1),
    ),
    "small": Config(),
    "medium": Config(
        text=TextConfig(rows=67_349),
        # All images, as in the paper: on few of them a masked VGG19 reads labels from masks (see side_effects).
        image=ImageConfig(
            rows=50_000,
            vgg=0.25,
            rates=(0.05,),
            epochs=8,
            milestones=(5, 7),
            weight_decay=5e-4,
            batch_size=128,
            bfloat16=True,
        ),
        seeds=(0, 1),
    ),
    # The paper's networks and trainings.
    "full": Config(
        text=TextConfig(rows=67_349, encoder="bert-base-cased", rates=(5e-5,), epochs=10, batch_size=32),
        image=ImageConfig(
            rows=50_000, vgg=1.0, rates=(0.1,), epochs=300, milestones=(150, 225), weight_decay=5e-4, batch_size=128
        ),
        replicas=(1,),
    ),
}

NEEDS = {
    "medium": Needs(disk=0.5, memory=6, hours=2.0),
    "full": Needs(disk=5, memory=24, hours=2000),
}
