"""Scores of the single tokens of every row, where the loss has one value a token.

Rows differ in length, so all tokens lie in one array, row after row. In a folder of scores they are a file of their
own, beside the store: rows of different length are no tiles.
"""

import copy
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError, StoreDamagedError

from .arrays import Floats, Ints, close, floats, same
from .judged import Judged

FILE = "tokens.npz"


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Scores of the tokens of n rows.

    Attributes:
        values: float32, the tokens of all rows, one row after the other.
        starts: int64 [n + 1], where each row begins; the last is the end.
    """

    values: Floats
    starts: Ints

    @classmethod
    def of_rows(cls, rows: Iterable[ArrayLike]) -> "TokenScores":
        """Return the scores of rows that are given as one array each.

        Example:
            >>> TokenScores.of_rows([[0.5, 1.0], [2.0]]).row(1)
            array([2.], dtype=float32)
        """
        parts = [floats(row, "tokens") for row in rows]
        for place, part in enumerate(parts):
            if part.ndim != 1:
                raise ScoresError(f"tokens of row {place} have shape {list(part.shape)}; give one list [tokens] a row.")
        values = np.concatenate([np.empty(0, np.float32), *parts])
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)]).astype(np.int64)
        return cls(**close({"values": values, "starts": starts}))

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


class WithTokens(Judged):
    """Scores [rows] that may have those of single tokens too; see `Scores`."""

    _tokens: TokenScores | None = None

    def tokens(self, row: int) -> Floats:
        """Return the scores of the tokens of one row, float32 [tokens]; positive: the row's training helps this token.

        They are kept by `Influence.self_influence` where the loss has one value a token, [rows, tokens]; a row's own
        score is their mean. A token that does not count (target −100) is NaN, and those behind the last that counts
        are left out.

        Args:
            row: place of the row in `ids` and `values`, from 0.

        Raises:
            ScoresError: scores of tokens were not kept, or there is no such row.

        Example:
            >>> from turnover.scores import Scores
            >>> Scores([1.5, 4.0], ids=[7, 8]).with_tokens([[1.0, 2.0], [4.0]]).tokens(0)
            array([1., 2.], dtype=float32)
        """
        if self._tokens is None:
            raise ScoresError(
                "these scores have none of single tokens. Influence.self_influence keeps them where the loss, or any "
                "measure, has one value a token: targets [rows, tokens], or loss(outputs, targets) -> [rows, tokens]."
            )
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < len(self):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScoresError(f"row {row!r} is not there; give its place among the {len(self)} rows, from 0.")
        return self._tokens.row(int(row))

    def with_tokens(self, tokens: TokenScores | Iterable[ArrayLike]) -> Self:
        """Return the same scores with those of single tokens, which `tokens` hands out row by row.

        Args:
            tokens: one array a row, of any length.

        Raises:
            ScoresError: there are not as many as rows, or scores are of queries.

        Example:
            >>> from turnover.scores import Scores
            >>> len(Scores([1.5, 4.0], ids=[7, 8]).with_tokens([[1.0, 2.0], [4.0]]).tokens(1))
            1
        """
        kept = tokens if isinstance(tokens, TokenScores) else TokenScores.of_rows(tokens)
        if self._queries is not None or len(kept) != len(self):
            raise ScoresError(
                f"tokens of {len(kept)} rows for scores of shape {list(self.shape)}; give one array for every row of "
                "scores [rows]."
            )
        scores = copy.copy(self)
        scores._tokens = kept
        return scores

    def equals(self, other: object) -> bool:
        """Tell whether values and all that is known about them are the same in both, NaN equal to NaN.

        Example:
            >>> from turnover.scores import Scores
            >>> Scores([1.0], ids=[7]).equals(Scores([1.0], ids=[8]))
            False
        """
        if not super().equals(other) or not isinstance(other, WithTokens):
            return False
        return other._tokens is None if self._tokens is None else self._tokens.equals(other._tokens)


def joined_tokens(parts: Sequence[TokenScores | None]) -> TokenScores | None:
    """Return the tokens of several results one after the other; None where no part has any."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) < len(parts):
        raise ScoresError(
            "some parts have scores of tokens and others have none. Compute all parts with one loss [rows, tokens]."
        )
    return TokenScores.of_rows([part.row(place) for part in known for place in range(len(part))])


def save_tokens(tokens: TokenScores, folder: str | os.PathLike[str]) -> None:
    """Write the tokens beside the scores in a folder, whole or not at all."""
    unfinished = Path(folder) / f".{FILE}.part"
    with unfinished.open("wb") as file:
        np.savez(file, values=tokens.values, starts=tokens.starts)
    unfinished.replace(Path(folder) / FILE)


def open_tokens(folder: str | os.PathLike[str], rows: int) -> TokenScores | None:
    """Return the tokens in a folder of scores; None where there are none."""
    path = Path(folder) / FILE
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            found = close({"values": file["values"], "starts": file["starts"]})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StoreDamagedError(f"{str(path)!r} is damaged ({error}). Save the scores to another folder.") from error
    tokens = TokenScores(**found)
    if len(tokens) != rows:
        raise StoreDamagedError(f"{str(path)!r} has the tokens of {len(tokens)} rows, but there are {rows} scores.")
    return tokens
