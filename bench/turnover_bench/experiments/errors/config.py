"""Settings of one experiment on errors."""

from dataclasses import dataclass
from typing import Literal

Data = Literal["sst2", "yahoo", "cifar10"]


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        data: which data set.
        rows: that are trained.
        test_rows: among which errors are looked for; None: all.
        shown: errors in the figure.
        supporting: training rows that are shown with each.
        errors: that are to be repaired.
        share: of the training rows that is removed for each.
        seeds: of the retrainings.
        model: encoder of texts, a folder or a name on the hub; None: MiniLM from its package.
        adapters: width of adapters in the encoder; 0: it stays frozen, a masked layer on top learns.
        epochs: of all trainings; 0: as `turnover run` trains.
        hidden: width of the masked layer; 0: as `turnover run` has it.
        image_size: pixels of a side of images.
    """

    data: Data
    rows: int
    test_rows: int | None = None
    shown: int = 3
    supporting: int = 3
    errors: int = 20
    share: float = 0.01
    seeds: tuple[int, ...] = (0, 1)
    model: str | None = None
    adapters: int = 0
    epochs: int = 0
    hidden: int = 0
    image_size: int = 32
