"""Commands that are suggested can be typed as they stand, also where the shell does not find `turnover`."""

import os
import sys
from pathlib import Path

import pytest

from turnover.ui.terminal.own_name import as_called, own_name


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in a folder that is not on the path, called by it."""
    file = tmp_path / ".venv" / "bin" / "turnover"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [".venv/bin/turnover", "demo"])
    return file


def test_where_the_shell_does_not_find_it_by_name_its_path_is_told(program, monkeypatch):
    assert own_name() == ".venv/bin/turnover"
    (program.parents[2] / "elsewhere").mkdir()
    monkeypatch.chdir(program.parents[2] / "elsewhere")
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert own_name() == str(program)


def test_where_the_shell_finds_it_the_name_is_enough(program, monkeypatch):
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_name() == "turnover"


def test_where_another_one_would_be_found_the_path_is_told(program, monkeypatch, tmp_path):
    other = tmp_path / "other" / "turnover"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(other.parent), str(program.parent)]))
    assert own_name() == ".venv/bin/turnover"


def test_called_in_another_way_it_has_its_name(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert own_name() == "turnover"


def test_commands_within_a_sentence_begin_as_it_was_called_and_nothing_else_changes(program):
    sentence = "made by turnover 0.1. Run it again: turnover run --config turnover/config.toml --out NEW"
    assert as_called(sentence) == (
        "made by turnover 0.1. Run it again: .venv/bin/turnover run --config turnover/config.toml --out NEW"
    )


def test_what_to_type_next_and_errors_name_it_as_it_was_called(program, turnover_, runs, tmp_path):
    os.chdir(tmp_path)
    said = turnover_("run", "--config", runs["text"] / "config.toml", "--out", runs["text"], "--json")
    assert said.data["next"][-1] == f".venv/bin/turnover serve {runs['text']}"
    assert ": .venv/bin/turnover run DATA --out RUN" in turnover_("memorized", "RUN").err
    assert not Path("RUN").exists()
