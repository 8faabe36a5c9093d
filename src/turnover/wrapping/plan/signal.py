"""How much of one pair's score to expect to be signal: a rule of thumb, against a task that was measured.

At a fixed number of rows noise falls as one over the root of width times replicas, and what one row does falls with the
number of rows. The reference is the digits network: 1,437 rows, two masked layers of 512 units, one replica.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ROWS = 1437
WIDTH = 512
REFERENCE = 0.45
"""Signal divided by noise of one pair in the reference task; docs/results/laws.md."""


@dataclass(frozen=True)
class ExpectedSignal:
    """What to expect of one pair.

    Attributes:
        rows: training rows.
        width: units of the narrowest site.
        replicas: masked parts.
        ratio: signal divided by noise, as a share of that of the reference task.
    """

    rows: int
    width: int
    replicas: int
    ratio: float

    @property
    def signal_to_noise(self) -> float:
        """Return signal divided by noise."""
        return self.ratio * REFERENCE

    def __str__(self) -> str:
        """Return what it means, and what raises it."""
        return (
            f"n={self.rows:,}: signal / noise of one pair about {self.signal_to_noise:.2g}, {self.ratio:.2g} times "
            f"that of digits ({ROWS:,} rows, sites of {WIDTH}, one replica: {REFERENCE}); a rule of thumb, "
            f"√(width × replicas) / n with width {self.width:,}. Raise it by replicas=, wider sites, denoise='ridge' "
            "or means over many queries; Scores.noise measures it"
        )


def expected_signal(n: int, widths: Sequence[int | None], replicas: int) -> ExpectedSignal | str:
    """Return what to expect, or why it cannot be said."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        return f"n={n!r} is no number of training rows. Give an integer: n=10_000."
    known = [width for width in widths if width is not None]
    if len(known) < len(widths) or not known:
        return f"n={n:,}: the widths of the sites are not known yet; give an example: plan(..., example=x, n={n})."
    width = min(known)
    ratio = math.sqrt(width * replicas / WIDTH) * ROWS / n
    return ExpectedSignal(n, width, replicas, ratio)
