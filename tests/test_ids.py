"""What instances are called: names and mask ids, from one to the other."""

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnover.errors import InstanceIdError
from turnover.ids import Names, id_array
from turnover.scores import Scores

NAME = st.text(max_size=8) | st.integers(0, 2**63 - 1)


@given(st.dictionaries(st.integers(0, 2**62), NAME, max_size=20).filter(lambda d: len(set(d.values())) == len(d)))
def test_names_lead_to_their_mask_ids_and_back(by_id):
    names = Names.of(by_id.keys(), by_id.values())
    numbers = np.array(list(by_id), np.int64)
    shown = names.shown(numbers)
    assert shown.tolist() == list(by_id.values())
    assert np.asarray(names.mask_ids(shown)).tolist() == numbers.tolist()


@given(st.lists(NAME, max_size=20, unique=True))
def test_names_in_a_file_come_back_as_they_were(tmp_path_factory, names):
    numbers = range(len(names))
    file = tmp_path_factory.mktemp("names") / "scores.npz"
    Scores(np.zeros(len(names)), ids=names, mask_ids=numbers).save(file)
    assert Scores.open(file).ids.tolist() == names


@pytest.mark.parametrize(
    ("names", "array"),
    [
        ([3, None, 5], np.array([3, -1, 5])),
        (["a", None], np.array(["a", None], object)),
        ([-1, None], np.array([-1, None], object)),
        ([], np.array([], np.int64)),
    ],
    ids=["integers", "strings", "negative", "none"],
)
def test_names_are_integers_where_all_are_and_objects_else(names, array):
    assert (result := id_array(names)).dtype == array.dtype
    assert result.tolist() == array.tolist()
    assert not result.flags.writeable


def test_instances_without_a_name_keep_their_mask_id():
    names = Names({7: "seven"})
    assert names.shown(np.array([[7, 8], [-1, 7]])).tolist() == [["seven", 8], [None, "seven"]]
    assert Names().shown(numbers := np.array([7])) is numbers


@pytest.mark.parametrize(
    "names",
    [
        [1.5, 2.5],
        np.array([1.0, 2.0]),
        [("a", 1), ("a", 2)],
        [None, "a"],
        [True, False],
        np.array(["2026-11-17", "2026-11-18"], "datetime64[ns]"),
        [np.timedelta64(1, "ns")],
        pandas.date_range("2026-11-17", periods=2),
        pandas.MultiIndex.from_tuples([("a", 1), ("a", 2)]),
        {0: 1.5},
    ],
    ids=["floats", "array", "tuples", "None", "bools", "dates", "duration", "index of dates", "MultiIndex", "mapping"],
)
def test_names_that_could_not_come_back_as_they_were_are_rejected_with_what_to_type(names):
    with pytest.raises(InstanceIdError, match=r"must be strings or integers, got .*index\.map\(str\)"):
        Names.given(names)


def test_an_integer_is_a_mask_id_where_names_are_strings_and_a_name_where_they_are_integers():
    assert Names({7: "seven"}).mask_ids([7, "seven"]).tolist() == [7, 7]
    index = Names.given([10, 20, 30])
    assert index.mask_ids(torch.tensor([30, 10])).tolist() == [2, 0]
    with pytest.raises(InstanceIdError, match=r"no instance 2\. Did you mean '20'"):
        index.mask_ids([2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Names({1: "a", 2: "b", 3: "a"}), "several instances have one name: 'a' of 1 and 3"),
        (lambda: Names(dict(enumerate("abcdabcd"))), r"'a' of 0 and 4; 'b' of 1 and 5; 'c' of 2 and 6 and 1 more"),
        (lambda: Names.of([1, 1], ["a", "b"]), "'b' and 'a' both have the instance id 1"),
        (lambda: Names.given("abc"), "names must be a mapping or a sequence, got 'abc'"),
        (lambda: Names.of([0], ["doc-3"]).mask_ids(["doc-33"]), "no instance 'doc-33'. Did you mean 'doc-3'"),
        (lambda: Names.of([0], ["doc-3"]).mask_ids(["x"]), "no instance 'x'. See .ids"),
        (lambda: Names.of([0], ["doc-3"]).mask_ids(["x", "doc-3", "y", "x"]), "no instance 'x', 'y'. See .ids"),
        (lambda: Names.given({"a", "b"}), "a set, which has no order"),
        (lambda: Names.given({"doc-3": "a"}), "given by ids, which are integers, got 'doc-3'"),
        (lambda: Names.given(["a"]).check_all_named(np.arange(2)), "1 names, and train has 2 instances"),
    ],
    ids=["duplicate", "many", "two names", "string", "near", "nothing near", "several", "set", "keys", "too few"],
)
def test_what_cannot_be_told_apart_or_is_not_known_is_an_error(make, message):
    with pytest.raises(InstanceIdError, match=message):
        make()
