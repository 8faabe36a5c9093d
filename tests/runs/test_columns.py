"""Labels as class numbers: the order of classes is natural, and numbering can be undone."""

from hypothesis import given
from hypothesis import strategies as st

from turnover.runs.columns import label_text, number_labels


def natural_order(names):
    return list(number_labels(names)[1])


@given(st.lists(st.text(max_size=5) | st.integers() | st.booleans() | st.none() | st.floats(), max_size=30))
def test_every_label_can_be_told_from_its_number(values):
    numbers, names = number_labels(values)
    assert [names[number] if number >= 0 else "" for number in numbers] == [label_text(value) for value in values]
    assert len(set(names)) == len(names)


@given(st.lists(st.integers(-(10**6), 10**6), unique=True, max_size=20))
def test_numbers_are_sorted_as_numbers(numbers):
    assert natural_order(map(str, numbers)) == [str(number) for number in sorted(numbers)]


def test_numbers_come_before_names_and_digits_in_names_count_as_numbers():
    assert natural_order(["z", "10", "b10", "-1.5", "B9", "2"]) == ["-1.5", "2", "10", "B9", "b10", "z"]


def test_labels_are_trimmed_texts_and_missing_ones_are_empty():
    values = ("good ", 1, 1.0, True, None, float("nan"))
    assert [label_text(value) for value in values] == ["good", "1", "1", "True", "", ""]
