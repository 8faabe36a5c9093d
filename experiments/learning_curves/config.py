"""Settings of the measurement."""

from dataclasses import dataclass

from experiments.runner import Needs


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: of SST-2 that are trained.
        watched: of the trained rows, and as many held-out rows of the training file, whose loss is measured.
        test_rows: of the dev set; None: all 872, as in the paper.
        epochs: of the training.
        points: of every curve, besides the one before training.
        rate: at the start; it falls to zero.
        seeds: of rows, head, adapters, masks and order.
        encoder: a name on the hub, or a folder; None: MiniLM.
        blocks: of a tiny untrained encoder in its place; None: no such.
    """

    rows: int = 1_000
    watched: int = 200
    test_rows: int | None = None
    epochs: int = 5
    points: int = 7
    rate: float = 2e-3
    seeds: tuple[int, ...] = (0, 1)
    encoder: str | None = None
    blocks: int | None = None


SIZES = {
    "toy": Config(rows=64, watched=16, test_rows=16, epochs=2, points=2, blocks=2),
    "small": Config(test_rows=300),
    "medium": Config(rows=25_000, watched=1_000, epochs=5, points=25, seeds=(0, 1, 2)),
    # The paper's encoder, rows, epochs and rate.
    "full": Config(
        rows=25_000, watched=1_000, epochs=10, points=50, rate=5e-5, seeds=(0, 1, 2), encoder="bert-base-cased"
    ),
}

NEEDS = {"medium": Needs(disk=0.1, memory=2, hours=5), "full": Needs(disk=1, memory=4, hours=80)}
