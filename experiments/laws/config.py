"""Which widths, numbers of replicas and of rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Settings of one size; each sweep varies one thing and leaves the others at `hidden`, 1 and all rows.

    Attributes:
        hidden: width of both hidden layers where it is not varied.
        widths: that are tried.
        replicas: numbers of replicas that are tried.
        rows: numbers of training rows that are tried; the number of steps stays the same.
        steps: of every training.
        queries: digits that are asked about.
        seeds: trainings of every setting.
    """

    hidden: int = 256
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    replicas: tuple[int, ...] = (1, 2, 4, 8)
    rows: tuple[int, ...] = (90, 180, 359, 718, 1437)
    steps: int = 460
    queries: int = 100
    seeds: int = 3


SIZES = {
    "toy": Config(hidden=16, widths=(8, 16, 32), replicas=(1, 2, 3), rows=(30, 60, 90), steps=10, queries=3, seeds=1),
    "small": Config(),
    "medium": Config(hidden=512, queries=360, seeds=5),
    "full": Config(hidden=512, widths=(64, 128, 256, 512, 1024, 2048, 4096), queries=360, seeds=10),
}
