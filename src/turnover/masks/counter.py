"""Counter masks, the default: every bit is a keyed hash of (seed, site, id, unit).

Nothing is stored and nothing is generated in advance: work and memory depend on the batch alone,
for any id up to 2**63 - 1. The bits of all sites are hashed in one go, because on small batches the
number of operations is the cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from ._hashing import COUNTER_STRIDE, biased_words, id_words, instance_keys, key_words, signed
from .bits import DIGITS, words_for
from .source import MaskSource, Stream, check_seed


@dataclass(frozen=True)
class Counter:
    """Masks by hashing every word of 32 units on its own.

    Example:
        >>> words = Counter(seed=0).words(torch.tensor([3, 2**62]), [Stream("fc1", width=100)])
        >>> words[0].shape
        torch.Size([2, 4])
    """

    kind: ClassVar[str] = "counter"
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what is not a seed."""
        check_seed(self.seed)

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed words for each stream; see `MaskSource.words`."""
        return _words_of_seeds([self.seed], ids, streams)

    def options(self) -> dict[str, int]:
        """Return nothing: the seed says it all."""
        return {}

    def notes(self, keep: float) -> list[str]:
        """Return nothing: two ids never share a stream, and memory is that of the batch."""
        return []


def joint_words(sources: Sequence[MaskSource], ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
    """Return the words [sources * ids, words] of each stream, one source after the other."""
    if all(isinstance(source, Counter) for source in sources):
        return _words_of_seeds([source.seed for source in sources], ids, streams)
    by_source = [source.words(ids, streams) for source in sources]
    return [torch.cat(parts) for parts in zip(*by_source, strict=True)]


def _words_of_seeds(seeds: Sequence[int], ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
    """Return the words [seeds * ids, words] of each stream, one seed after the other, hashed in one go."""
    low, high = id_words(ids)
    results: dict[int, Tensor] = {}
    by_keep: dict[float, list[tuple[int, Stream]]] = {}
    for place, stream in enumerate(streams):
        by_keep.setdefault(stream.keep, []).append((place, stream))
    for keep, members in by_keep.items():
        layout = _layout(tuple((seed, s.site, s.width) for _, s in members for seed in seeds), ids.device)
        first, second = instance_keys(low.unsqueeze(1), high.unsqueeze(1), layout.keys)
        if len(layout.sizes) > 1:
            first, second = first[:, layout.site_of_word], second[:, layout.site_of_word]
        words = biased_words(keep, first, second, layout.counters)
        parts = words.split_with_sizes([len(seeds) * size for size in layout.sizes[:: len(seeds)]], dim=1)
        for (place, _), part in zip(members, parts, strict=True):
            results[place] = part if len(seeds) == 1 else _one_after_the_other(part, len(seeds))
    return [results[place] for place in range(len(streams))]


def _one_after_the_other(words: Tensor, seeds: int) -> Tensor:
    """Return words [ids, seeds * words] as [seeds * ids, words]."""
    return words.view(len(words), seeds, -1).transpose(0, 1).reshape(seeds * len(words), -1)


@dataclass(frozen=True)
class _Layout:
    """Where the words of several sites lie side by side, as tensors on one device."""

    keys: Tensor  # [8, sites]: key words of each site
    site_of_word: Tensor  # [words]: which site a word belongs to
    counters: Tensor  # [words]: number of the word within its site * DIGITS * COUNTER_STRIDE
    sizes: list[int]


@lru_cache(maxsize=64)
def _layout(sites: tuple[tuple[int, str, int], ...], device: torch.device) -> _Layout:
    keys = [key_words(Counter.kind, seed, site) for seed, site, _ in sites]
    sizes = [words_for(width) for _, _, width in sites]
    counters = [signed(word * DIGITS * COUNTER_STRIDE) for size in sizes for word in range(size)]
    site_of_word = [place for place, size in enumerate(sizes) for _ in range(size)]
    # The tables outlive this call: made under inference mode they could not be used in a later
    # training pass.
    with torch.inference_mode(False):
        return _Layout(
            keys=torch.tensor(keys, dtype=torch.int32, device=device).t().contiguous(),
            site_of_word=torch.tensor(site_of_word, dtype=torch.int64, device=device),
            counters=torch.tensor(counters, dtype=torch.int32, device=device),
            sizes=sizes,
        )
