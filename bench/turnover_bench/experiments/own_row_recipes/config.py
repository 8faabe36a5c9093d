"""Sizes, and the trainings that are tried, one thing varied at a time."""

from dataclasses import dataclass, replace

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Recipe:
    """One way to train, beside the training of `own_row`.

    Attributes:
        rate: of SGD with momentum 0.9, as a multiple of the task's.
        epochs: as a multiple of the task's; with fewer rows there are as many steps.
        rows: share of the rows that is trained.
        keep: share of units that a row trains.
        full: share of the steps that train the full network, without masks.
        learned: rows whose loss in their kept subnetwork is below this have no gradient; 0: all have one.
        penalty: on what masks alone do: outputs for a blend of rows under all masks of a step must not differ.
        references: rows, beside those trained, that every step shows under the masks of its own rows.
        smoothing: share of the label that goes to all classes.
        dropout: share of the masked layers' units that ordinary dropout drops besides.
        copies: further copies of every row asked about, which both trainings have under masks of their own.
        lacking: rows most similar to every row asked about, of its label, which neither training has.
        lacking_at_random: as many rows are left out, but drawn at random.
    """

    rate: float = 1.0
    epochs: float = 1.0
    rows: float = 1.0
    keep: float = 0.5
    full: float = 0.0
    learned: float = 0.0
    penalty: float = 0.0
    references: int = 0
    smoothing: float = 0.0
    dropout: float = 0.0
    copies: int = 0
    lacking: int = 0
    lacking_at_random: bool = False


@dataclass(frozen=True)
class Task:
    """A data set and how it is trained.

    Attributes:
        title: in words.
        rows: that are trained.
        hidden: widths of the masked layers.
        rate: of SGD with momentum 0.9.
        epochs: of the base recipe.
    """

    title: str
    rows: int
    hidden: tuple[int, ...]
    rate: float
    epochs: int


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        tasks: by name: "digits", "sst2".
        left_out: share of the rows that the second training omits.
        seeds: of omitted rows, weights, masks and order.
        names: recipes that are tried; (): all.
        subsets: random halves of the rows on which plain networks are retrained, for LDS.
        subset_seeds: retrainings of each.
        queries: held-out rows whose losses these have.
    """

    tasks: dict[str, Task]
    left_out: float = 0.1
    seeds: tuple[int, ...] = (0, 1)
    names: tuple[str, ...] = ()
    subsets: int = 40
    subset_seeds: int = 2
    queries: int = 100


_DIGITS = Task("Handwritten digits", 1_300, (512, 512), 0.1, 25)
_SST2 = Task("SST-2, features of MiniLM", 5_000, (512,), 0.04, 6)
_TASKS = {"digits": _DIGITS, "sst2": _SST2}
SIZES = {
    "toy": Config(
        {"digits": Task("Handwritten digits", 120, (32,), 0.1, 3)},
        seeds=(0,),
        names=("base", "a fifth of the rate", "1 copy", "no similar rows", "as many fewer", "full steps 0.5"),
        subsets=4,
        queries=5,
    ),
    "small": Config(_TASKS),
    "medium": Config({**_TASKS, "sst2": replace(_SST2, rows=20_000)}, seeds=tuple(range(5))),
    # The paper has no such measurement, so no setting either.
    "full": Config({**_TASKS, "sst2": replace(_SST2, rows=67_349)}, seeds=tuple(range(10))),
}
NEEDS = {"medium": Needs(disk=0.2, memory=4, hours=1.2)}

BASE = Recipe()
CAUSES = {
    "a fifth of the rate": replace(BASE, rate=0.2),
    "a third of the epochs": replace(BASE, epochs=1 / 3),
    "3 times the epochs": replace(BASE, epochs=3.0),
    "an eighth of the rows": replace(BASE, rows=0.125),
    "half of the rows": replace(BASE, rows=0.5),
    "1 copy": replace(BASE, copies=1),
    "5 copies": replace(BASE, copies=5),
    "no similar rows": replace(BASE, lacking=5),
    "as many fewer": replace(BASE, lacking=5, lacking_at_random=True),
}
CURES = {
    "keep 0.7": replace(BASE, keep=0.7),
    "keep 0.9": replace(BASE, keep=0.9),
    "full steps 0.1": replace(BASE, full=0.1),
    "full steps 0.3": replace(BASE, full=0.3),
    "full steps 0.5": replace(BASE, full=0.5),
    "full steps 0.7": replace(BASE, full=0.7),
    "learned rows rest": replace(BASE, learned=0.5),
    "references": replace(BASE, references=100),
    "penalty": replace(BASE, penalty=1.0),
    "label smoothing 0.1": replace(BASE, smoothing=0.1),
    "label smoothing 0.3": replace(BASE, smoothing=0.3),
    "dropout 0.5": replace(BASE, dropout=0.5),
    "dropout 0.5, label smoothing 0.3": replace(BASE, dropout=0.5, smoothing=0.3),
    "dropout 0.5, label smoothing 0.3, half of the epochs": replace(BASE, dropout=0.5, smoothing=0.3, epochs=0.5),
    "label smoothing 0.2, full steps 0.3": replace(BASE, smoothing=0.2, full=0.3),
    "label smoothing 0.1, full steps 0.1, references": replace(BASE, smoothing=0.1, full=0.1, references=100),
}
TITLES = {
    "base": "as in own_row",
    "1 copy": "a copy of each of the rows, under another mask",
    "5 copies": "5 copies of each of the rows, under other masks",
    "no similar rows": "without the 5 rows most similar to each",
    "as many fewer": "without as many rows at random",
    **{
        f"full steps {share}": f"{float(share):.0%} of the steps without masks"
        for share in ("0.1", "0.3", "0.5", "0.7")
    },
    "learned rows rest": "no gradient for rows of a loss below 0.5",
    "references": "100 other rows per step, under the masks of its rows",
    "penalty": "a penalty on what masks alone do",
    "dropout 0.5": "ordinary dropout 0.5 in addition to the masks",
    "label smoothing 0.2, full steps 0.3": "label smoothing 0.2, 30% of steps without masks",
    "label smoothing 0.1, full steps 0.1, references": "label smoothing 0.1, 10% of steps without masks, other rows",
}
RECIPES = {"base": BASE, **CAUSES, **CURES}
LDS = ("lds", "lds_recommended")
"""Of scores by the original and by the recommended estimator."""
