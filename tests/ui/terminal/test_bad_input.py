"""Bad input: a message that says what to do, exit code 2, no traceback, and nothing half written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.ui.small_runs import image_folder, reviews
from tests.ui.terminal.conftest import SMALL_OPTIONS, rejected
from turnover.storage import to_record

FILES = {
    "one class": ("text,label\n" + "a film,good\n" * 30, ["one class only", "--label"]),
    "one row": ("text,label\na film,good\n", ["has 1 row with a label", "at least 4 rows of two classes"]),
    "no rows": ("text,label\n", ["no rows"]),
    "empty texts": ("text,label\n" + ",good\n,bad\n" * 20, ["has no text in any row", "--text"]),
    "an empty text": (reviews() + " ,good,good\n", ["1 row without text", "line 62", "Correct", "--skip-bad"]),
    "a NaN for a text": (reviews() + "NaN,good,good\n", ["1 row without text", "line 62", "--skip-bad"]),
    "a missing label": (reviews() + "a film,,good\n", ["1 row without a label", "line 62", "--skip-bad"]),
    "no labels": ("text,label\n" + "a film,\n" * 20, ["has a label", "--label"]),
    "nothing": ("", ["is empty"]),
    "ragged lines": ("text,label\na film, which is long,good\n" * 20, ["header", "quotes"]),
    "numbers as labels": ("text,label\n" + "".join(f"film {n},{n / 7}\n" for n in range(60)), ["is this the label"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_learned_from_is_refused_and_no_folder_is_made(turnover_, tmp_path, name):
    content, parts = FILES[name]
    (tmp_path / "data.csv").write_text(content)
    rejected(turnover_("run", "data.csv", "--text", "text", "--label", "label", *SMALL_OPTIONS), *parts)
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def _corrupt_image(folder: Path) -> None:
    (image_folder(folder / "images") / "lies" / "00.png").write_bytes(b"no image at all")


def _nan_pixels(folder: Path) -> None:
    images = np.random.default_rng(0).random((40, 8, 8))
    images[6, 2, 2] = np.nan
    np.savez(folder / "images.npz", images=images, labels=np.arange(40) % 2)


def _wrong_encoding(folder: Path) -> None:
    (folder / "data.csv").write_bytes(reviews().replace("film", "Übung").encode("latin-1"))


def _unseen_label(folder: Path) -> None:
    (folder / "check.csv").write_text("text,label\na film,good\na film,mixed\n")


def _nothing(folder: Path) -> None:
    pass


REJECTED: dict[str, tuple[Callable[[Path], None], str, list[str]]] = {
    "a missing column": (_nothing, "data.csv --text txet --label label", ["Did you mean --text text?"]),
    "a missing file": (_nothing, "dat.csv", ["data.csv"]),
    "settings out of range, all at once": (
        _nothing,
        "data.csv --keep 2 --batch-size 0",
        ["keep must be", "got 2", "batch_size must be"],
    ),
    "a wrong encoding": (_wrong_encoding, "data.csv", ["not UTF-8", "iconv"]),
    "a label unseen in training": (_unseen_label, "data.csv --validation-data check.csv", ["'mixed'"]),
    "a corrupt image": (
        _corrupt_image,
        "images --image-size 8",
        ["1 image of 60", "lies/00.png", "Replace or remove", "--skip-bad"],
    ),
    "pixels that are NaN": (_nan_pixels, "images.npz", ["NaN or infinite (image 7)", "--skip-bad"]),
}


@pytest.mark.parametrize("name", REJECTED)
def test_bad_data_and_settings_are_rejected_with_what_to_do_and_no_folder_is_made(turnover_, tmp_path, name):
    make, command, parts = REJECTED[name]
    (tmp_path / "data.csv").write_text(reviews())
    make(tmp_path)
    given = command.split()
    small = SMALL_OPTIONS if "--batch-size" not in given else []
    rejected(turnover_("run", *given, *small), *parts)
    assert not Path("runs").exists()


def test_nan_and_missing_values_of_a_table_are_learned_from_and_noted(turnover_, tmp_path):
    lines = [f"{'NaN' if n % 7 == 0 else n % 2},{'' if n % 5 == 0 else 'red'},{'ab'[n % 2]}" for n in range(60)]
    (tmp_path / "data.csv").write_text("\n".join(["x,color,y", *lines]))
    said = turnover_("run", "data.csv", "--label", "y", *SMALL_OPTIONS, "--json")
    assert said.code == 0, said.err
    assert any("Missing values" in note for note in said.data["notes"])


def test_bad_rows_are_left_out_where_asked_for_and_a_replay_does_so_again(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews() + ",good,good\na film,,good\n")
    said = turnover_("run", "data.csv", "--skip-bad", *SMALL_OPTIONS, "--epochs", "2", "--out", "RUN", "--json")
    assert said.code == 0, said.err
    assert any("1 row without text in column 'text' skipped (line 62)" in note for note in said.data["notes"])
    assert sum(said.data["rows"].values()) == 60
    assert "skip_bad = true" in Path("RUN/config.toml").read_text()
    again = turnover_("run", "--config", "RUN/config.toml", "--out", "AGAIN", "--json")
    assert again.code == 0, again.err
    assert again.data["results"] == said.data["results"]
    rejected(turnover_("run", "--config", "RUN/config.toml", "--no-skip-bad", "--out", "NEW"), "line 62", "--skip-bad")
    assert not Path("NEW").exists()


def test_a_folder_that_holds_something_else_is_left_alone(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    rejected(turnover_("run", "data.csv", "--out", "mine", *SMALL_OPTIONS), "is not a run", "--out")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


COMMANDS = [
    "explain RUN --errors",
    "cleanse RUN",
    "memorized RUN",
    "audit RUN",
    "report RUN",
    "serve RUN",
    "evaluate RUN",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_folder_says_how_to_make_a_run(turnover_, command):
    said = turnover_(*command.split())
    rejected(said, "there is no folder 'RUN'", "turnover run DATA --out RUN")
    assert "run.json" not in said.err
    assert not Path("RUN").exists()


def test_a_folder_or_file_that_is_no_run_is_told_apart_from_a_missing_one(turnover_, tmp_path):
    (tmp_path / "RUN").mkdir()
    (tmp_path / "file").touch()
    rejected(turnover_("memorized", "RUN"), "the folder 'RUN' holds no run: there is no run.json", "turnover run DATA")
    rejected(turnover_("memorized", "file"), "'file' is a file, and the folder of a run is needed", "turnover run DATA")


STATES = {
    "another version": ({"format": 99}, ["format", "turnover run --config"]),
    "unfinished": ({"state": "begun"}, ["is not finished", "turnover run --config"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("state", STATES)
def test_a_run_of_another_version_or_unfinished_says_how_to_run_or_resume_it(
    turnover_, text_run, tmp_path, command, state
):
    change, parts = STATES[state]
    # Nothing but these is read before the state is known.
    (tmp_path / "RUN").mkdir()
    shutil.copy(text_run / "config.toml", tmp_path / "RUN")
    about = {**json.loads((text_run / "run.json").read_text()), **change}
    del about["checksum"]
    (tmp_path / "RUN" / "run.json").write_bytes(to_record(about))
    rejected(turnover_(*command.split()), *parts)


AGAIN = "turnover run --config RUN/config.toml --out NEW"
HALF, GONE = "half", "gone"
REBUILD = "turnover run --config RUN/config.toml --out RUN"
DAMAGES = [
    *(
        ("text", file, damage, "report RUN", AGAIN if file in ("rows.jsonl.gz", "splits.npy") else REBUILD)
        for file in ("rows.jsonl.gz", "inputs.json", "splits.npy", "curves.json", "model/weights.pt")
        for damage in (HALF, GONE)
    ),
    ("text", "run.json", HALF, "report RUN", AGAIN),
    ("text", "scores/mean.npz", HALF, "report RUN", REBUILD),
    ("image", "images.npz", HALF, "memorized RUN", AGAIN),
    ("text", "config.toml", HALF, "explain RUN --errors", "turnover run DATA --out RUN"),
    ("lm", "model/0/weights.pt", HALF, "explain RUN --query the_cat_saw", REBUILD),
]


@pytest.mark.parametrize(("kind", "file", "damage", "command", "part"), DAMAGES, ids=str)
def test_a_damaged_run_says_how_to_rebuild_it_or_to_run_it_again(
    turnover_, runs, tmp_path, kind, file, damage, command, part
):
    shutil.copytree(runs[kind], tmp_path / "RUN")
    damaged = tmp_path / "RUN" / file
    if damage == GONE:
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2 + 1])
    said = turnover_(*(word.replace("_", " ") for word in command.split()))
    rejected(said, part)
    assert "Save the model again" not in said.err


def test_without_a_display_the_report_is_written_and_its_path_told(turnover_, text_run, tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))  # no browser is found there
    shutil.copytree(text_run, tmp_path / "RUN")
    assert set(turnover_("report", "RUN", "--open", "--json").data) == {"error", "exit_code"}  # and nothing else
    said = turnover_("report", "RUN", "--open")
    assert said.code == 2
    assert "no browser" in said.err
    assert "Traceback" not in said.err
    assert (tmp_path / "RUN" / "report.html").is_file()
