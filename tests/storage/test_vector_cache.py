"""Vectors by content, kept across runs: found again by anyone, never in the way."""

import os
from pathlib import Path

import numpy as np
import pytest

from turnover.storage import VectorCache, cache_folder, content_keys


def keys_of(*texts):
    return content_keys(text.encode() for text in texts)


def vectors_of(*numbers):
    return np.array(numbers, np.float32)[:, None] * np.ones((1, 3), np.float32)


def test_vectors_are_found_by_content_in_any_order_and_in_several_files(tmp_path):
    VectorCache(tmp_path, {"encoder": "a"}).add(keys_of("one", "two"), vectors_of(1, 2))
    VectorCache(tmp_path, {"encoder": "a"}).add(keys_of("three"), vectors_of(3))
    known, vectors = VectorCache(tmp_path, {"encoder": "a"}).find(keys_of("three", "none", "one", "two", "one"), 3)
    assert known.tolist() == [True, False, True, True, True]
    assert vectors[known, 0].tolist() == [3, 1, 2, 1]


@pytest.mark.parametrize(("identity", "width"), [({"encoder": "b"}, 3), ({"encoder": "a"}, 4)])
def test_what_another_encoder_made_is_not_taken(tmp_path, identity, width):
    VectorCache(tmp_path, {"encoder": "a"}).add(keys_of("one"), vectors_of(1))
    assert not VectorCache(tmp_path, identity).find(keys_of("one"), width)[0].any()


@pytest.mark.parametrize("content", [b"", b"no npz", None])
def test_a_damaged_file_is_as_good_as_none(tmp_path, content):
    cache = VectorCache(tmp_path, {"encoder": "a"})
    cache.add(keys_of("one"), vectors_of(1))
    (file,) = tmp_path.glob("*/*.npz")
    file.write_bytes(file.read_bytes()[:-40] if content is None else content)
    assert not cache.find(keys_of("one"), 3)[0].any()
    cache.add(keys_of("one"), vectors_of(1))
    assert cache.find(keys_of("one"), 3)[0].all()


def test_beyond_the_size_what_was_not_used_for_longest_goes(tmp_path):
    cache = VectorCache(tmp_path, {"encoder": "a"}, most_bytes=10_000)
    for number in range(3):
        cache.add(keys_of(f"text {number}"), np.full((1, 1000), number, np.float32))  # somewhat over 4 kB
        for place, file in enumerate(sorted(tmp_path.glob("*/*.npz"), key=lambda file: file.stat().st_mtime)):
            os.utime(file, (place, place))
        if number == 1:
            assert cache.find(keys_of("text 0"), 1000)[0].all()  # used now
    assert cache.find(keys_of("text 0", "text 1", "text 2"), 1000)[0].tolist() == [True, False, True]


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_time(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = VectorCache(tmp_path / "file", {"encoder": "a"})
    cache.add(keys_of("one"), vectors_of(1))
    assert not cache.find(keys_of("one"), 3)[0].any()


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"TURNOVER_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/turnover")),
        ({}, Path("~/.cache/turnover").expanduser()),
        ({"TURNOVER_CACHE": ""}, None),
    ],
    ids=["own", "xdg", "home", "off"],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, variables, folder):
    for name in ("TURNOVER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == folder
