"""Volatile masks (paper, section 3.3): a whole block of instances is regenerated, then indexed.

The paper draws the masks of the whole data set anew at every layer and picks the rows of the batch.
Here the instances are cut into blocks, so the temporary memory is that of one block for one site,
whatever the size of the data set: block * ceil(width / 32) words of 4 bytes, about five times over
while they are hashed (1,024 instances of 768 units: 0.5 MB). The price is work: every block that
the batch touches is generated in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from turnover.errors import MaskError

from ._hashing import COUNTER_STRIDE, biased_words, id_words, instance_keys, key_tensor, signed
from .bits import DIGITS, words_for
from .source import Stream, check_count, check_seed


@dataclass(frozen=True)
class Volatile:
    """Masks by regenerating blocks of instances.

    Example:
        >>> source = Volatile(seed=0, block=256)
        >>> words = source.words(torch.tensor([3, 300]), [Stream("fc1", width=100)])
        >>> words[0].shape
        torch.Size([2, 4])
    """

    kind: ClassVar[str] = "volatile"
    seed: int = 0
    block: int = 1024

    def __post_init__(self) -> None:
        """Reject a seed or block size that cannot be."""
        check_seed(self.seed)
        check_count("block", self.block, 1)

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed words for each stream; see `MaskSource.words`."""
        for stream in streams:
            self._check_room(stream)
        rows, block_of = ids % self.block, ids // self.block
        low, high = id_words(block_of)
        members = _by_block(block_of)
        results: list[Tensor] = []
        for stream in streams:
            words = rows.new_empty((len(ids), words_for(stream.width)), dtype=torch.int32)
            for places in members:
                whole = self._block(low[places[0]], high[places[0]], stream)
                words[places] = whole[rows[places]]
            results.append(words)
        return results

    def _check_room(self, stream: Stream) -> None:
        if words_for(stream.width) * DIGITS * self.block >= 2**32:
            raise MaskError(
                f"site {stream.site!r} has {stream.width} units, too many for volatile masks with "
                f"block={self.block}: a block's stream has 2**32 words. Use a smaller block, or "
                "masks='counter'."
            )

    def _block(self, low: Tensor, high: Tensor, stream: Stream) -> Tensor:
        """Return the words [block, words] of all instances of one block."""
        keys = key_tensor(low.device, self.kind, self.seed, stream.site)
        first, second = instance_keys(low, high, keys)
        counters = _counters(words_for(stream.width), self.block, low.device)
        return biased_words(stream.keep, first, second, counters, step=self.block)

    def options(self) -> dict[str, int]:
        """Return the block size: the bits depend on it."""
        return {"block": self.block}

    def notes(self, keep: float) -> list[str]:
        """Return what a block costs."""
        return [
            f"volatile masks: {self.block:,} instances are regenerated for every block that a batch "
            f"touches; temporary memory per site about {20 * self.block / 1024:,.0f} KiB for every "
            "32 units."
        ]


def _by_block(block_of: Tensor) -> list[Tensor]:
    """Return the places in the batch that belong to each block."""
    ordered, order = torch.sort(block_of)
    starts = (ordered[1:] != ordered[:-1]).nonzero().squeeze(1) + 1
    return [part for part in order.tensor_split(starts.cpu()) if len(part)]


# Sites of one width share a table, and few widths are kept: a table is as large as a block.
@lru_cache(maxsize=8)
def _counters(size: int, block: int, device: torch.device) -> Tensor:
    """Return the counters [block, words] of the first digit."""
    with torch.inference_mode(False):
        word = torch.arange(size, dtype=torch.int32, device=device) * signed(DIGITS * block)
        row = torch.arange(block, dtype=torch.int32, device=device)
        return (word + row.unsqueeze(1)) * COUNTER_STRIDE
