"""The mask bits as docs/format.md defines them, in plain Python integers, one unit at a time.

Nothing here comes from the package: whoever wants masks in another language can start from this
file. It is slow.
"""

import decimal
import hashlib
from collections.abc import Callable, Sequence

import numpy as np

MASK32 = 2**32 - 1
STRIDE = 0x9E3779B9
DIGITS = 24


def triple32(x: int) -> int:
    x ^= x >> 17
    x = x * 0xED5AD4BB & MASK32
    x ^= x >> 11
    x = x * 0xAC4C1B51 & MASK32
    x ^= x >> 15
    x = x * 0x31848BAB & MASK32
    return x ^ x >> 14


def json_string(text: str) -> str:
    short = {'"': '\\"', "\\": "\\\\"}
    short |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
    parts: list[str] = []
    for character in text:
        if character in short:
            parts.append(short[character])
        elif " " <= character <= "~":
            parts.append(character)
        else:
            utf16 = character.encode("utf-16-be")
            parts += [f"\\u{utf16[i]:02x}{utf16[i + 1]:02x}" for i in range(0, len(utf16), 2)]
    return '"' + "".join(parts) + '"'


def key_text(source: str, seed: int, site: str | None) -> str:
    """The JSON text that is hashed into key words; no site: that of the codebook's rows."""
    site_part = "" if site is None else ", " + json_string(site)
    return f'["turnover", 1, "{source}", {seed}{site_part}]'


def key_words(source: str, seed: int, site: str | None) -> tuple[int, int, int]:
    digest = hashlib.sha256(key_text(source, seed, site).encode()).digest()
    return tuple(sum(digest[4 * w + b] << 8 * b for b in range(4)) for w in range(3))


def instance_words(number: int, keys: tuple[int, int, int]) -> tuple[int, int]:
    """The two words (A, B) that key the stream of a number below 2**63."""
    low, high = number & MASK32, number >> 32
    x = triple32(low + keys[0] & MASK32)
    b = triple32(high + x + keys[1] & MASK32)
    a = triple32(x + b + keys[2] & MASK32)
    return a, b


def stream_word(a: int, b: int, position: int) -> int:
    inner = triple32(a + position * STRIDE & MASK32)
    return triple32(inner + b & MASK32)


def numerator(keep: float) -> int:
    """The keep rate in units of 2**-24."""
    exact = decimal.Decimal(keep) * 2**DIGITS
    rounded = int(exact.quantize(decimal.Decimal(1), rounding=decimal.ROUND_HALF_EVEN))
    return min(max(rounded, 1), 2**DIGITS - 1)


def primitive_numerator(keep: float, picks: int) -> int:
    """The rate of a codebook's rows in units of 2**-24."""
    if picks == 1:
        return numerator(keep)
    with decimal.localcontext(prec=60):
        share = decimal.Decimal(numerator(keep)) / 2**DIGITS
        root = (share.ln() / picks).exp()
        return min(int(root * 2**DIGITS + decimal.Decimal("0.5")), 2**DIGITS - 1)


def kept_units(rate: int, width: int, word_at: Callable[[int, int], int]) -> list[bool]:
    """Compare each unit's uniform number with the rate, both in units of 2**-24.

    Args:
        rate: numerator of the rate.
        width: number of units.
        word_at: gives the hashed word for (word, digit).
    """
    kept: list[bool] = []
    for unit in range(width):
        word, bit = divmod(unit, 32)
        if bit == 0:
            hashed = [word_at(word, digit) for digit in range(DIGITS)]
        uniform = 0
        for digit in range(DIGITS):
            uniform = 2 * uniform + 1 - (hashed[digit] >> bit & 1)
        kept.append(uniform < rate)
    return kept


def counter_mask(seed: int, site: str, keep: float, number: int, width: int) -> list[bool]:
    a, b = instance_words(number, key_words("counter", seed, site))
    return kept_units(numerator(keep), width, lambda word, digit: stream_word(a, b, DIGITS * word + digit))


def volatile_mask(seed: int, site: str, keep: float, number: int, width: int, block: int = 1024) -> list[bool]:
    a, b = instance_words(number // block, key_words("volatile", seed, site))
    row = number % block
    return kept_units(
        numerator(keep),
        width,
        lambda word, digit: stream_word(a, b, (DIGITS * word + digit) * block + row),
    )


def codebook_rows(seed: int, site: str, number: int, rows: int, picks: int) -> list[int]:
    """The rows of the codebook that a site's hash functions pick for an instance."""
    a, b = instance_words(number, key_words("codebook", seed, site))
    shelf = rows // picks
    return [pick * shelf + stream_word(a, b, pick) % 2**31 % shelf for pick in range(picks)]


def codebook_mask(
    seed: int,
    site: str,
    keep: float,
    number: int,
    width: int,
    rows: int = 4096,
    picks: int = 4,
) -> list[bool]:
    rate = primitive_numerator(keep, picks)
    kept = [True] * width
    for row in codebook_rows(seed, site, number, rows, picks):
        a, b = instance_words(row, key_words("codebook", seed, None))
        primitive = kept_units(rate, width, lambda word, digit, a=a, b=b: stream_word(a, b, DIGITS * word + digit))
        kept = [both and one for both, one in zip(kept, primitive, strict=True)]
    return kept


MASKS = {"counter": counter_mask, "volatile": volatile_mask, "codebook": codebook_mask}


def twin_bits(
    source: str,
    *,
    seed: int,
    site: str,
    keep: float,
    ids: Sequence[int],
    width: int,
    options: dict[str, int] | None = None,
) -> np.ndarray:
    mask = MASKS[source]
    return np.array([mask(seed, site, keep, int(i), width, **(options or {})) for i in ids])


def hex_words(bits: Sequence[bool]) -> str:
    """A mask as words of eight hexadecimal digits; unused bits are 0."""
    words = [0] * -(-len(bits) // 32)
    for unit, kept in enumerate(bits):
        words[unit // 32] |= int(kept) << unit % 32
    return " ".join(f"{word:08x}" for word in words)
