"""Words whose bits are one with any probability, from words of fair bits.

A unit is kept when a uniform number u, drawn bit by bit, is smaller than `keep`. Done for 32 units
at once, on whole words, this takes one hashed word for every binary digit of `keep`: one word at
keep = .5, two at .25 or .75, and at most 24, because `keep` is rounded to a multiple of 2**-24.
Masks of the same ids are nested: what is kept at .5 is also kept at .7.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from turnover.errors import MaskError

DIGITS = 24
"""Binary digits of `keep`: its resolution is 2**-24, far below what any test could see."""


def check_keep(keep: float) -> float:
    """Return `keep` as a float in (0, 1), or raise."""
    number = isinstance(keep, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(keep, bool) or not number or not 0.0 < keep < 1.0:
        raise MaskError(
            f"keep={keep!r} is not a keep rate. Give the share of units that stay, a number between "
            "0 and 1 (both excluded): keep=0.5. It is the opposite of the p of torch.nn.Dropout."
        )
    return float(keep)


def digits_of(keep: float) -> tuple[int, ...]:
    """Return the binary digits of `keep` rounded to 2**-24, without trailing zeros."""
    numerator = numerator_of(keep)
    return tuple(int(digit) for digit in f"{numerator:0{DIGITS}b}".rstrip("0"))


def numerator_of(keep: float) -> int:
    """Return `keep` in units of 2**-24, rounded half to even and never 0 or 2**24."""
    return min(max(round(check_keep(keep) * 2**DIGITS), 1), 2**DIGITS - 1)


def rounded_keep(keep: float) -> float:
    """Return the rate that masks really have: `keep` rounded to 2**-24 and never 0 or 1."""
    return numerator_of(keep) / 2**DIGITS


def biased_words(keep: float, fair_words: Callable[[int], Tensor]) -> Tensor:
    """Return words whose bits are one with probability `keep`.

    Args:
        keep: the rate.
        fair_words: gives fresh int32 words of fair bits for a digit number, 0 for the first digit.
    """
    digits = digits_of(keep)
    last = len(digits) - 1
    # The last digit is a one. From there to the first, a fair bit decides unless it ties with the
    # digit.
    result = fair_words(last)
    for place in range(last - 1, -1, -1):
        fair = fair_words(place)
        combine = torch.bitwise_or if digits[place] else torch.bitwise_and
        result = combine(result, fair)
    return result
