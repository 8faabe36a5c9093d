"""How large the network is, how long it trains and how it is judged."""

from dataclasses import dataclass

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: of digits that are trained, a tenth of them with a changed label.
        hidden: width of both hidden layers.
        epochs: of the training that all variants but one share.
        short: epochs of that one.
        queries: held-out rows that LDS and mean influence ask about.
        halves: random halves that are retrained for LDS.
        retrainings: of each half.
        seeds: of masks and trainings.
        ids: whose masks are made to compare the kinds of masks.
        repeats: of that comparison; the least counts.
    """

    rows: int = 1300
    hidden: int = 512
    epochs: int = 10
    short: int = 3
    queries: int = 100
    halves: int = 40
    retrainings: int = 2
    seeds: tuple[int, ...] = (0, 1, 2)
    ids: int = 10_000
    repeats: int = 3


SIZES = {
    "toy": Config(
        rows=120, hidden=32, epochs=6, short=3, queries=6, halves=4, retrainings=1, seeds=(0,), ids=512, repeats=1
    ),
    "small": Config(),
    "medium": Config(halves=100, retrainings=4, seeds=tuple(range(10)), ids=100_000),
    # The paper has no numbers for its footnotes, so no setting either: a wider network and more retrainings instead.
    "full": Config(hidden=1024, halves=200, retrainings=5, seeds=tuple(range(10)), ids=100_000),
}
NEEDS = {"medium": Needs(disk=0.2, memory=4.0, hours=0.4), "full": Needs(disk=0.5, memory=4.0, hours=8.0)}
MEASURES_MEMORY = True
