"""Settings of the measurement."""

from dataclasses import dataclass

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Table1Config:
    """What is measured, and on what.

    Attributes:
        rows: sizes of the data, |D|, for all methods.
        more_rows: further sizes at which only estimation is measured, for methods that read no training row in it.
        width: of both hidden layers while |D| grows.
        widths: of both hidden layers while |D| is `width_rows`; only storage is measured.
        width_rows: |D| while the network grows.
        repeats: of every timing; the smallest counts.
        epochs: of every training.
        batch_size: of every training (B).
        retrained: models that are really trained for Re-train; the time of all |D| is extrapolated from them.
        subset_models: of Feldman & Zhang.
        lissa_batch: rows of a step of Koh+'s recursion (b); it has |D| steps (rt).
        seed: of rows, networks and trainings.
    """

    rows: tuple[int, ...]
    more_rows: tuple[int, ...]
    width: int
    widths: tuple[int, ...]
    width_rows: int
    repeats: int
    epochs: int = 3
    batch_size: int = 32
    retrained: int = 4
    subset_models: int = 10
    lissa_batch: int = 32
    seed: int = 0


# Its seconds are compared with each other.
ALONE = True

SIZES = {
    "toy": Table1Config(
        rows=(64, 128, 256),
        more_rows=(512,),
        width=16,
        widths=(16, 32, 64),
        width_rows=64,
        repeats=1,
        epochs=1,
        retrained=2,
        subset_models=4,
    ),
    "small": Table1Config(
        rows=(128, 256, 512, 1024, 2048, 4096),
        more_rows=(16384, 65536, 262144, 1048576),
        width=64,
        widths=(64, 128, 256, 512),
        width_rows=256,
        repeats=3,
    ),
    "medium": Table1Config(
        rows=(128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        more_rows=(65536, 262144, 1048576),
        width=128,
        widths=(64, 128, 256, 512, 1024),
        width_rows=512,
        repeats=3,
    ),
    # The paper counts and does not measure, so that it has no setting of its own: the sizes of its data sets instead.
    "full": Table1Config(
        rows=(1024, 2048, 4096, 8192, 16384, 32768, 65536),
        more_rows=(262144, 1048576, 4194304),
        width=256,
        widths=(64, 128, 256, 512, 1024),
        width_rows=1024,
        repeats=3,
        epochs=10,
    ),
}

NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.2)}
