"""Folders of scores that were written once keep loading."""

import json
from pathlib import Path

import numpy as np
import pytest

from turnover.scores import Scores

FOLDER = Path(__file__).parents[1] / "golden" / "scores" / "format_1"
CONTENTS = json.loads((FOLDER / "content.json").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", CONTENTS)
def test_a_golden_folder_holds_what_was_put_into_it(name):
    assert Scores.open(FOLDER / name).equals(Scores(**CONTENTS[name]))


@pytest.mark.parametrize("name", CONTENTS)
def test_scores_in_a_golden_folder_know_their_noise(name):
    opened, made = Scores.open(FOLDER / name), Scores(**CONTENTS[name])
    assert np.array_equal(opened.p_values(), made.p_values(), equal_nan=True)
    assert np.array_equal(opened.interval(), made.interval(), equal_nan=True)
    assert np.array_equal(opened.noise.signal, made.noise.signal)
    assert opened.top(2).equals(made.top(2))


def test_reading_leaves_a_golden_folder_as_it_was():
    before = {path: path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
    repr(Scores.open(FOLDER / "store").mean())
    assert before == {path: path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
