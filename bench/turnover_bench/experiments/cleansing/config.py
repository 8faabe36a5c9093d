"""Settings of the measurement."""

from dataclasses import dataclass
from typing import Literal

from turnover_bench.experiments.runner import Needs

Estimate = Literal["tod", "replicas", "recommended"]


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        rows: of SST-2 that are trained.
        reviews: of electronics, as many of both labels; None: all 2,000.
        validation: reviews on which mean influence is taken; the others test.
        dev_rows: of SST-2's dev rows, which choose rate and epochs; None: all 872.
        encoder: None: features of a frozen MiniLM and a hidden layer; "minilm", a folder or a name on the hub: that
            encoder, with masked adapters for the estimate and fine-tuned as a whole for retraining.
        longest: tokens of a text that are read.
        hidden: units of the hidden layer.
        rates: of AdamW, for retraining; one is chosen on dev rows of SST-2.
        masked_rates: the same for trainings with masks.
        epochs: for retraining; chosen with the rate.
        masked_epochs: the same for trainings with masks.
        batch_size: of every training.
        estimates: "tod": the original estimator, one model; "replicas": several in one training; "recommended":
            `turnover.Influence(model, train=rows)` without options, on the same replicas.
        asked: of the validation reviews, those on which "tod" takes mean influence, as many of both labels; None: all.
        bfloat16: "tod" scores under autocast, for a processor that has such products.
        replicas: how many.
        scored_blocks: of an encoder with adapters, the top blocks whose masks score replicas, beside those before the
            output layer; None: all. What lies below runs once per review, not once per review and row.
        shares: of the rows that are removed.
        shown: the share of the paper.
        seeds: each has its own split of the reviews, masks, parameters and batches.
    """

    rows: int = 5_000
    reviews: int | None = None
    validation: int = 200
    dev_rows: int | None = None
    encoder: str | None = None
    longest: int = 128
    hidden: int = 256
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    masked_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    epochs: tuple[int, ...] = (3, 6)
    masked_epochs: tuple[int, ...] = (3, 6)
    batch_size: int = 100
    estimates: tuple[Estimate, ...] = ("tod", "replicas", "recommended")
    asked: int | None = None
    bfloat16: bool = False
    replicas: int = 8
    scored_blocks: int | None = None
    shares: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1)
    shown: float = 0.01
    seeds: tuple[int, ...] = tuple(range(8))


SIZES = {
    "toy": Config(
        rows=100,
        reviews=60,
        validation=16,
        dev_rows=16,
        longest=16,
        hidden=16,
        rates=(1e-3, 3e-3),
        masked_rates=(3e-3,),
        epochs=(2,),
        masked_epochs=(2,),
        batch_size=20,
        replicas=2,
        shares=(0.02, 0.1),
        shown=0.1,
        seeds=(0, 1),
    ),
    "small": Config(),
    # Adapters, as in the paper. Rows are few: each replica is a pass of the whole encoder. By all masks, a review takes
    # 20 seconds; eight replicas would take eight times as long.
    "medium": Config(
        rows=2_000,
        encoder="minilm",
        longest=64,
        asked=24,
        bfloat16=True,
        scored_blocks=0,
        rates=(1e-4,),
        masked_rates=(2e-3,),
        epochs=(3,),
        masked_epochs=(3,),
        batch_size=32,
        shares=(0.01,),
        seeds=tuple(range(5)),
    ),
    # The paper's networks and trainings.
    "full": Config(
        rows=67_349,
        encoder="bert-base-cased",
        rates=(5e-5, 2e-5),
        masked_rates=(5e-5,),
        epochs=(3, 6, 10),
        masked_epochs=(10,),
        batch_size=32,
        estimates=("tod",),
        shares=(0.01,),
        seeds=tuple(range(4)),
    ),
}

NEEDS = {
    "medium": Needs(disk=1, memory=8, hours=3),
    "full": Needs(disk=10, memory=24, hours=3000),
}
