"""How many runs, replicas and never-trained ids."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        runs: trainings, each against the mean of the others.
        other_runs: the same for the network with a trunk, which is also asked with denoising.
        replicas: of each.
        hidden: width of both hidden layers.
        epochs: of each training.
        queries: digits that are asked about.
        null_ids: never-trained ids that are judged, besides those that p-values are made from.
        null_sets: sets of never-trained ids in which significance is asked for.
        set_size: ids of a set.
    """

    runs: int = 32
    other_runs: int = 12
    replicas: int = 8
    hidden: int = 512
    epochs: int = 20
    queries: int = 40
    null_ids: int = 4096
    null_sets: int = 200
    set_size: int = 1024


SIZES = {
    "toy": Config(
        runs=4, other_runs=3, replicas=3, hidden=32, epochs=1, queries=3, null_ids=600, null_sets=10, set_size=100
    ),
    "small": Config(),
    "medium": Config(other_runs=32, queries=360, null_ids=16384, null_sets=1000),
    "full": Config(runs=64, other_runs=64, queries=360, epochs=40, null_ids=16384, null_sets=1000),
}
