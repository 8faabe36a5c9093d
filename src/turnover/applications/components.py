"""Which of many things hang together, given pairs of them in any order."""

import numpy as np
from numpy.typing import NDArray


class Components:
    """Connected parts of n things; pairs are added in bulk and never kept.

    Example:
        >>> parts = Components(5)
        >>> parts.join(np.array([0, 3]), np.array([4, 4]))
        >>> parts.of_each
        array([0, 1, 2, 0, 0])
    """

    def __init__(self, count: int) -> None:
        self._least = np.arange(count)

    def join(self, one: NDArray[np.integer], other: NDArray[np.integer]) -> None:
        """Join pairs."""
        while True:
            a, b = self.of_each[one], self._least[other]
            apart = a != b
            if not apart.any():
                return
            one, other, a, b = one[apart], other[apart], a[apart], b[apart]
            np.minimum.at(self._least, np.maximum(a, b), np.minimum(a, b))

    @property
    def of_each(self) -> NDArray[np.int64]:
        """Return the least member of each one's part."""
        while True:
            further = self._least[self._least]
            if np.array_equal(further, self._least):
                return self._least
            self._least = further
