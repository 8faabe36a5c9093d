"""Settings of the measurement."""

from dataclasses import dataclass, field

from turnover_bench.experiments.runner import Needs

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
