"""Bits and words are two forms of the same mask."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from turnover.masks import pack, unpack
from turnover.masks.bits import words_for

bit_arrays = arrays.arrays(bool, arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=100))


@given(bits=bit_arrays)
def test_unpack_undoes_pack(bits):
    bits = torch.from_numpy(bits)
    words = pack(bits)
    assert words.dtype == torch.int32
    assert words.shape == (*bits.shape[:-1], words_for(bits.shape[-1]))
    assert torch.equal(unpack(words, bits.shape[-1]), bits)


@given(words=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_pack_undoes_unpack(words):
    words = torch.tensor(words, dtype=torch.int32)
    assert torch.equal(pack(unpack(words, 32 * len(words))), words)


@given(bits=bit_arrays)
def test_unit_u_is_bit_u_modulo_32_of_word_u_over_32_lowest_first(bits):
    width = bits.shape[-1]
    padded = np.zeros((*bits.shape[:-1], 32 * words_for(width)), bool)
    padded[..., :width] = bits
    words = np.packbits(padded, axis=-1, bitorder="little").view("<i4")
    assert np.array_equal(pack(torch.from_numpy(bits)).numpy(), words)


@pytest.mark.parametrize(
    ("word", "units"),
    [(-(2**31), [31]), (-1, range(32)), (2**31 - 1, range(31)), (0, []), (1, [0])],
)
def test_sign_bit_is_unit_31(word, units):
    bits = unpack(torch.tensor([word], dtype=torch.int32), 32)
    assert bits.nonzero().flatten().tolist() == list(units)
    assert pack(bits).tolist() == [word]


def test_unused_bits_of_the_last_word_are_zero():
    assert pack(torch.ones(33, dtype=torch.bool)).tolist() == [-1, 1]


def test_packing_takes_no_rows_and_integer_bits():
    assert pack(torch.ones(0, 40, dtype=torch.bool)).shape == (0, 2)
    assert unpack(torch.ones(0, 2, dtype=torch.int32), 40).shape == (0, 40)
    assert pack(torch.tensor([[1, 0, 1]])).tolist() == [[5]]


@pytest.mark.parametrize(("width", "words"), [(1, 1), (31, 1), (32, 1), (33, 2), (64, 2), (65, 3)])
def test_words_hold_32_units_each(width, words):
    assert words_for(width) == words
