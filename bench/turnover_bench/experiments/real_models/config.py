"""Settings of the measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Trial:
    """Trainings that choose a learning rate.

    Attributes:
        rates: that are tried.
        rows: of the training data that are trained.
        held_out: further rows of the training data, which decide.
        epochs: of each training.
        settings: of the VGG example that differ from its narrow ones.
    """

    rates: tuple[float, ...]
    rows: int
    held_out: int
    epochs: int = 3
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class AdapterConfig:
    """Adapters in a frozen encoder, trained by examples/hf_trainer_sst2.py.

    Attributes:
        rows: of SST-2 that are trained.
        dev_rows: that are tested; None: all 872.
        epochs: of each training.
        seeds: of head, adapters, masks and order; each is one training with masks and one without.
    """

    rows: int = 5_000
    dev_rows: int | None = None
    epochs: int = 3
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class SpeedConfig:
    """Scoring with the adapter model of the first seed.

    Attributes:
        instances: that are scored on each sentence.
        sentences: from the dev set, over which rank correlations are averaged; the first is timed.
        top: numbers of top blocks whose masks are used alone.
        origin: trained and null ids for which scores are compared by the masks used.
        loop_batches: batches of the authors' loop that are timed; its whole time is extrapolated from them.
    """

    instances: int = 5_000
    sentences: int = 3
    top: tuple[int, ...] = (3, 1, 0)
    origin: int = 300
    loop_batches: int = 5


@dataclass(frozen=True)
class RemedyConfig:
    """Masks on all layers, by every remedy.

    Attributes:
        rows: of SST-2 that are trained.
        dev_rows: that are tested; None: all 872.
        epochs: of each training.
        rate_by: the trial that chooses the learning rate, one for all remedies.
        seeds: of head, masks and order.
    """

    rows: int = 1_000
    dev_rows: int | None = None
    epochs: int = 3
    rate_by: str = "unmasked"
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class VggConfig:
    """VGG19, trained by examples/vgg_cifar10.py.

    Attributes:
        images: that are trained, and at most so many that are tested.
        settings: that differ from the narrow ones of the example; None: those of its --paper, with their own rate.
    """

    images: int = 10_000
    settings: Mapping[str, object] | None = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        trials: by name, how learning rates are chosen; the rate of adapters stands in the example.
        blocks: of a tiny untrained encoder; None: MiniLM.
    """

    trials: Mapping[str, Trial] = field(
        default_factory=lambda: {
            "adapters": Trial((1e-3, 2e-3), 1_000, 500),
            "adapters without masks": Trial((1e-3, 2e-3), 1_000, 500),
            "unmasked": Trial((1e-4, 3e-4), 256, 500, epochs=2),
            "vgg": Trial((0.02, 0.1), 8_000, 2_000, epochs=1),
        }
    )
    blocks: int | None = None
    adapters: AdapterConfig = AdapterConfig()
    speed: SpeedConfig = SpeedConfig()
    remedies: RemedyConfig = RemedyConfig()
    vgg: VggConfig = VggConfig()


SIZES = {
    "toy": Config(
        trials={
            **{name: Trial((1e-3,), 32, 32, epochs=1) for name in ("adapters", "adapters without masks")},
            "unmasked": Trial((1e-4, 1e-3), 32, 32, epochs=1),
            "vgg": Trial((0.01,), 64, 32, epochs=1, settings={"width": 0.03125}),
        },
        blocks=3,
        adapters=AdapterConfig(rows=64, dev_rows=24, epochs=1),
        speed=SpeedConfig(instances=40, sentences=2, top=(2, 0), origin=20, loop_batches=1),
        remedies=RemedyConfig(rows=32, dev_rows=16, epochs=1),
        vgg=VggConfig(images=64, settings={"width": 0.03125, "epochs": 1}),
    ),
    "small": Config(
        adapters=AdapterConfig(epochs=2),
        speed=SpeedConfig(sentences=1),
        remedies=RemedyConfig(epochs=2),
        vgg=VggConfig(settings={"epochs": 5, "milestones": [4]}),
    ),
    "medium": Config(
        # The paper's rows, one seed: three of adapters are in side_effects.
        speed=SpeedConfig(sentences=5, top=(5, 4, 3, 2, 1, 0)),
        remedies=RemedyConfig(rows=5_000),
        vgg=VggConfig(settings={"width": 0.25, "epochs": 12, "milestones": [8, 11]}),
    ),
    # BERT's rows, epochs and VGG19 of the paper; with MiniLM in the place of BERT.
    "full": Config(
        adapters=AdapterConfig(rows=20_000, epochs=10, seeds=(0, 1, 2)),
        speed=SpeedConfig(instances=20_000, sentences=10, top=(5, 4, 3, 2, 1, 0)),
        remedies=RemedyConfig(rows=20_000, epochs=10, seeds=(0, 1, 2)),
        vgg=VggConfig(settings=None),
    ),
}

NEEDS = {"medium": Needs(disk=1, memory=4, hours=1)}
