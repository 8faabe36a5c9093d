"""Numbers and texts as people read them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnover.ui import words


# Few letters: with all of Unicode, hypothesis reads its tables for seconds.
@given(st.text("ab \n…é", max_size=40), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6))
def test_a_marked_text_is_the_same_text(text, marks):
    pieces = words.pieces(text, marks)
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.text for piece in pieces) or not text


def test_overlapping_marks_mark_every_letter_once():
    pieces = words.pieces("abcdef", [(1, 4), (2, 5), (4, 4)])
    assert [(piece.text, piece.marked) for piece in pieces] == [("a", False), ("bcd", True), ("e", True), ("f", False)]


@given(st.floats(0, 1))
def test_a_share_is_all_or_nothing_only_if_it_is(share):
    said = words.percent(share, 0)
    assert (said == "100 %") == (share == 1)
    assert (said == "0 %") == (share == 0)


@given(st.floats(1e-12, 1e12))
def test_in_its_unit_the_largest_value_is_easy_to_read(value):
    assert 0.05 <= value / 10.0 ** words.power_of([value, value / 3]) < 1000


def test_long_texts_end_between_words_and_say_so():
    text = words.shortened("word " * 200)
    assert len(text) <= 402
    assert text.endswith("word …")
    assert words.shortened("x" * 500) == "x" * 400 + " …"
    assert words.shortened("  short ") == "short"


EXAMPLES = [
    (words.count(1234), "1,234"),
    (words.count(1, "row"), "1 row"),
    (words.count(2, "row"), "2 rows"),
    (words.percent(0.1234), "12.3 %"),
    (words.percent(0.99999), "> 99.9 %"),
    (words.percent(0.00001), "< 0.1 %"),
    (words.percent(1.0), "100 %"),
    (words.duration(0.41), "0.4 s"),
    (words.duration(75), "1 min 15 s"),
    (words.duration(4000), "1 h 6 min"),
    (words.duration(59.7), "60 s"),
    (words.duration(60), "1 min 0 s"),
    (words.duration(7199), "1 h 59 min"),
    (words.duration(0), "0.0 s"),
    (words.unit(0), ""),
    (words.unit(-3), " (× 10⁻³)"),
    (words.score(0), "+0.00"),
    (words.score(1e-9), "+0.000"),
    (words.score(-1234.5, power=3), "−1.23"),
    (words.score(123.4), "+123"),
    (words.score(0.0123, 0.0045, -3), "+12.3 ± 4.5"),
    (words.score(0.001, 2.0), "+0.00 ± 2.00"),
    (words.score(-0.00123, power=-3), "−1.23"),
    (words.score(0.5, 0.12), "+0.500 ± 0.120"),
    (words.score(-2.5, 12.0), "−2.5 ± 12.0"),
    (words.power_of([0.0021, -0.0003]), -3),
    (words.power_of([0.4]), 0),
    (words.power_of([0.0]), 0),
    (words.digits(0.000123456), "1.23 × 10⁻⁴"),
    (words.digits(12.0), "12"),
    (words.shortened("one two three", 9), "one two …"),
    (words.cell_text(0.123456), "0.1235"),
    (words.cell_text(3.0), "3"),
    (words.cell_text("red"), "red"),
    (words.cell_text(None), "missing"),
    (words.cell_text(np.nan), "missing"),
    (words.cell_text(np.int64(3)), "3"),
    (words.pieces("a good film", [(2, 6)])[1], words.Piece("good", True)),
]


@pytest.mark.parametrize(("written", "expected"), EXAMPLES)
def test_numbers_and_texts_are_written_for_people(written, expected):
    assert written == expected
