"""Sequences of a million short things in a few blocks of memory, in place of as many Python objects."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np

_AT_ONCE = 16_384


class PackedTexts(Sequence[str]):
    """Texts in one block of bytes; each becomes a string when it is asked for, a slice a list of strings.

    Example:
        >>> texts = PackedTexts(["one", "", "drei Äpfel"])
        >>> texts[2], texts[:2], len(texts)
        ('drei Äpfel', ['one', ''], 3)
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        content, lengths = bytearray(), []
        for text in texts:
            encoded = text.encode("utf-8", "surrogatepass")  # texts of unknown encoding may hold halves of signs
            content += encoded
            lengths.append(len(encoded))
        self._content = bytes(content)
        self._ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))])

    @classmethod
    def of(cls, texts: Iterable[str]) -> "PackedTexts":
        """Return texts packed; what is packed already stays as it is."""
        return texts if isinstance(texts, PackedTexts) else cls(texts)

    @classmethod
    def joined(cls, parts: "Sequence[PackedTexts]") -> "PackedTexts":
        """Return the texts of all parts, one part after the other."""
        whole = cls()
        whole._content = b"".join(part._content for part in parts)
        lengths = np.concatenate([part.lengths for part in parts])
        whole._ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return whole

    @property
    def lengths(self) -> np.ndarray:
        """Return the length of each text, in bytes."""
        return np.diff(self._ends)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: Any) -> Any:
        """Return the text at a place, or those of a slice."""
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = int(place)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no text {place}: there are {len(self):,}.")
        place %= len(self)
        return self._content[self._ends[place] : self._ends[place + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        """Yield all texts."""
        for start in range(0, len(self), _AT_ONCE):
            ends = self._ends[start : start + _AT_ONCE + 1].tolist()
            for one, other in pairwise(ends):
                yield self._content[one:other].decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same texts."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class PackedNumbers(Sequence[int | None]):
    """Numbers from 0 on in one array, None among them."""

    def __init__(self, numbers: np.ndarray) -> None:
        """Take int64 numbers; −1 stands for None."""
        self._numbers = numbers

    @classmethod
    def of(cls, numbers: Iterable[Any]) -> "PackedNumbers":
        """Return numbers, or None, packed; what is packed already stays as it is."""
        if isinstance(numbers, PackedNumbers):
            return numbers
        return cls(np.fromiter((-1 if number is None else number for number in numbers), np.int64))

    @classmethod
    def joined(cls, parts: "Sequence[PackedNumbers]") -> "PackedNumbers":
        """Return the numbers of all parts, one part after the other."""
        return cls(np.concatenate([part._numbers for part in parts]))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> int | None: ...
    @overload
    def __getitem__(self, place: slice) -> list[int | None]: ...
    def __getitem__(self, place: Any) -> Any:
        """Return the number at a place, or those of a slice."""
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        number = int(self._numbers[place])
        return None if number < 0 else number

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same numbers."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]
