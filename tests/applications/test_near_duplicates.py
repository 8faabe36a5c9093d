"""Rows that are the same or nearly the same."""

import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnover.applications import near_duplicates
from turnover.errors import ApplicationError

SENTENCE = "the quick brown fox jumps over the lazy dog while nobody is looking at it from the other side"


def test_texts_that_differ_in_case_signs_and_spaces_are_the_same():
    found = near_duplicates(
        ["It's GREAT!", "something else entirely", "it’s  great", "its great", "\uff29T'S great"], threshold=1
    )
    assert found.groups == ((0, 2, 4),)
    assert found.exact == (True,)
    assert found.group_of.tolist() == [0, -1, 0, -1, 0]
    assert found.twins(2) == (0, 4)
    assert found.twins(1) == ()


def test_a_changed_word_is_a_near_duplicate_and_another_sentence_is_not():
    changed = SENTENCE.replace("nobody", "no one")
    found = near_duplicates([SENTENCE, "a completely different sentence about something else", changed], threshold=0.85)
    assert found.groups == ((0, 2),)
    assert found.exact == (False,)


def test_texts_of_a_wrong_encoding_are_compared_too():
    broken = b"caf\xe9 noir".decode("utf-8", "surrogateescape")
    assert near_duplicates([broken, "something else", broken + "!", ""]).groups == ((0, 2),)


def test_all_pairs_above_the_threshold_are_found_among_many_texts():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), 6)) for _ in range(2000)]
    texts = [" ".join(rng.choice(words, 14)) for _ in range(1000)]
    twins = [text.replace(text.split()[5], "another") for text in texts[:300]]
    found = near_duplicates(texts + twins, threshold=0.85)
    assert {(place, 1000 + place) for place in range(300)} == set(found.groups)


def plain_words(text):
    """Return a text of a, b and signs without signs and runs of spaces; signs only stay as they are."""
    return " ".join(text.replace("!", " ").split()) or " ".join(text.split())


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="ab !", max_size=6), max_size=12))
def test_exact_groups_are_the_texts_with_one_normal_form(texts):
    found = near_duplicates(texts, threshold=1)
    for one in range(len(texts)):
        same = [
            other
            for other in range(len(texts))
            if other != one and plain_words(texts[other]) == plain_words(texts[one])
        ]
        assert list(found.twins(one)) == same


def test_features_that_point_the_same_way_are_near():
    x = torch.eye(5).repeat(2, 1)
    x[7] += 0.05
    found = near_duplicates(features=x, threshold=0.95)
    assert found.groups == ((0, 5), (1, 6), (2, 7), (3, 8), (4, 9))
    assert found.exact == (True, True, False, True, True)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 0.99))
def test_groups_of_features_are_the_connected_parts_of_all_pairs(seed, threshold):
    x = np.random.default_rng(seed).normal(size=(30, 2)).astype(np.float32)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    reached = unit @ unit.T >= threshold
    for _ in range(5):
        reached = reached @ reached
    found = near_duplicates(features=x, threshold=threshold)
    for one in range(30):
        assert set(found.twins(one)) | {one} == set(np.flatnonzero(reached[one]).tolist())


def test_blocks_meet_each_other():
    x = np.random.default_rng(0).normal(size=(4200, 16)).astype(np.float32)
    x[4199] = 2 * x[0] + 0.01
    assert near_duplicates(features=x, threshold=0.999).groups == ((0, 4199),)


@pytest.mark.parametrize("width", [6, 64])
def test_of_many_rows_hashing_finds_the_pairs_that_all_comparisons_find(width, monkeypatch):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(3000, width)).astype(np.float32)
    x[2000:2400] = x[:400] * 3 + 0.005 * draw.normal(size=(400, width)).astype(np.float32)
    compared = near_duplicates(features=x, threshold=0.999)
    monkeypatch.setattr(sys.modules[near_duplicates.__module__], "_ALL_PAIRS", 100)
    hashed = near_duplicates(features=x, threshold=0.999)
    assert (compared.hashed, hashed.hashed) == (False, True)
    assert len(compared.groups) >= 400
    assert set(hashed.groups) == set(compared.groups)


@pytest.mark.parametrize(("threshold", "share"), [(0.99, 0.99), (0.9, 0.97)])
def test_pairs_just_above_the_threshold_are_found_among_many_rows(threshold, share, monkeypatch):
    monkeypatch.setattr(sys.modules[near_duplicates.__module__], "_ALL_PAIRS", 100)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(8000, 64))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    beside = draw.normal(size=(1000, 64))
    beside -= (beside * x[:1000]).sum(1, keepdims=True) * x[:1000]
    beside /= np.linalg.norm(beside, axis=1, keepdims=True)
    cosine = threshold + 0.001
    x[1000:2000] = cosine * x[:1000] + np.sqrt(1 - cosine**2) * beside
    pairs = {(row, row + 1000) for row in range(1000)}
    assert len(pairs & set(near_duplicates(features=x, threshold=threshold).groups)) >= share * len(pairs)


def test_many_equal_rows_take_no_memory_for_pairs():
    x = np.ones((20_000, 4), np.float32)
    tracemalloc.start()
    found = near_duplicates(features=x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(group) for group in found.groups] == [20_000]
    assert peak < 50e6  # all pairs would be 400 MB as bits alone


def test_no_rows_have_no_duplicates():
    assert near_duplicates([]).groups == ()
    assert near_duplicates(features=np.empty((0, 3))).groups == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either texts or features"),
        ({"texts": ["a"], "features": [[1.0]]}, "either texts or features"),
        ({"texts": "one text"}, "a list of strings"),
        ({"texts": ["a", 3]}, "a list of strings"),
        ({"texts": ["a"], "threshold": 0}, "such as 0.9"),
        ({"features": [1.0, 2.0]}, r"Give \[rows, features\]"),
        ({"features": [[1.0, float("nan")]]}, "not finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(given, message):
    with pytest.raises(ApplicationError, match=message):
        near_duplicates(**given)
