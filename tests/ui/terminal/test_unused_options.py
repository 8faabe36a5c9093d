"""Options that exclude each other, or that a kind of data has no use for, are rejected and never ignored."""

import json

import numpy as np
import pytest

from tests.ui.small_runs import image_folder
from tests.ui.terminal.conftest import rejected

_ASKED = ["--query", "the cat saw a dog"]


@pytest.mark.parametrize(
    ("command", "kind", "options", "parts"),
    [
        ("explain", "text", ["--row", "1", "--most", "2"], ["--most would do nothing", "Give --errors"]),
        ("explain", "group", ["--row", "1", "--all-labels"], ["--all-labels would do nothing", "groups have no label"]),
        ("explain", "number", ["--row", "1", "--all-labels"], ["--all-labels would do nothing", "are numbers"]),
        ("explain", "table", ["--query", "weight=1,weight=2"], ["column 'weight' twice"]),
        ("explain", "table", ["--query", '{"weight": 1, "weight": 2}'], ["turnover: --query has the column 'weight'"]),
        ("explain", "table", ["--query", "weight=1, red"], ["'red', which names no column", '\'{"column": "a, b"}\'']),
        ("cleanse", "text", ["--seeds", "3"], ["--seeds would do nothing", "Give --retrain"]),
        ("annotate", "text", ["--labels", "a.json", "--out", "a.csv", "--most", "3"], ["--most would do nothing"]),
        ("annotate", "text", ["--labels", "a.json", "--out", "a.csv", "--tool", "argilla"], ["--tool would do"]),
        ("evaluate", "text", ["--truth", "label"], ["--truth would do nothing", "lds,mislabels"]),
        (
            "evaluate",
            "text",
            ["--metrics", "self", "--truth", "truth", "--subsets", "3"],
            ["--subsets would do nothing", "lds"],
        ),
    ],
)
def test_options_of_other_questions_are_rejected(turnover_, runs, command, kind, options, parts):
    rejected(turnover_(command, runs[kind], *options), *parts)


@pytest.mark.parametrize(
    ("data", "options", "parts"),
    [
        ("t.csv", ["--label", "y", "--image-size", "8"], ["image_size is for images", "read as tables"]),
        ("t.csv", ["--label", "y", "--model", "x"], ["model is for texts"]),
        ("t.csv", ["--label", "y", "--text", "a", "--columns", "a"], ["columns is for tables", "read as texts"]),
        ("t.csv", ["--label", "y", "--validation", "0.2", "--validation-data", "t.csv"], ["Omit one"]),
        ("t.csv", ["--label", "y", "--test", "0.2", "--test-data", "t.csv"], ["Omit one"]),
        ("c.txt", [], ["'c.txt' is for a language model", "docs/language-models.md"]),
        ("t.csv", ["--task", "lm"], ["Hugging Face", "docs/language-models.md"]),
        ("t.csv", ["--task", "video"], ["task must be 'text', 'image'", "got 'video'"]),
        ("i.npz", ["--group", "a"], ["no groups"]),
        ("i.npz", ["--task", "text"], ["task is 'text'", "read as images"]),
        ("images", ["--label", "y"], ["--label y needs a column", "labels.csv"]),
    ],
)
def test_settings_that_the_data_has_no_use_for_are_rejected_and_leave_no_folder(
    turnover_, tmp_path, monkeypatch, data, options, parts
):
    monkeypatch.chdir(tmp_path)
    rows = [f"word{row} here,{row % 2}" for row in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *rows]))
    (tmp_path / "c.txt").write_text("a small text of some words\n" * 60)
    images = np.arange(20, dtype=np.uint8)[:, None, None] + np.zeros((8, 8), np.uint8)
    np.savez(tmp_path / "i.npz", images=images, labels=[0, 1] * 10)
    image_folder(tmp_path / "images")
    said = turnover_("run", data, *options, "--out", "RUN")
    rejected(said, *(part.replace("'c.txt'", f"'{tmp_path / 'c.txt'}'") for part in parts))
    assert not (tmp_path / "RUN").exists()


def test_as_many_are_listed_as_were_asked_for(turnover_, runs):
    every = turnover_("memorized", runs["text"], "--json").data["likely_label_errors"]
    first = turnover_("memorized", runs["text"], "--most", "1", "--json").data["likely_label_errors"]
    assert len(every["items"]) > 1
    assert json.dumps(first["items"]) == json.dumps(every["items"][:1])
    assert first["count"] == every["count"]
