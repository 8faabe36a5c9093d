"""How many sentences, of which how many labels are changed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: training sentences of SST-2.
        validation: further sentences, with right labels.
        changed: share of the training labels that is turned round.
        folds: of cleanlab.
        epochs: of every training; 0: as `turnover run` trains.
        hidden: width of the masked layer; 0: as `turnover run` has it.
        seeds: of sentences, changed labels, masks and trainings.
    """

    rows: int = 5000
    validation: int = 300
    changed: float = 0.1
    folds: int = 5
    epochs: int = 0
    hidden: int = 0
    seeds: tuple[int, ...] = (0, 1, 2)


SIZES = {
    "toy": Config(rows=120, validation=20, folds=2, epochs=2, hidden=32, seeds=(0,)),
    "small": Config(),
    "medium": Config(seeds=tuple(range(10))),
    "full": Config(rows=20_000, seeds=tuple(range(10))),
}
