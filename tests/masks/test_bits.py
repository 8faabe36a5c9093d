"""Bits and words are two forms of the same mask."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra import numpy as arrays

from turnover.masks import unpack, words_for

bit_arrays = arrays.arrays(bool, arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=100))


@given(bits=bit_arrays)
def test_unit_u_is_bit_u_modulo_32_of_word_u_over_32_lowest_first(bits):
    width = bits.shape[-1]
    padded = np.zeros((*bits.shape[:-1], 32 * words_for(width)), bool)
    padded[..., :width] = bits
    words = np.packbits(padded, axis=-1, bitorder="little").view("<i4")
    assert np.array_equal(unpack(torch.from_numpy(words), width).numpy(), bits)


@pytest.mark.parametrize(
    ("word", "units"),
    [(-(2**31), [31]), (-1, range(32)), (2**31 - 1, range(31)), (0, []), (1, [0])],
)
def test_sign_bit_is_unit_31(word, units):
    bits = unpack(torch.tensor([word], dtype=torch.int32), 32)
    assert bits.nonzero().flatten().tolist() == list(units)


def test_unpacking_takes_no_rows():
    assert unpack(torch.ones(0, 2, dtype=torch.int32), 40).shape == (0, 40)
