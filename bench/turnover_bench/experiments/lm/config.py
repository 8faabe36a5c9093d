"""Settings of the measurement."""

from dataclasses import dataclass

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Network:
    """The feed-forward language model and its training.

    Attributes:
        context: words that it sees.
        size: of the embedding and of the hidden layer.
        dropout: ordinary dropout.
        weight_decay: of plain gradient descent.
        batch: positions of a step.
        epochs: passes over the text.
        rates: at the start; where there are several, the one with the best validation perplexity is taken.
        trial_epochs: of the trainings that choose the rate.
        decay: what the rate is multiplied by after an epoch that did not improve validation perplexity; None: it falls
            in a straight line over all steps, to 0, for trainings too short for such epochs.
        bfloat16: products of the linear layers have this precision in training: 2.5 times as fast on a processor that
            has them, 3 times as slow on one that lacks them.
    """

    context: int = 4
    size: int = 650
    dropout: float = 0.3
    weight_decay: float = 1e-5
    batch: int = 512
    epochs: int = 40
    rates: tuple[float, ...] = (20.0,)
    trial_epochs: int = 2
    decay: float | None = 0.25
    bfloat16: bool = False


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        network: the model and its training.
        tokens: of training text, around the paper's passage; None: all.
        held_out: tokens of validation and of test text; None: all.
        models: with masks, over which self-influence is averaged.
        scored: training positions around the passage that have scores; None: all, as `shares` need.
        shares: of the positions, those of the highest self-influence, that are removed or weighted down; none: the
            paper's open question is not asked.
        weight: of these positions where they are weighted down.
        seeds: of the trainings without masks that compare what is removed.
        shown: words of the passage that is colored.
        draws: of the bootstrap.
    """

    network: Network = Network()
    tokens: int | None = None
    held_out: int | None = None
    models: int = 10
    scored: int | None = None
    shares: tuple[float, ...] = (0.1,)
    weight: float = 0.5
    seeds: tuple[int, ...] = (0, 1, 2)
    shown: int = 260
    draws: int = 500


SIZES = {
    "toy": Config(
        network=Network(size=16, batch=64, epochs=2, rates=(1.0, 2.0)),
        tokens=2_000,
        held_out=400,
        models=2,
        seeds=(0, 1),
        shown=60,
        draws=20,
    ),
    "small": Config(
        network=Network(size=64, batch=64, epochs=7, rates=(1.0, 2.0)),
        tokens=16_000,
        held_out=8_000,
        models=6,
    ),
    # All of the text with all of its words, so that perplexity can be compared with the paper's: one model with masks
    # and one without, of less width and fewer epochs.
    "medium": Config(
        network=Network(size=256, epochs=6, rates=(4.0,), decay=None, bfloat16=True),
        models=1,
        scored=200_000,
        shares=(),
        seeds=(0,),
    ),
    # 25 trainings, by their arithmetic of about a hundred hours each on two cores; a GPU is used where there is one.
    "full": Config(shares=(0.1,)),
}
NEEDS = {"medium": Needs(disk=2, memory=6, hours=2), "full": Needs(disk=2, memory=16, hours=2_500)}
