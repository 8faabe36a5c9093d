"""How commands end, whatever happens in them; what they suggest can be typed as it stands."""

import os
import shutil
import sys
import warnings

import pytest
import typer

from turnover.errors import RunError, TurnOverWarning
from turnover.ui.terminal.command import Terminal, command, own_name, resumable


def ending(error: BaseException | None, **options: bool) -> int:
    def fails(terminal: Terminal) -> None:
        if error is not None:
            raise error

    try:
        command(fails)(**options)
    except typer.Exit as end:
        return end.exit_code
    return 0


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (None, 0, ""),
        (RunError("give another folder."), 2, "turnover: give another folder.\n"),
        (KeyError("x"), 1, "turnover: unexpected error: KeyError: 'x'. The same command with --debug shows"),
        (MemoryError(), 1, "turnover: not enough memory. Use fewer rows"),
        (KeyboardInterrupt(), 130, "turnover: stopped."),
        (KeyboardInterrupt("type this."), 130, "turnover: type this.\n"),
    ],
    ids=str,
)
def test_every_end_has_its_code_and_sentence_and_no_traceback(error, code, sentence, capsys):
    assert ending(error) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.out == ""
    assert said.err.startswith(sentence)
    assert (said.err == "") == (code == 0)


def test_debug_shows_the_traceback_of_bad_input_too(capsys):
    assert ending(RunError("give another folder."), debug=True) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_error_is_valid_json_where_json_is_asked_for(capsys):
    ending(RunError("give another folder."), as_json=True)
    said = capsys.readouterr()
    assert said.out == '{\n  "error": "give another folder.",\n  "exit_code": 2\n}\n'
    assert "give another folder." in said.err


def test_ctrl_c_within_what_can_be_resumed_says_how():
    with pytest.raises(KeyboardInterrupt, match="type this"), resumable("type this."):
        raise KeyboardInterrupt


def test_warnings_are_remarks_without_lines_of_code(capsys):
    def warns(terminal: Terminal) -> None:
        warnings.simplefilter("always")
        warnings.warn("a small thing.", TurnOverWarning, stacklevel=1)

    command(warns)()
    assert capsys.readouterr().err == "note: a small thing.\n"


def test_json_has_null_for_what_is_no_number(capsys):
    Terminal(as_json=True).result({"a": [float("nan"), 1.5], "b": {"c": float("inf")}})
    assert "".join(capsys.readouterr().out.split()) == '{"a":[null,1.5],"b":{"c":null}}'


@pytest.fixture
def program(tmp_path, monkeypatch):
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


def test_the_name_is_enough_where_the_shell_finds_it_and_no_other_first(program, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_name() == "turnover"
    (tmp_path / "other").mkdir()
    shutil.copy(program, tmp_path / "other")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "other"), str(program.parent)]))
    assert own_name() == ".venv/bin/turnover"


def test_what_to_type_next_names_it_as_it_was_called(program, turnover_, runs, tmp_path):
    os.chdir(tmp_path)
    said = turnover_("run", "--config", runs["text"] / "config.toml", "--out", runs["text"], "--json")
    assert said.data["next"][-1] == f".venv/bin/turnover serve {runs['text']}"
