"""Scores of the single tokens of every row, where the loss has one value per token.

Rows differ in length, so all tokens lie in one array, row after row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.ids import Ints

from ._arrays import Floats, close, floats, same


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Scores of the tokens of n rows."""

    values: Floats  # float32, the tokens of all rows, one row after the other
    starts: Ints  # int64 [n + 1], where each row begins; the last is the end

    @classmethod
    def of_rows(cls, rows: Iterable[ArrayLike]) -> "TokenScores":
        """Return the scores of rows that are given as one array each."""
        parts = [floats(row, "tokens") for row in rows]
        for place, part in enumerate(parts):
            if part.ndim != 1:
                raise ScoresError(f"tokens of row {place} must be one list [tokens], got shape {list(part.shape)}.")
        values = np.concatenate([np.empty(0, np.float32), *parts])
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)]).astype(np.int64)
        return cls(**close({"values": values, "starts": starts}))

    @classmethod
    def concat(cls, parts: Sequence["TokenScores | None"]) -> "TokenScores | None":
        """Return the tokens of several results one after the other; None where no part has any."""
        known = [part for part in parts if part is not None]
        if not known:
            return None
        if len(known) < len(parts):
            raise ScoresError(
                "some parts have scores of tokens and others have none. Compute all parts with one loss [rows, tokens]."
            )
        return cls.of_rows([part.row(place) for part in known for place in range(len(part))])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1

    def row(self, place: int) -> Floats:
        """Return the scores of one row's tokens."""
        return self.values[self.starts[place] : self.starts[place + 1]]

    def take(self, places: Sequence[int] | Ints) -> "TokenScores":
        """Return the scores of some rows."""
        return TokenScores.of_rows([self.row(int(place)) for place in places])

    def equals(self, other: "TokenScores | None") -> bool:
        """Tell whether both hold the same, NaN equal to NaN."""
        return other is not None and same(self.values, other.values) and same(self.starts, other.starts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))
