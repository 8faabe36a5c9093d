"""Numbers and texts as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.html.made_data import made_data
from turnover.ui import words as wording


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6))
def test_a_marked_text_is_the_same_text(text, marks):
    found = wording.pieces(text, marks)
    assert "".join(piece.text for piece in found) == text
    assert all(piece.text for piece in found) or not text


def test_overlapping_marks_mark_every_letter_once():
    found = wording.pieces("abcdef", [(1, 4), (2, 5), (4, 4)])
    assert [(piece.text, piece.marked) for piece in found] == [("a", False), ("bcd", True), ("e", True), ("f", False)]


@pytest.mark.parametrize(
    ("value", "power", "text"), [(0, 0, "+0.00"), (1e-9, 0, "+0.000"), (-1234.5, 3, "−1.23"), (123.4, 0, "+123")]
)
def test_scores_have_a_sign_and_few_digits(value, power, text):
    assert wording.score(value, power) == text


@given(st.floats(0, 1))
def test_a_share_is_all_or_nothing_only_if_it_is(share):
    said = wording.percent(share, 0)
    assert (said == "100\xa0%") == (share == 1)
    assert (said == "0\xa0%") == (share == 0)


def test_units_are_said_only_where_there_is_one():
    assert wording.unit(0) == wording.unit_words(0) == ""
    assert wording.unit(-3) == " (×\xa010⁻³)"


def test_small_p_values_are_told_apart():
    assert wording.chance(1.2e-5) == "1.2 × 10⁻⁵"
    assert wording.chance(6.2e-5) == "6.2 × 10⁻⁵"
    assert wording.chance(0.00123) == "0.0012"


def test_rows_are_found_by_all_labels_that_are_named():
    data = made_data()
    assert wording.label_numbers(data, data.rows[0], ("positive", None, "unknown")) == "0 1"


@pytest.mark.parametrize(("seconds", "text"), [(59.7, "60 s"), (60, "1 min 0 s"), (7199, "1 h 59 min"), (0, "0.0 s")])
def test_times_are_read_at_a_glance(seconds, text):
    assert wording.duration(seconds) == text
