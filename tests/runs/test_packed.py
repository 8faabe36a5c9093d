"""Many short texts and numbers, packed."""

import numpy as np
import pytest

from turnover.runs._packed import PackedNumbers, PackedTexts

TEXTS = ["one", "", "Äpfel \U0001f34e", "half \ud83c of a sign", "line\nbreak\x00"]


def test_packed_texts_are_those_that_were_given():
    packed = PackedTexts(iter(TEXTS))
    assert list(packed) == TEXTS
    assert [packed[place] for place in range(-5, 5)] == [*TEXTS, *TEXTS]
    assert (packed[1:4], packed[::-1]) == (TEXTS[1:4], TEXTS[::-1])
    assert packed == TEXTS
    assert packed != [*TEXTS[:-1], "other"]
    assert packed.lengths.tolist() == [len(text.encode("utf-8", "surrogatepass")) for text in TEXTS]


@pytest.mark.parametrize("place", [5, -6])
def test_there_is_no_text_beyond_the_last(place):
    with pytest.raises(IndexError):
        PackedTexts(TEXTS)[place]


def test_packed_texts_are_joined_in_order():
    assert PackedTexts.joined([PackedTexts(TEXTS[:2]), PackedTexts(), PackedTexts(TEXTS[2:])]) == TEXTS


def test_packed_numbers_have_none_among_them():
    packed = PackedNumbers.joined([PackedNumbers.of([3, None]), PackedNumbers(np.array([7]))])
    assert list(packed) == [3, None, 7]
    assert (packed[1:], packed[-1], type(packed[0])) == ([None, 7], 7, int)
