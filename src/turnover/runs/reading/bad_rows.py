"""Rows that cannot be learned from: refused all at once, by name, or left out where that was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnover.errors import DataFileError

_MOST_NAMED = 5


@dataclass
class BadRows:
    """Collects bad rows while data is read.

    Attributes:
        source: what has them, for the message.
        skip: whether they are left out; else they are refused.
        noun: what a row is called.
        cure: what to do about them.
    """

    source: str
    skip: bool
    noun: str = "row"
    cure: str = "Correct or remove them"
    _found: list[str] = field(default_factory=list)

    def add(self, names: Sequence[str], problem: str, *, why: str = "") -> None:
        """Add bad rows, if any.

        Args:
            names: of the rows.
            problem: what they have or lack, to stand behind "rows".
            why: what is wrong with the first of them, if that helps.
        """
        if not names:
            return
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        counted = f"{len(names):,} {self.noun}{'' if len(names) == 1 else 's'} {problem}"
        where = f"{', '.join(names[:_MOST_NAMED])}{more}{f': {why}' if why else ''}"
        self._found.append(f"{counted} left out ({where})." if self.skip else f"{counted} ({where})")

    def notes(self) -> list[str]:
        """Return a sentence on each kind of bad rows that is left out.

        Raises:
            DataFileError: there are bad rows, and nobody said that they may be left out.

        Example:
            >>> bad = BadRows("'a.csv'", skip=True)
            >>> bad.add(["line 3"], "without a text")
            >>> bad.notes()
            ['1 row without a text left out (line 3).']
        """
        if self._found and not self.skip:
            raise DataFileError(
                f"{self.source} has {' and '.join(self._found)}. {self.cure}, or leave them out: --skip-bad"
            )
        return self._found
