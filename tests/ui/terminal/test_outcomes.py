"""How commands end, whatever happens in them."""

import warnings

import pytest
import typer

from turnover.errors import RunError, TurnOverWarning
from turnover.ui.terminal.outcomes import Stopped, guarded, resumable


def ending(error: BaseException | None, **options: bool) -> int:
    """Return the exit code of a command in which this happens."""

    def command(*, as_json: bool = False, debug: bool = False) -> None:
        if error is not None:
            raise error

    try:
        guarded(command)(**options)
    except typer.Exit as end:
        return end.exit_code
    return 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (RunError("give another folder."), 2),
        (KeyError("x"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
        (Stopped("type this."), 130),
    ],
    ids=str,
)
def test_every_end_has_its_code_and_no_traceback(error, code, capsys):
    assert ending(error) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.out == ""
    assert (said.err == "") == (code == 0)


def test_bad_input_is_told_in_the_error_s_own_sentence(capsys):
    ending(RunError("give another folder."))
    assert capsys.readouterr().err == "turnover: give another folder.\n"


def test_the_unexpected_says_how_to_see_more(capsys):
    ending(KeyError("x"))
    assert "--debug" in capsys.readouterr().err


def test_debug_shows_the_traceback_of_bad_input_too(capsys):
    assert ending(RunError("give another folder."), debug=True) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_error_is_valid_json_where_json_is_wanted(capsys):
    ending(RunError("give another folder."), as_json=True)
    said = capsys.readouterr()
    assert said.out == '{\n  "error": "give another folder.",\n  "exit_code": 2\n}\n'
    assert "give another folder." in said.err


def test_ctrl_c_within_what_can_be_resumed_says_how():
    with pytest.raises(Stopped, match="type this"), resumable("type this."):
        raise KeyboardInterrupt


def test_warnings_are_remarks_without_lines_of_code(capsys):
    def command(*, as_json: bool = False, debug: bool = False) -> None:
        warnings.simplefilter("always")
        warnings.warn("a small thing.", TurnOverWarning, stacklevel=1)

    guarded(command)()
    assert capsys.readouterr().err == "note: a small thing.\n"
