"""Mask sources: what turns (seed, site, id, unit) into bits, and sources by the names in recipes."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from turnover.errors import MaskError

from .hashing import (
    COUNTER_STRIDE,
    DIGITS,
    biased_words,
    check_keep,
    id_words,
    instance_keys,
    key_tensor,
    key_words,
    numerator_of,
    signed,
    stream_words,
    words_for,
)


@dataclass(frozen=True)
class Stream:
    """The masks of one site: its key, how many units it has and which share is kept."""

    site: str
    width: int
    keep: float = 0.5

    def __post_init__(self) -> None:
        check_keep(self.keep)
        if self.width < 1:
            raise MaskError(f"the width of site {self.site!r} must be an integer >= 1, got {self.width}.")


@runtime_checkable
class MaskSource(Protocol):
    """Anything that turns (site, ids) into mask bits."""

    kind: ClassVar[str]
    """Name of the source in recipes."""

    @property
    def seed(self) -> int:
        """Seed of all bits."""
        ...

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed int32 words [len(ids), ceil(width / 32)] for each stream.

        They are on the device of `ids`. Bits of a word above the width are undefined. A unit's bit
        does not depend on the width, nor on the other streams or ids asked for in the same call.
        """
        ...

    def options(self) -> dict[str, int]:
        """Return what besides kind and seed determines the bits."""
        ...

    def notes(self, keep: float) -> list[str]:
        """Return sentences for the plan: memory, and rates of collision or correlation if any."""
        ...


def _check_integer(name: str, value: int, least: int | None = None) -> None:
    number = isinstance(value, int)  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(value, bool) or not number or (least is not None and value < least):
        raise MaskError(f"{name} must be an integer{'' if least is None else f' >= {least}'}, got {value!r}.")


@dataclass(frozen=True)
class Counter:
    """Masks by hashing every word of 32 units on its own, the default.

    Nothing is stored and nothing is generated in advance: work and memory depend on the batch alone,
    for any id up to 2**63 - 1. The bits of all sites are hashed in one go, because on small batches
    the number of operations is the cost.

    Example:
        >>> words = Counter(seed=0).words(torch.tensor([3, 2**62]), [Stream("fc1", width=100)])
        >>> words[0].shape
        torch.Size([2, 4])
    """

    kind: ClassVar[str] = "counter"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_integer("seed", self.seed)

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed words for each stream; see `MaskSource.words`."""
        return joint_words([self], ids, streams)

    def options(self) -> dict[str, int]:
        """Return nothing: the seed says it all."""
        return {}

    def notes(self, keep: float) -> list[str]:
        """Return nothing: two ids never share a stream, and memory is that of the batch."""
        return []


def joint_words(sources: Sequence[MaskSource], ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
    """Return the words [sources * ids, words] of each stream, one source after the other; counters hash in one go."""
    seeds = [source.seed for source in sources if isinstance(source, Counter)]
    if len(seeds) < len(sources):
        by_source = [source.words(ids, streams) for source in sources]
        return [torch.cat(parts) for parts in zip(*by_source, strict=True)]
    groups: dict[float, tuple[list[int], list[tuple[int, str, int]]]] = {}
    for place, stream in enumerate(streams):
        places, sites = groups.setdefault(stream.keep, ([], []))
        places.append(place)
        sites += [(seed, stream.site, stream.width) for seed in seeds]
    low, high = id_words(ids)
    results = [low] * len(streams)  # every place is filled below
    for keep, (places, sites) in groups.items():
        keys, site_of_word, counters, sizes = _layout(tuple(sites), ids.device)
        first, second = instance_keys(low.unsqueeze(1), high.unsqueeze(1), keys)
        if len(sizes) > 1:
            first, second = first[:, site_of_word], second[:, site_of_word]
        parts = biased_words(keep, first, second, counters).split_with_sizes(sizes, dim=1)
        for number, place in enumerate(places):
            own = parts[number * len(seeds) : (number + 1) * len(seeds)]
            results[place] = own[0] if len(own) == 1 else torch.cat(own)
    return results


@lru_cache(maxsize=64)
def _layout(sites: tuple[tuple[int, str, int], ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Return how the words of several sites (seed, path, width) lie side by side.

    The key words [8, sites]; for each word its site, and its number within the site * DIGITS * COUNTER_STRIDE; and how
    many words each site has.
    """
    keys, sizes, numbers = list[list[int]](), list[int](), list[int]()
    for seed, site, width in sites:
        keys.append(key_words(Counter.kind, seed, site))
        sizes.append(words_for(width))
        numbers += range(sizes[-1])
    counters = (np.array(numbers, np.uint32) * np.uint32(DIGITS * COUNTER_STRIDE % 2**32)).view(np.int32)
    site_of_word = np.repeat(np.arange(len(sizes)), sizes)
    # The tables outlive this call: made under inference mode they could not be used in a later
    # training pass.
    with torch.inference_mode(False):
        return (
            torch.tensor(keys, dtype=torch.int32, device=device).t().contiguous(),
            torch.tensor(site_of_word.tolist(), device=device),
            torch.tensor(counters.tolist(), dtype=torch.int32, device=device),
            sizes,
        )


