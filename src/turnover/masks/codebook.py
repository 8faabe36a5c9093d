"""Hash-composed masks (paper, appendix): the AND of a few primitive masks of a small codebook.

The codebook has `rows` primitive masks in `picks` equal shelves; hash function j of a site picks
one row of shelf j for an instance, so the picked rows always differ and the AND is one with
probability keep if the primitive masks are one with probability keep ** (1 / picks). (The paper
prints 1 - p ** (1 / k), which would give another rate; see docs/method.md.) All sites share the
codebook under hash functions of their own. Memory is rows * width bits for the widest site and each
keep rate; nothing is saved, the codebook is a function of the seed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from turnover.errors import MaskError

from ._hashing import COUNTER_STRIDE, biased_words, id_words, instance_keys, key_tensor, signed, stream_words
from .bits import DIGITS, numerator_of, words_for
from .source import Stream, check_count, check_seed


@dataclass(frozen=True)
class Codebook:
    """Masks composed of a few rows of a shared codebook.

    Example:
        >>> source = Codebook(seed=0, rows=64, picks=2)
        >>> words = source.words(torch.tensor([3, 300]), [Stream("fc1", width=100)])
        >>> words[0].shape
        torch.Size([2, 4])
    """

    kind: ClassVar[str] = "codebook"
    seed: int = 0
    rows: int = 4096
    picks: int = 4

    def __post_init__(self) -> None:
        """Reject a seed or a codebook that cannot be."""
        check_seed(self.seed)
        check_count("picks", self.picks, 1)
        check_count("rows", self.rows, self.picks)
        if self.rows % self.picks or self.rows >= 2**31:
            fitting = min(self.rows, 2**31 - 1) // self.picks * self.picks
            raise MaskError(
                f"rows must be a multiple of picks={self.picks} below 2**31, got {self.rows}. Give rows={fitting}."
            )

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed words for each stream; see `MaskSource.words`."""
        low, high = id_words(ids)
        size = max((words_for(stream.width) for stream in streams), default=0)
        results: list[Tensor] = []
        for stream in streams:
            book = _book(self, _primitive_keep(stream.keep, self.picks), size, ids.device)
            picked = self._picked_rows(low, high, stream.site)
            words = book[picked[:, 0], : words_for(stream.width)]
            for pick in range(1, self.picks):
                words = words & book[picked[:, pick], : words_for(stream.width)]
            results.append(words)
        return results

    def _picked_rows(self, low: Tensor, high: Tensor, site: str) -> Tensor:
        """Return the rows [ids, picks] that a site's hash functions pick."""
        counters, shelves = _shelves(self.rows, self.picks, low.device)
        first, second = instance_keys(low, high, key_tensor(low.device, self.kind, self.seed, site))
        hashed = stream_words(first.unsqueeze(1), second.unsqueeze(1), counters)
        # 31 bits modulo the shelf: off from uniform by less than shelf / 2**31.
        return ((hashed & 0x7FFFFFFF) % (self.rows // self.picks) + shelves).long()

    def options(self) -> dict[str, int]:
        """Return the shape of the codebook: the bits depend on it."""
        return {"rows": self.rows, "picks": self.picks}

    def notes(self, keep: float) -> list[str]:
        """Return the theoretical rates of collision and correlation."""
        return [
            f"codebook of {self.rows:,} rows, {self.picks} picked: two ids share a mask with "
            f"probability {_collision_rate(self.rows, self.picks):.3g} per site, and their bits "
            f"correlate by {_mean_correlation(keep, self.rows, self.picks):.3g} on average."
        ]


@lru_cache(maxsize=256)
def _primitive_keep(keep: float, picks: int) -> float:
    """Return the rate of ones in a primitive mask: the AND of `picks` of them has the rate `keep`.

    It is the multiple of 2**-24 nearest to the root of the rounded `keep`, found in integers: `**`
    on floats may differ from one C library to the next. Twice the root in units of 2**-24 is
    never an odd number, so there are no ties.
    """
    power = numerator_of(keep) << (DIGITS * (picks - 1) + picks)
    below_one = range(1, 2**DIGITS - 1)
    numerator = 1 + bisect_left(below_one, power, key=lambda n: (2 * n + 1) ** picks)
    return numerator / 2**DIGITS


def _collision_rate(rows: int, picks: int) -> float:
    """Return the probability that two ids pick the same rows at one site."""
    return (picks / rows) ** picks


def _mean_correlation(keep: float, rows: int, picks: int) -> float:
    """Return the expected correlation of the bits of two ids.

    Two ids that share s rows are both one with probability q ** (2 * picks - s), where q is the
    primitive rate; s is binomial with `picks` trials of probability picks / rows.
    """
    q = _primitive_keep(keep, picks)
    rate = q**picks
    both = rate * rate * (1 + (picks / rows) * (1 / q - 1)) ** picks
    return (both - rate * rate) / (rate * (1 - rate))


@lru_cache(maxsize=8)
def _book(source: Codebook, keep: float, size: int, device: torch.device) -> Tensor:
    """Return the codebook [rows, words]: the shelves one after the other."""
    with torch.inference_mode(False):
        low, high = id_words(torch.arange(source.rows, device=device).unsqueeze(1))
        first, second = instance_keys(low, high, key_tensor(device, source.kind, source.seed))
        word = torch.arange(size, dtype=torch.int32, device=device)
        return biased_words(keep, first, second, word * signed(DIGITS * COUNTER_STRIDE))


@lru_cache(maxsize=8)
def _shelves(rows: int, picks: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return counter and first row [picks] of the hash functions of every site."""
    with torch.inference_mode(False):
        pick = torch.arange(picks, dtype=torch.int32, device=device)
        return pick * COUNTER_STRIDE, pick * (rows // picks)
