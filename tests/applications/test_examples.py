"""Ids, labels and places of training instances."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import turnover
from turnover.applications.examples import TrainInstances
from turnover.applications.results import checked_count
from turnover.errors import ApplicationError, InfluenceError


@given(st.lists(st.integers(0, 40), min_size=1, max_size=20, unique=True), st.lists(st.integers(-1, 41), max_size=8))
def test_places_are_those_of_the_ids_and_minus_one_for_others(ids, asked):
    known = TrainInstances(np.array(ids), None)
    assert known.positions(np.array(asked, np.int64)).tolist() == [ids.index(i) if i in ids else -1 for i in asked]


def test_ids_and_labels_come_from_the_training_data_in_its_order(digits):
    order = torch.randperm(500)
    inf = turnover.Influence(digits.model, estimator="tod", train=(digits.x[order], digits.y[order], order))
    known = TrainInstances.of(inf, None, needed=True)
    assert known.mask_ids.tolist() == order.tolist()
    assert known.labels.tolist() == digits.y[order].tolist()
    assert inf.models == (digits.model,)


def test_labels_of_mixed_groups_are_not_known_unless_they_are_given(digits):
    inf = turnover.Influence(digits.model, estimator="tod", train=(digits.x, digits.y, torch.arange(500) % 5))
    assert TrainInstances.of(inf, None, needed=False).labels is None
    assert TrainInstances.of(inf, range(5), needed=True).labels.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InfluenceError, match="different labels"):
        TrainInstances.of(inf, None, needed=True)


@pytest.mark.parametrize("count", [0, -1, 1.5, "3", True, None])
def test_what_is_no_count_is_refused(count):
    with pytest.raises(ApplicationError, match="most must be an integer >= 1"):
        checked_count(count, "most")
