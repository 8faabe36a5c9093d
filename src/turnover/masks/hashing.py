"""Keyed integer hashing that gives the same bits on every device, and bits as words.

The mixer is triple32 from Chris Wellons' hash prospector, a murmur-style finalizer (xor-shift,
multiply, three times over) with a measured avalanche bias of 0.0209, close to what 32 bits allow.
Keys come from SHA-256 on the host, so a seed and a site's path of any length enter as eight words.

All tensors are int32 and used as unsigned words: additions and products wrap, and a logical right
shift is an arithmetic one followed by a mask, because uint32 has no shifts on the CPU.

A unit is kept when a uniform number u, drawn bit by bit, is smaller than `keep`. Done for 32 units
at once, on whole words, this takes one hashed word for every binary digit of `keep`: one word at
keep = .5, two at .25 or .75, and at most 24. Masks of the same ids are nested: what is kept at .5
is also kept at .7.
"""

import hashlib
import json
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from turnover.errors import MaskError

FORMAT = 1
"""Version of the mask bits; docs/format.md describes this one."""
WORD_BITS = 32
DIGITS = 24
"""Binary digits of `keep`: its resolution is 2**-24, far below what any test could see."""
_WORD = 1 << 32


def signed(word: int) -> int:
    """Return the int32 value that has the bits of an unsigned 32-bit word."""
    word %= _WORD
    return word - _WORD if word >= _WORD // 2 else word


# triple32 as published: (shift, odd multiplier) three times, then a last shift.
_ROUNDS = ((17, signed(0xED5AD4BB)), (11, signed(0xAC4C1B51)), (15, signed(0x31848BAB)), (14, 1))
COUNTER_STRIDE = signed(0x9E3779B9)
"""2**32 divided by the golden ratio, odd: neighboring counters land far apart before mixing."""


def words_for(width: int) -> int:
    """Return how many 32-bit words hold `width` bits."""
    return -(-width // WORD_BITS)


def unpack(words: Tensor, width: int) -> Tensor:
    """Return bits [..., width] as bool from int32 words [..., ceil(width / 32)].

    Unit u of a mask is bit u % 32 of word u // 32, lowest bit first.

    Example:
        >>> unpack(torch.tensor([[5]], dtype=torch.int32), 4).int().tolist()
        [[1, 0, 1, 0]]
    """
    # An arithmetic shift is as good as a logical one here: only the lowest bit is looked at.
    places = torch.arange(WORD_BITS, device=words.device, dtype=torch.int32)
    bits = (words.unsqueeze(-1) >> places) & 1
    return bits.flatten(-2)[..., :width].bool()


def check_keep(keep: float) -> float:
    """Return `keep` as a float in (0, 1), or raise."""
    # torch 2.8 compiles a tuple of types, not a union.
    number = isinstance(keep, (int, float))  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(keep, bool) or not number or not 0.0 < keep < 1.0:
        raise MaskError(
            f"keep must be the share of units that stay, a number between 0 and 1 (both excluded), got {keep!r}. "
            "It is the opposite of the p of torch.nn.Dropout: keep=0.5."
        )
    return float(keep)


def numerator_of(keep: float) -> int:
    """Return `keep` in units of 2**-24, rounded half to even and never 0 or 2**24."""
    return min(max(round(keep * 2**DIGITS), 1), 2**DIGITS - 1)


def rounded_keep(keep: float) -> float:
    """Return the rate that masks really have: `keep` rounded to 2**-24 and never 0 or 1."""
    return numerator_of(keep) / 2**DIGITS


def key_words(*parts: int | str) -> list[int]:
    """Return eight int32 key words for a tuple of parts, by SHA-256 of their JSON text."""
    text = json.dumps(["turnover", FORMAT, *parts])
    return np.frombuffer(hashlib.sha256(text.encode("ascii")).digest(), "<i4").tolist()


@lru_cache(maxsize=512)
def key_tensor(device: torch.device, *parts: int | str) -> Tensor:
    """Return the key words of a tuple of parts as a tensor [8]; see `key_words`."""
    # Kept beyond this call: made under inference mode it could not be used in a later training pass.
    with torch.inference_mode(False):
        return torch.tensor(key_words(*parts), dtype=torch.int32, device=device)


def id_words(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the low and the high 32 bits of int64 ids as int32 words.

    The low word is brought into the signed range by arithmetic before the cast: casting a value
    that does not fit is not defined alike on every device.
    """
    low = ((ids & (_WORD - 1)) ^ (_WORD // 2)) - _WORD // 2
    return low.to(torch.int32), (ids >> 32).to(torch.int32)


def mix_(words: Tensor) -> Tensor:
    """Scramble int32 words in place by triple32, a bijection of 32 bits; return the same tensor."""
    for shift, multiplier in _ROUNDS:
        high = words >> shift
        words.bitwise_xor_(high.bitwise_and_((1 << (32 - shift)) - 1))
        if multiplier != 1:
            words.mul_(multiplier)
    return words


def instance_keys(low: Tensor, high: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return two key words for every (instance, site) pair; of the site's keys, dimension 0, three are used.

    For one site the map from (low, high) to the two words is a bijection, so two ids never share a
    stream.
    """
    first = mix_(low + keys[0])
    second = mix_((high + first).add_(keys[1]))
    third = mix_((first + second).add_(keys[2]))
    return third, second


def stream_words(first: Tensor, second: Tensor, counters: Tensor) -> Tensor:
    """Return words of the streams keyed by two words, at positions already multiplied by COUNTER_STRIDE."""
    return mix_(mix_(first + counters).add_(second))


def biased_words(keep: float, first: Tensor, second: Tensor, counters: Tensor, step: int = 1) -> Tensor:
    """Return words whose bits are one with probability `keep`, of streams keyed by two words.

    `counters` are the positions of the first digit's words, times COUNTER_STRIDE; the next digit is `step` further on.
    """
    digits = f"{numerator_of(keep):0{DIGITS}b}".rstrip("0")
    result = None
    # The last digit is a one. From there to the first, a fair bit decides unless it ties with the
    # digit.
    for place in range(len(digits) - 1, -1, -1):
        places = counters + signed(place * step * COUNTER_STRIDE) if place else counters
        fair = stream_words(first, second, places)
        combine = torch.bitwise_or if digits[place] == "1" else torch.bitwise_and
        result = fair if result is None else combine(result, fair)
    assert result is not None
    return result