@dataclass(frozen=True)
class Volatile:
    """Masks by regenerating blocks of instances (paper, section 3.3).

    The paper draws the masks of the whole data set anew at every layer and picks the rows of the batch.
    Here the instances are cut into blocks, so the temporary memory is that of one block for one site,
    whatever the size of the data set: block * ceil(width / 32) words of 4 bytes, about five times over
    while they are hashed (1,024 instances of 768 units: 0.5 MB). The price is work: every block that
    the batch touches is generated in full.

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
        _check_integer("seed", self.seed)
        _check_integer("block", self.block, 1)

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed words for each stream; see `MaskSource.words`."""
        for stream in streams:
            if words_for(stream.width) * DIGITS * self.block >= 2**32:
                raise MaskError(
                    f"site {stream.site!r} has {stream.width} units, too many for volatile masks with "
                    f"block={self.block}: a block's stream has 2**32 words. Use a smaller block, or "
                    "masks='counter'."
                )
        rows, block_of = ids % self.block, ids // self.block
        low, high = id_words(block_of)
        ordered, order = torch.sort(block_of)
        starts = (ordered[1:] != ordered[:-1]).nonzero().squeeze(1) + 1
        members = [places for places in order.tensor_split(starts.cpu()) if len(places)]
        results: list[Tensor] = []
        for stream in streams:
            keys = key_tensor(ids.device, self.kind, self.seed, stream.site)
            counters = _block_counters(words_for(stream.width), self.block, ids.device)
            words = rows.new_empty((len(ids), words_for(stream.width)), dtype=torch.int32)
            for places in members:
                first, second = instance_keys(low[places[0]], high[places[0]], keys)
                whole = biased_words(stream.keep, first, second, counters, step=self.block)
                words[places] = whole[rows[places]]
            results.append(words)
        return results

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


# Sites of one width share a table, and few widths are kept: a table is as large as a block.
@lru_cache(maxsize=8)
def _block_counters(size: int, block: int, device: torch.device) -> Tensor:
    """Return the counters [block, words] of the first digit."""
    with torch.inference_mode(False):
        word = torch.arange(size, dtype=torch.int32, device=device) * signed(DIGITS * block)
        row = torch.arange(block, dtype=torch.int32, device=device)
        return (word + row.unsqueeze(1)) * COUNTER_STRIDE


