"""Mask words that are asked for again and again: those of the same instances, for one query after the other."""

import threading
from collections import OrderedDict

import torch
from torch import Tensor

from turnover.layers import Instances, Site
from turnover.masks import words_for

_MOST_BYTES = 64 * 2**20


class KeptWords:
    """Packed mask words of the last askings, as many as fit into some memory.

    A word depends on nothing but the masks' recipe and the id, so what is kept stays right. Hashing takes longer than
    the product of one query with all masks; where questions come one at a time, it would be most of the work.

    Args:
        most_bytes: how much is kept.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def words(self, site: Site, device: torch.device, width: int, ids: Tensor) -> Tensor:
        """Return the words [ids, words] of a site with so many units."""
        key = (site.masking.handle, site.index, device, width, ids.cpu().numpy().tobytes())
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        words = Instances(ids, "keep").words(site, device, width)[:, : words_for(width)].contiguous()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = words
                self._bytes += _size(key, words)
            while self._bytes > self._most_bytes:
                self._bytes -= _size(*self._kept.popitem(last=False))
        return words


KEPT = KeptWords()
"""One for all: handles of masks are never given out twice in a process."""


def _size(key: tuple[object, ...], words: Tensor) -> int:
    ids = key[-1]
    return words.numel() * words.element_size() + (len(ids) if isinstance(ids, bytes) else 0)
