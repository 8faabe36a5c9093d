"""How long the stages of a run should take, so that progress can speak of the whole from its beginning.

Seconds are those of one core on which the constants below were measured. What they are on another one, or beside other
work, shows as stages go by: only the ratios between stages matter then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Expect = Callable[[Mapping[str, float]], None]
"""Is told the seconds that every stage, by its name in a watch, should take."""

# Products per second of a core, and seconds for a masked unit of a row, a weight in a step of AdamW, a byte of text.
_PRODUCTS, _UNIT, _WEIGHT = 35e9, 12e-9, 3.3e-9
_STEP = 4e-4
_READ, _PIECES, _ENCODED, _COMPARED = 0.5e-6, 1.5e-6, 1.4e-4, 1.2e-6
_MOST_FITTED, _FITTED = 20_000, 3e-4  # rows of the heads in the record of a training
# What one row costs in a stage: passes through the network, masked units, and seconds for whatever else.
_PASSES = {
    "training": (2.4, 1.0, 0.0),
    "self_influence": (3.6, 1.15, 63e-6),
    "out_of_sample": (1.0, 0.47, 22e-6),
    "mean_influence": (11.4, 7.4, 111e-6),
    "findings": (3.4, 1.3, 46e-6),
}
LOOK = 0.25
"""What a look at all rows after an epoch takes, as a share of the epoch."""


def unexpected(seconds: Mapping[str, float]) -> None:
    """Take no note of what is expected."""


@dataclass(frozen=True)
class Sizes:
    """What decides how long a run takes.

    Attributes:
        rows: training rows, or positions of a text.
        products: multiplications of one forward pass of a row, over all replicas.
        units: masked units over all replicas.
        read: bytes of the table that was read; 0: it was none.
        text: bytes of all texts; 0: there are none.
        encoded: whether a pretrained encoder makes features of them.
        references: whether held-out predictions are corrected by reference examples.
    """

    rows: int
    products: float
    units: int
    epochs: int
    batch_size: int
    read: int = 0
    text: int = 0
    encoded: bool = False
    references: bool = False


def expected_seconds(sizes: Sizes) -> dict[str, float]:
    """Return how long each stage should take, in their order: reading, features, training, scores, the report."""

    def of(stage: str) -> float:
        passes, units, others = _PASSES[stage]
        return sizes.rows * (passes * sizes.products / _PRODUCTS + units * sizes.units * _UNIT + others)

    steps = -(-sizes.rows // sizes.batch_size)
    epoch = of("training") + steps * (sizes.products * _WEIGHT + _STEP)
    corrected = 2.0 if sizes.references else 1.0
    return {
        "reading": sizes.read * _READ,
        "features": sizes.text * (_ENCODED if sizes.encoded else _PIECES) + 1e-6 * sizes.rows,
        "preparing the training": min(sizes.rows, _MOST_FITTED) * _FITTED,
        "training": (1 + LOOK) * sizes.epochs * epoch,
        "self_influence": of("self_influence"),
        "out_of_sample": corrected * of("out_of_sample"),
        "mean_influence": of("mean_influence"),
        "report": of("findings") + sizes.text * _COMPARED + 1.0,
    }
