"""An id is the row number in the root data set, whatever stands above it."""

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, Dataset, StackDataset, Subset, TensorDataset, random_split

from turnover.batches import instance_id_of, with_instance_ids
from turnover.errors import BatchError


def ids_of(data):
    return [row[-1] for row in data]


def numbered(size, start=0):
    return TensorDataset(torch.arange(start, start + size))


class ByKey(Dataset):
    """A data set that is read by name and has no length."""

    def __getitem__(self, key):
        return {"key": key}


def test_ids_are_the_same_before_and_after_a_split():
    data = numbered(20)
    seed = torch.Generator().manual_seed(3)
    before = random_split(with_instance_ids(data), [12, 8], generator=seed)
    seed = torch.Generator().manual_seed(3)
    after = [with_instance_ids(part) for part in random_split(data, [12, 8], generator=seed)]
    for one, other in zip(before, after, strict=True):
        assert [one[index] for index in range(len(one))] == list(other)
    assert sorted(ids_of(after[0]) + ids_of(after[1])) == list(range(20))


def test_a_list_that_grows_keeps_its_ids():
    rows = [["a"], ["b"]]
    data = with_instance_ids(rows)
    rows.append(["c"])
    assert data[-1] == data[2] == ["c", 2]


def test_other_data_sets_are_roots_of_their_own():
    stacked = StackDataset(Subset(numbered(10), [5, 6]), Subset(numbered(10), [7, 8]))
    assert ids_of(with_instance_ids(stacked)) == [0, 1]


def test_rows_that_are_read_by_name_need_a_column():
    data = with_instance_ids(ByKey())
    assert data[3] == {"key": 3, "instance_id": 3}
    with pytest.raises(BatchError, match=r"""read by the key 'a', which is not a row number.*id="column"""):
        data["a"]
    own = with_instance_ids(Subset(ByKey(), ["a", "b"]), id="key")
    assert [row["instance_id"] for row in own] == [instance_id_of("a"), instance_id_of("b")]
    assert with_instance_ids(ByKey(), id="key").names == {}


# A tree of subsets and concatenations is drawn together with what it must give: every root row is
# labeled by its content, and the labels go through the same operations as the rows.


@st.composite
def trees(draw, roots, depth=3):
    kind = draw(st.sampled_from(["root", "subset", "concat"])) if depth else "root"
    if kind == "root":
        return draw(st.sampled_from(roots))
    if kind == "subset":
        data, content = draw(trees(roots, depth - 1))
        picks = draw(st.lists(st.integers(-len(content), len(content) - 1), max_size=6)) if content else []
        return Subset(data, picks), [content[pick] for pick in picks]
    parts = draw(st.lists(trees(roots, depth - 1), min_size=1, max_size=3))
    return ConcatDataset([data for data, _ in parts]), [row for _, content in parts for row in content]


def make_roots():
    sizes = [4, 1, 3]
    contents = [[(root, row) for row in range(size)] for root, size in enumerate(sizes)]
    return [(list(content), content) for content in contents]


def roots_in_order(data):
    """The slow twin of the walk: the distinct roots from left to right."""
    if isinstance(data, Subset):
        return roots_in_order(data.dataset)
    if isinstance(data, ConcatDataset):
        found = []
        for member in data.datasets:
            found += [root for root in roots_in_order(member) if all(root is not one for one in found)]
        return found
    return [data]


@given(st.data())
def test_ids_after_any_nesting_equal_labels_that_travelled_with_the_rows(draw):
    data, content = draw.draw(trees(make_roots()))
    label, labels = 0, {}
    for root in roots_in_order(data):
        for row in root:
            labels[row] = label
            label += 1
    expected = [(*row, labels[row]) for row in content]
    given_ids = pickle.loads(pickle.dumps(with_instance_ids(data)))
    assert list(given_ids) == expected
    assert [given_ids[index - len(expected)] for index in range(len(expected))] == expected
    assert given_ids.__getitems__(list(range(len(expected)))) == expected
