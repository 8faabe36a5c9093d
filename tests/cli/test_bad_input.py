"""Bad input: a sentence that says what to do, exit code 2, no traceback, and nothing half written."""

import json
import shutil
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL_OPTIONS, image_folder, reviews


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
    "one row": ("text,label\na film,good\n", ["1 row"]),
    "no rows": ("text,label\n", ["no rows"]),
    "empty texts": ("text,label\n" + ",good\n,bad\n" * 20, ["has no text in any row", "--text"]),
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
    (tmp_path / "data.csv").write_text("\n".join(["x,colour,y", *lines]))
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
    refused(turnover_("run", folder, "--image-size", "8", *SMALL_OPTIONS), "above/1.png", "Replace or remove")
    assert not Path("runs").exists()


def test_a_label_unseen_in_training_is_named(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    (tmp_path / "check.csv").write_text("text,label\na film,good\na film,mixed\n")
    refused(turnover_("run", "data.csv", "--validation-data", "check.csv", *SMALL_OPTIONS), "'mixed'")
    assert not Path("runs").exists()


def test_settings_out_of_range_are_all_told_at_once(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    refused(turnover_("run", "data.csv", "--keep", "2", "--batch-size", "0"), "keep=2", "batch_size=0")
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
def test_a_folder_that_is_no_run_says_how_to_make_one(turnover_, command):
    refused(turnover_(*command.split()), "run.json is missing", "turnover run")
    assert not Path("RUN").exists()


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
    refused(turnover_(*command.split()), "did not come to its end", "turnover run --config")


@pytest.mark.parametrize("damage", ["run.json", "config.toml", "rows.jsonl.gz", "inputs.json"])
def test_a_half_written_run_is_told_in_a_sentence(turnover_, text_run, tmp_path, damage):
    shutil.copytree(text_run, tmp_path / "RUN")
    file = tmp_path / "RUN" / damage
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused(turnover_("explain", "RUN", "--errors"))


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
    said = turnover_("report", "RUN", "--open")
    assert said.code == 2
    assert "no browser" in said.err
    assert "Traceback" not in said.err
    assert (tmp_path / "RUN" / "report.html").is_file()
