"""Products of masks with a few columns, a byte of eight units at a time.

The sum over the kept units of a byte can have 256 values. These are put into a table once; then a mask of 512 units is
64 look-ups, and no bit is ever unpacked. For one query that is several times faster than a matrix product with masks
that are made first, and slower from some dozens of columns on.
"""

import torch
from torch import Tensor
from torch.nn import functional

from turnover.masks import WORD_BITS

MOST_COLUMNS = 16
_BYTE = 8
_VALUES = 1 << _BYTE


def fits(columns: Tensor) -> bool:
    """Tell whether columns [units, columns] are few enough, and of a kind that can be looked up fast."""
    return columns.shape[1] <= MOST_COLUMNS and columns.dtype == torch.float32 and columns.device.type == "cpu"


class ByteSums:
    """Columns, ready to be multiplied with any masks.

    Args:
        columns: [units, columns].
        scale: what a kept unit is multiplied by.

    Example:
        >>> sums = ByteSums(torch.tensor([[1.0], [10.0], [100.0]]), scale=2.0)
        >>> sums(torch.tensor([[0b101], [0b010]], dtype=torch.int32)).tolist()
        [[202.0], [20.0]]
    """

    def __init__(self, columns: Tensor, *, scale: float) -> None:
        units, count = columns.shape
        # Bits above the width are undefined; they count for nothing.
        whole = functional.pad(columns, (0, 0, 0, -units % WORD_BITS)).view(-1, _BYTE, count)
        bits = (torch.arange(_VALUES).unsqueeze(1) >> torch.arange(_BYTE)) & 1
        self._table = torch.matmul(bits.to(columns.dtype) * scale, whole).view(-1, count)
        self._starts = _VALUES * torch.arange(len(whole), dtype=torch.int32)
        self._shifts = torch.arange(0, WORD_BITS, _BYTE, dtype=torch.int32)

    def __call__(self, words: Tensor) -> Tensor:
        """Return the product [rows, columns] of masks, as packed int32 words [rows, words], with the columns."""
        values = (words.unsqueeze(-1) >> self._shifts).bitwise_and_(_VALUES - 1).view(len(words), -1)
        return functional.embedding_bag(values.add_(self._starts), self._table, mode="sum")