@dataclass(frozen=True)
class Codebook:
    """Masks composed of a few rows of a shared codebook (paper, appendix).

    The codebook has `rows` primitive masks in `picks` equal shelves; hash function j of a site picks
    one row of shelf j for an instance, so the picked rows always differ and the AND is one with
    probability keep if the primitive masks are one with probability keep ** (1 / picks). (The paper
    prints 1 - p ** (1 / k), which would give another rate; see docs/method.md.) All sites share the
    codebook under hash functions of their own. Memory is rows * width bits for the widest site and each
    keep rate; nothing is saved, the codebook is a function of the seed.

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
        _check_integer("seed", self.seed)
        _check_integer("picks", self.picks, 1)
        _check_integer("rows", self.rows, self.picks)
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
            book = _book(self, primitive_keep(stream.keep, self.picks), size, ids.device)
            picked = self.picked_rows(low, high, stream.site)
            words = book[picked[:, 0], : words_for(stream.width)]
            for place in range(1, self.picks):
                words = words & book[picked[:, place], : words_for(stream.width)]
            results.append(words)
        return results

    def picked_rows(self, low: Tensor, high: Tensor, site: str) -> Tensor:
        """Return the rows [ids, picks] that a site's hash functions pick."""
        pick = torch.arange(self.picks, dtype=torch.int32, device=low.device)
        first, second = instance_keys(low, high, key_tensor(low.device, self.kind, self.seed, site))
        hashed = stream_words(first.unsqueeze(1), second.unsqueeze(1), pick * COUNTER_STRIDE)
        # 31 bits modulo the shelf: off from uniform by less than shelf / 2**31.
        shelf = self.rows // self.picks
        return ((hashed & 0x7FFFFFFF) % shelf + pick * shelf).long()

    def options(self) -> dict[str, int]:
        """Return the shape of the codebook: the bits depend on it."""
        return {"rows": self.rows, "picks": self.picks}

    def collision_rate(self) -> float:
        """Return the probability that two ids pick the same rows at one site."""
        return (self.picks / self.rows) ** self.picks

    def mean_correlation(self, keep: float) -> float:
        """Return the expected correlation of the bits of two ids.

        Two ids that share s rows are both one with probability q ** (2 * picks - s), where q is the
        primitive rate; s is binomial with `picks` trials of probability picks / rows.
        """
        q = primitive_keep(keep, self.picks)
        rate = q**self.picks
        both = rate * rate * (1 + (self.picks / self.rows) * (1 / q - 1)) ** self.picks
        return (both - rate * rate) / (rate * (1 - rate))

    def notes(self, keep: float) -> list[str]:
        """Return the theoretical rates of collision and correlation."""
        return [
            f"codebook of {self.rows:,} rows, {self.picks} picked: two ids share a mask with "
            f"probability {self.collision_rate():.3g} per site, and their bits "
            f"correlate by {self.mean_correlation(keep):.3g} on average."
        ]


@lru_cache(maxsize=256)
def primitive_keep(keep: float, picks: int) -> float:
    """Return the rate of ones in a primitive mask: the AND of `picks` of them has the rate `keep`.

    It is the multiple of 2**-24 nearest to the root of the rounded `keep`, found in integers: `**`
    on floats may differ from one C library to the next. Twice the root in units of 2**-24 is
    never an odd number, so there are no ties.
    """
    power = numerator_of(keep) << (DIGITS * (picks - 1) + picks)
    below_one = range(1, 2**DIGITS - 1)
    numerator = 1 + bisect_left(below_one, power, key=lambda n: (2 * n + 1) ** picks)
    return numerator / 2**DIGITS


@lru_cache(maxsize=8)
def _book(source: Codebook, keep: float, size: int, device: torch.device) -> Tensor:
    """Return the codebook [rows, words]: the shelves one after the other."""
    with torch.inference_mode(False):
        low, high = id_words(torch.arange(source.rows, device=device).unsqueeze(1))
        first, second = instance_keys(low, high, key_tensor(device, source.kind, source.seed))
        word = torch.arange(size, dtype=torch.int32, device=device)
        return biased_words(keep, first, second, word * signed(DIGITS * COUNTER_STRIDE))


_SOURCES: dict[str, type] = {source.kind: source for source in (Counter, Volatile, Codebook)}
_NAMES = ", ".join(map(repr, _SOURCES))


def source_named(masks: str | MaskSource, seed: int) -> MaskSource:
    """Return the source that `turnover.wrap(masks=...)` asks for, by name or as an object."""
    if isinstance(masks, str):
        return source_from(masks, seed, {})
    if type(masks) not in _SOURCES.values():
        # A source of the user's own could not be made again from a recipe.
        raise MaskError(f"masks must be one of {_NAMES}, or a source object, got {masks!r}.")
    return masks


def source_from(kind: str, seed: int, options: dict[str, int]) -> MaskSource:
    """Return the source of a recipe."""
    if kind not in _SOURCES:
        raise MaskError(f"masks must be one of {_NAMES}, got {kind!r}.")
    return _SOURCES[kind](seed=seed, **options)
