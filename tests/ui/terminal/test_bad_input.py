"""Bad input: a sentence that says what to do, exit code 2, no traceback, and nothing half written."""

import json
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from tests.ui.terminal.conftest import SMALL_OPTIONS, image_folder, reviews


def refused(said, *parts):
    """Check that a command was refused with a sentence that has these parts."""
    assert said.code == 2, said.out + said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    sentence = " ".join(said.err.split())
    assert sentence.startswith("turnover: ")
    for part in parts:
        assert part in sentence, sentence


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
    refused(turnover_("run", "data.csv", "--text", "text", "--label", "label", *SMALL_OPTIONS), *parts)
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_a_missing_column_suggests_the_nearest(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    refused(turnover_("run", "data.csv", "--text", "txet", "--label", "label"), "Did you mean --text text?")


def test_a_missing_file_suggests_the_nearest(turnover_, tmp_path):
    (tmp_path / "reviews.csv").write_text(reviews())
    refused(turnover_("run", "review.csv"), "reviews.csv")
    assert not Path("runs").exists()


def test_nan_and_missing_values_of_a_table_are_learned_from_and_noted(turnover_, tmp_path):
    lines = [f"{'NaN' if n % 7 == 0 else n % 2},{'' if n % 5 == 0 else 'red'},{'ab'[n % 2]}" for n in range(60)]
    (tmp_path / "data.csv").write_text("\n".join(["x,color,y", *lines]))
    said = turnover_("run", "data.csv", "--label", "y", *SMALL_OPTIONS, "--json")
    assert said.code == 0, said.err
    assert any("Missing values" in note for note in said.data["notes"])


def test_a_wrong_encoding_names_the_byte_and_the_cure(turnover_, tmp_path):
    (tmp_path / "data.csv").write_bytes(reviews().replace("film", "Übung").encode("latin-1"))
    refused(turnover_("run", "data.csv"), "not UTF-8", "iconv")
    assert not Path("runs").exists()


def test_a_corrupt_image_is_named(turnover_, tmp_path):
    folder = image_folder(tmp_path / "images")
    (folder / "above" / "1.png").write_bytes(b"no image at all")
    said = turnover_("run", folder, "--image-size", "8", *SMALL_OPTIONS)
    refused(said, "1 image of 40", "above/1.png", "Replace or remove", "--skip-bad")
    assert not Path("runs").exists()


def test_pixels_that_are_nan_are_named(turnover_, tmp_path):
    images = np.random.default_rng(0).random((40, 8, 8))
    images[6, 2, 2] = np.nan
    np.savez(tmp_path / "images.npz", images=images, labels=np.arange(40) % 2)
    refused(turnover_("run", "images.npz", *SMALL_OPTIONS), "NaN or infinite (image 7)", "--skip-bad")
    assert not Path("runs").exists()


def test_bad_rows_are_left_out_where_asked_for_and_a_replay_does_so_again(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews() + ",good,good\na film,,good\n")
    said = turnover_("run", "data.csv", "--skip-bad", *SMALL_OPTIONS, "--out", "RUN", "--json")
    assert said.code == 0, said.err
    assert any("1 row without text in column 'text' skipped (line 62)" in note for note in said.data["notes"])
    assert sum(said.data["rows"].values()) == 60
    assert "skip_bad = true" in Path("RUN/config.toml").read_text()
    again = turnover_("run", "--config", "RUN/config.toml", "--out", "AGAIN", "--json")
    assert again.code == 0, again.err
    assert again.data["results"] == said.data["results"]
    refused(turnover_("run", "--config", "RUN/config.toml", "--no-skip-bad", "--out", "NEW"), "line 62", "--skip-bad")
    assert not Path("NEW").exists()


def test_a_label_unseen_in_training_is_named(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    (tmp_path / "check.csv").write_text("text,label\na film,good\na film,mixed\n")
    refused(turnover_("run", "data.csv", "--validation-data", "check.csv", *SMALL_OPTIONS), "'mixed'")
    assert not Path("runs").exists()


def test_settings_out_of_range_are_all_told_at_once(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    refused(
        turnover_("run", "data.csv", "--keep", "2", "--batch-size", "0"), "keep must be", "got 2", "batch_size must be"
    )
    assert not Path("runs").exists()


def test_a_folder_that_holds_something_else_is_left_alone(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    refused(turnover_("run", "data.csv", "--out", "mine", *SMALL_OPTIONS), "is not a run", "--out")
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
    refused(said, "there is no folder 'RUN'", "turnover run DATA --out RUN")
    assert "run.json" not in said.err
    assert not Path("RUN").exists()


def test_a_folder_or_file_that_is_no_run_is_told_apart_from_a_missing_one(turnover_, tmp_path):
    (tmp_path / "RUN").mkdir()
    (tmp_path / "file").touch()
    refused(turnover_("memorized", "RUN"), "the folder 'RUN' holds no run: there is no run.json", "turnover run DATA")
    refused(turnover_("memorized", "file"), "'file' is a file, and the folder of a run is needed", "turnover run DATA")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_of_another_version_says_how_to_run_it_again(turnover_, text_run, tmp_path, command):
    shutil.copytree(text_run, tmp_path / "RUN")
    about = json.loads((tmp_path / "RUN" / "run.json").read_text())
    (tmp_path / "RUN" / "run.json").write_text(json.dumps({**about, "format": 99}))
    refused(turnover_(*command.split()), "format", "turnover run --config")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unfinished_run_says_how_to_take_it_up_again(turnover_, text_run, tmp_path, command):
    shutil.copytree(text_run, tmp_path / "RUN")
    about = json.loads((tmp_path / "RUN" / "run.json").read_text())
    (tmp_path / "RUN" / "run.json").write_text(json.dumps({**about, "state": "begun"}))
    refused(turnover_(*command.split()), "is not finished", "turnover run --config")


@pytest.mark.parametrize(
    "damage",
    ["run.json", "rows.jsonl.gz", "inputs.json", "splits.npy", "curves.json", "model/weights.pt", "scores/mean.npz"],
)
@pytest.mark.parametrize("missing", [False, True])
def test_a_half_written_run_says_how_to_run_it_again(turnover_, text_run, tmp_path, damage, missing):
    shutil.copytree(text_run, tmp_path / "RUN")
    file = tmp_path / "RUN" / damage
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    if missing and damage not in ("run.json", "scores/mean.npz"):  # no run at all; computed anew
        file.unlink()
    said = turnover_("report", "RUN")
    refused(said, "turnover run --config RUN/config.toml --out NEW")
    assert "Save the model again" not in said.err


def test_damaged_images_of_a_run_say_how_to_run_it_again(turnover_, runs, tmp_path):
    shutil.copytree(runs["image"], tmp_path / "RUN")
    (tmp_path / "RUN" / "images.npz").write_bytes(b"PK\x03\x04 half")
    refused(turnover_("memorized", "RUN"), "turnover run --config RUN/config.toml --out NEW")


def test_damaged_settings_of_a_run_are_told_in_a_sentence(turnover_, text_run, tmp_path):
    shutil.copytree(text_run, tmp_path / "RUN")
    (tmp_path / "RUN" / "config.toml").write_text('data = "half')
    refused(turnover_("explain", "RUN", "--errors"), "config.toml' is not TOML")


def test_damaged_weights_of_a_language_model_say_how_to_run_it_again(turnover_, runs, tmp_path):
    shutil.copytree(runs["lm"], tmp_path / "RUN")
    (tmp_path / "RUN" / "model" / "0" / "weights.pt").write_bytes(b"half")
    refused(
        turnover_("explain", "RUN", "--query", "film and dull awful cold grim"),
        "turnover run --config RUN/config.toml --out NEW",
    )


def test_a_port_in_use_is_told_with_the_cure(turnover_, text_run):
    pytest.importorskip("fastapi", reason="needs the extra serve")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused(turnover_("serve", text_run, "--port", taken.getsockname()[1]), "in use", "--port")


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
