"""Bits of a mask: 32 to a word, each one with the probability `keep`, whose resolution is 2**-24."""

import torch
from torch import Tensor

from turnover.errors import MaskError

WORD_BITS = 32
DIGITS = 24
"""Binary digits of `keep`: its resolution is 2**-24, far below what any test could see."""


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
    return min(max(round(check_keep(keep) * 2**DIGITS), 1), 2**DIGITS - 1)


def rounded_keep(keep: float) -> float:
    """Return the rate that masks really have: `keep` rounded to 2**-24 and never 0 or 1."""
    return numerator_of(keep) / 2**DIGITS


def digits_of(keep: float) -> tuple[int, ...]:
    """Return the binary digits of `keep` rounded to 2**-24, without trailing zeros."""
    return tuple(int(digit) for digit in f"{numerator_of(keep):0{DIGITS}b}".rstrip("0"))
