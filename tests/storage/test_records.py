"""Identities survive JSON, differences are named, and records notice damage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnover.errors import StoreError
from turnover.storage.records import differences, from_record, plain, to_record

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(st.dictionaries(st.text(), values, max_size=3), st.data())
@settings(max_examples=40)
def test_a_record_comes_back_or_is_known_to_be_damaged(content, data):
    record = bytearray(to_record(content))
    if "checksum" not in content:
        assert from_record(bytes(record)) == content
    place = data.draw(st.integers(0, len(record) - 2))  # the last byte is the line break
    record[place] ^= 1 << data.draw(st.integers(0, 7))
    damaged = from_record(bytes(record))
    assert damaged is None or damaged == content


@pytest.mark.parametrize(
    ("stored", "given", "line"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b[1]: stored 2, given 3"),
        ({"a": [1]}, {"a": [1, 2]}, "a: stored [1], given [1, 2]"),
        ({"a": 1}, {}, "a: stored 1, given nothing"),
        ({}, {"a": None}, "a: stored nothing, given null"),
        ({"a": 1}, {"a": True}, "a: stored 1, given true"),
        ({"a": "1"}, {"a": 1}, 'a: stored "1", given 1'),
        ({"a": {"b": 1}}, {"a": 1}, 'a: stored {"b": 1}, given 1'),
    ],
)
def test_a_difference_is_named_by_its_path(stored, given, line):
    assert differences(stored, given) == [line]


def test_long_values_are_shown_where_they_differ():
    (line,) = differences({"code": "a" * 500 + "X" + "b" * 500}, {"code": "a" * 500 + "Y" + "b" * 500})
    assert "aaaXbbb" in line
    assert "aaaYbbb" in line
    assert len(line) < 200


def test_tuples_and_numpy_scalars_become_plain():
    value = plain({"a": (np.int64(3), np.float32(0.5), np.bool_(True))}, where="identity")
    assert value == {"a": [3, 0.5, True]}
    assert [type(item) for item in value["a"]] == [int, float, bool]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": {"b": object()}}, "identity.a.b cannot be written as JSON: it has an object of type object"),
        ({"a": [0, float("nan")]}, "identity.a cannot be written as JSON: .*not JSON compliant"),
        ({"a": np.zeros(2)}, "identity.a .*ndarray"),
    ],
)
def test_what_json_cannot_hold_is_rejected_by_name(value, message):
    with pytest.raises(StoreError, match=message):
        plain(value, where="identity")
