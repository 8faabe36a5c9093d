"""Settings of the measurement."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: training rows, by data set.
        hidden: widths of the masked layers, by data set.
        epochs: of every training, by data set.
        learning_rate: of SGD with momentum 0.9, by data set.
        left_out: share of the rows that one of two trainings leaves out.
        references: rows on which what masks say by themselves is measured.
        seeds: of rows that are left out, weights, masks and order.
    """

    rows: dict[str, int]
    hidden: dict[str, tuple[int, ...]]
    epochs: dict[str, int]
    learning_rate: dict[str, float]
    left_out: float = 0.1
    references: int = 32
    seeds: tuple[int, ...] = (0, 1, 2)


_RATES = {"digits": 0.1, "sst2": 0.04}

SIZES = {
    "toy": Config({"digits": 120}, {"digits": (64,)}, {"digits": 4}, _RATES, references=4, seeds=(0,)),
    "small": Config(
        {"digits": 1_300, "sst2": 5_000}, {"digits": (512, 512), "sst2": (512,)}, {"digits": 25, "sst2": 6}, _RATES
    ),
    "medium": Config(
        {"digits": 1_300, "sst2": 20_000},
        {"digits": (512, 512), "sst2": (512,)},
        {"digits": 25, "sst2": 6},
        _RATES,
        seeds=tuple(range(10)),
    ),
    "full": Config(
        {"digits": 1_300, "sst2": 67_349},
        {"digits": (512, 512), "sst2": (512,)},
        {"digits": 25, "sst2": 6},
        _RATES,
        seeds=tuple(range(10)),
    ),
}
