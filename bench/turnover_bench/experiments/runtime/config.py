"""Settings of the measurement."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from turnover_bench.experiments.runner import Needs

ALONE = True
"""Seconds are the result: nothing else should run beside."""


@dataclass(frozen=True)
class Recursion:
    """How influence functions invert the Hessian: r repeats of t steps over batches of b rows.

    Attributes:
        steps: rt, as a share of the instances.
        batch: b.
    """

    steps: float
    batch: int

    def batches(self, instances: int, draw: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield the rows of every step for so many instances, at random."""
        for _ in range(max(1, round(self.steps * instances))):
            yield torch.randint(instances, (self.batch,), generator=draw)


RECURSIONS = {"han2020": Recursion(0.25, 8), "table1": Recursion(1.0, 8), "table1_single": Recursion(1.0, 1)}
"""By name: what Han et al. 2020 ran, whose ten minutes the paper compares with, and what the paper's Table 1 says."""

HEADLINE = "han2020"


@dataclass(frozen=True)
class Config:
    """What is measured, and on how large a part.

    Attributes:
        model: name of an encoder on the hub, or its folder; None: MiniLM.
        blocks: of a tiny untrained encoder with MiniLM's words; None: the model above.
        adapter: units of each adapter.
        instances: of MNLI that are scored on one target.
        growth: numbers of instances for which seconds are told.
        trained: rows on which the model is trained first; seconds do not depend on it.
        rate: of this training, at its start.
        rounds: in which all methods take turns; the smallest seconds of each count.
        koh_rows: whose gradients are timed, in a round.
        koh_steps: of the recursion that are timed, in a round.
        check: instances for which influence functions run from end to end, to check the extrapolation.
        loop_batch: repeated inputs of a batch of the authors' loop.
        loop_batches: of these that are timed, in a round.
        engine: instances for which the engine is timed where it runs blocks for each instance.
        engine_last: numbers of instances for which it is timed where only the output layer is masked.
        top: numbers of top blocks whose masks are used alone.
        peer: numbers of rows with which kronfluence is timed; (): it is not.
        seed: of the model and of the rows that are timed.
    """

    model: str | None = None
    blocks: int | None = None
    adapter: int = 64
    instances: int = 10_000
    growth: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    trained: int = 640
    rate: float = 2e-3
    rounds: int = 2
    koh_rows: int = 24
    koh_steps: int = 6
    check: int = 32
    loop_batch: int = 100
    loop_batches: int = 2
    engine: int = 1_200
    engine_last: tuple[int, ...] = (1_000, 10_000, 100_000)
    top: tuple[int, ...] = (3, 1, 0)
    peer: tuple[int, ...] = (16, 64)
    seed: int = 0


SIZES = {
    "toy": Config(
        blocks=2,
        adapter=4,
        instances=60,
        growth=(20, 60, 200),
        trained=32,
        rounds=1,
        koh_rows=4,
        koh_steps=2,
        check=8,
        loop_batch=10,
        loop_batches=1,
        engine=40,
        engine_last=(20, 2_000),
        top=(1, 0),
        peer=(8,),
    ),
    "small": Config(),
    "medium": Config(
        trained=10_000,
        rounds=4,  # short ones: what is finished is kept
        koh_rows=150,
        koh_steps=36,
        check=512,
        loop_batches=5,
        engine=2_500,
        top=(5, 4, 3, 2, 1, 0),
        peer=(200, 600),
    ),
    "full": Config(
        model="bert-base-cased",
        trained=10_000,
        rounds=1,
        koh_rows=10_000,
        koh_steps=2_500,
        check=512,
        loop_batches=100,
        engine=10_000,
        top=(11, 9, 6, 3, 1, 0),
        peer=(1_000, 10_000),
    ),
}
NEEDS = {"medium": Needs(disk=1, memory=6, hours=0.8), "full": Needs(disk=4, memory=12, hours=60)}
