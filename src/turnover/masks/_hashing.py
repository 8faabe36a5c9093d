"""Keyed integer hashing that gives the same bits on every device.

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

import torch
from torch import Tensor

from .bits import digits_of

_WORD = 1 << 32
FORMAT = 1
"""Version of the mask bits; docs/format.md describes this one."""


def signed(word: int) -> int:
    """Return the int32 value that has the bits of an unsigned 32-bit word."""
    word %= _WORD
    return word - _WORD if word >= _WORD // 2 else word


# triple32 as published: (shift, odd multiplier) three times, then a last shift.
_ROUNDS = ((17, signed(0xED5AD4BB)), (11, signed(0xAC4C1B51)), (15, signed(0x31848BAB)))
_LAST_SHIFT = 14
COUNTER_STRIDE = signed(0x9E3779B9)
"""2**32 divided by the golden ratio, odd: neighboring counters land far apart before mixing."""


def _mix_(words: Tensor) -> Tensor:
    """Scramble int32 words in place by triple32, a bijection of 32 bits; return the same tensor."""
    for shift, multiplier in _ROUNDS:
        _xor_shift_(words, shift)
        words.mul_(multiplier)
    return _xor_shift_(words, _LAST_SHIFT)


def _xor_shift_(words: Tensor, shift: int) -> Tensor:
    high = words >> shift
    high.bitwise_and_((1 << (32 - shift)) - 1)
    return words.bitwise_xor_(high)


def key_words(*parts: int | str) -> tuple[int, ...]:
    """Return eight int32 key words for a tuple of parts, by SHA-256 of their JSON text."""
    text = json.dumps(["turnover", FORMAT, *parts])
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return tuple(signed(int.from_bytes(digest[i : i + 4], "little")) for i in range(0, 32, 4))


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


def instance_keys(low: Tensor, high: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return two key words for every (instance, site) pair; of the site's keys, dimension 0, three are used.

    For one site the map from (low, high) to the two words is a bijection, so two ids never share a
    stream.
    """
    first = _mix_(low + keys[0])
    second = _mix_((high + first).add_(keys[1]))
    third = _mix_((first + second).add_(keys[2]))
    return third, second


def stream_words(first: Tensor, second: Tensor, counters: Tensor) -> Tensor:
    """Return words of the streams keyed by two words, at positions already multiplied by COUNTER_STRIDE."""
    return _mix_(_mix_(first + counters).add_(second))


def biased_words(keep: float, first: Tensor, second: Tensor, counters: Tensor, step: int = 1) -> Tensor:
    """Return words whose bits are one with probability `keep`, of streams keyed by two words.

    `counters` are the positions of the first digit's words, times COUNTER_STRIDE; the next digit is `step` further on.
    """

    def fair_words(digit: int) -> Tensor:
        return stream_words(first, second, counters + signed(digit * step * COUNTER_STRIDE))

    digits = digits_of(keep)
    last = len(digits) - 1
    # The last digit is a one. From there to the first, a fair bit decides unless it ties with the
    # digit.
    result = fair_words(last)
    for place in range(last - 1, -1, -1):
        combine = torch.bitwise_or if digits[place] else torch.bitwise_and
        result = combine(result, fair_words(place))
    return result
