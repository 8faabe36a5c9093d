"""Scores of tokens beside those of rows: kept, selected, joined, saved."""

import pickle

import numpy as np
import pytest

from turnover.errors import ScoresError
from turnover.scores import Scores

TOKENS = [[1.0, 2.0], [4.0], [], [0.5, np.nan, 0.5]]


@pytest.fixture
def scores():
    return Scores([1.5, 4.0, 0.0, 0.5], ids=[7, 8, 9, 3]).with_tokens(TOKENS)


def rows_of(scores):
    return [scores.tokens(row).tolist() for row in range(len(scores))]


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def test_every_row_gets_its_own_tokens_back_read_only(scores):
    assert same(rows_of(scores), TOKENS)
    assert scores.tokens(0).dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        scores.tokens(0)[0] = 1


def test_selected_and_joined_rows_keep_their_tokens(scores):
    assert same(rows_of(scores.select(ids=[3, 7])), [TOKENS[3], TOKENS[0]])
    other = Scores([1.0], ids=[1]).with_tokens([[9.0]])
    assert same(rows_of(Scores.concat([scores, other], over="ids")), [*TOKENS, [9.0]])


def test_parts_of_which_only_some_have_tokens_are_not_joined(scores):
    with pytest.raises(ScoresError, match="others have none"):
        Scores.concat([scores, Scores([1.0], ids=[1])], over="ids")


def test_scores_with_other_tokens_are_not_equal(scores):
    without = Scores(scores.values, ids=scores.ids)
    assert not scores.equals(without)
    assert not without.equals(scores)
    assert not scores.equals(without.with_tokens([*TOKENS[:3], [0.5]]))
    assert scores.equals(without.with_tokens(TOKENS))


def test_saving_and_pickling_lose_no_token(scores, tmp_path):
    pytest.importorskip("zarr", reason="zarr is missing: pip install 'turnover[store]'")
    scores.save(tmp_path / "scores")
    scores.save(tmp_path / "scores")
    assert Scores.open(tmp_path / "scores").equals(scores)
    again = pickle.loads(pickle.dumps(scores))
    assert again.equals(scores)
    assert not again.tokens(0).flags.writeable


@pytest.mark.parametrize("row", [4, -1, 1.0, True])
def test_a_row_that_is_not_there_is_an_error(scores, row):
    with pytest.raises(ScoresError, match="place among the 4 rows"):
        scores.tokens(row)


def test_tokens_that_fit_no_rows_are_refused():
    with pytest.raises(ScoresError, match=r"tokens of 2 rows for scores of shape \[1\]"):
        Scores([1.0], ids=[7]).with_tokens([[1.0], [2.0]])
    with pytest.raises(ScoresError, match="shape"):
        Scores([[1.0]], ids=[7]).with_tokens([[1.0]])
    with pytest.raises(ScoresError, match="one list"):
        Scores([1.0], ids=[7]).with_tokens([[[1.0]]])
