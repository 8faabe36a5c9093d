"""Methods side by side: agreement, and tables in Markdown."""

import numpy as np
import pytest

from turnover.errors import ScoresError
from turnover.scores import Scores
from turnover_bench.checks import agreement


def values(seed, rows=50, queries=20):
    return np.random.default_rng(seed).normal(size=(rows, queries))


def test_a_method_agrees_with_itself_and_with_its_monotone_rescaling_and_not_with_chance():
    found = agreement({"a": values(0), "cubed": values(0) ** 3, "chance": values(1)}, k=10)
    assert np.allclose(found.spearman[:2, :2], 1.0)
    assert np.allclose(found.overlap[:2, :2], 1.0)
    assert abs(found.spearman[0, 2]) < 0.1
    assert found.overlap[0, 2] == pytest.approx(0.2, abs=0.1)  # 10 of 50 by chance
    assert np.allclose(found.spearman, found.spearman.T)


def test_scores_in_another_order_are_matched_by_id():
    order = np.random.default_rng(0).permutation(50)
    one, other = Scores(values(0), ids=np.arange(50) + 9), Scores(values(0)[order], ids=order + 9)
    assert agreement({"one": one, "other": other}).spearman[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: agreement({"a": values(0)}), "must have two methods or more, got 1"),
        (lambda: agreement({"a": values(0), "b": values(0)[:, :19]}), r"scores of 'b' are \[50, 19\]"),
        (lambda: agreement({"a": values(0), "b": values(1)}, k=50), "from 1 to 49 for 50 rows, got 50"),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, message):
    with pytest.raises(ScoresError, match=message):
        call()
