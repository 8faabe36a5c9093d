"""Bits to words and back: unit u of a mask is bit u % 32 of word u // 32, lowest bit first."""

import torch
from torch import Tensor
from torch.nn import functional

WORD_BITS = 32


def words_for(width: int) -> int:
    """Return how many 32-bit words hold `width` bits."""
    return -(-width // WORD_BITS)


def unpack(words: Tensor, width: int) -> Tensor:
    """Return bits [..., width] as bool from int32 words [..., ceil(width / 32)].

    Example:
        >>> unpack(torch.tensor([[5]], dtype=torch.int32), 4).int().tolist()
        [[1, 0, 1, 0]]
    """
    # An arithmetic shift is as good as a logical one here: only the lowest bit is looked at.
    places = torch.arange(WORD_BITS, device=words.device, dtype=torch.int32)
    bits = (words.unsqueeze(-1) >> places) & 1
    return bits.flatten(-2)[..., :width].bool()


def pack(bits: Tensor) -> Tensor:
    """Return int32 words [..., ceil(width / 32)] from bits [..., width]; unused high bits are 0.

    Example:
        >>> pack(torch.tensor([[True, False, True]])).tolist()
        [[5]]
    """
    width = bits.shape[-1]
    padded = functional.pad(bits.to(torch.int64), (0, -width % WORD_BITS))
    places = torch.arange(WORD_BITS, device=bits.device, dtype=torch.int64)
    by_word = padded.reshape(*bits.shape[:-1], words_for(width), WORD_BITS)
    words = (by_word << places).sum(-1)
    # Bring the unsigned word into the signed range before the cast, which is then exact everywhere.
    return ((words ^ (1 << 31)) - (1 << 31)).to(torch.int32)
