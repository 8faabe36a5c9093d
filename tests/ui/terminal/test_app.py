"""The app itself: version, help, and what every command has."""

import subprocess
import sys

import pytest

from turnover.ui.terminal import main
from turnover.ui.terminal.app import COMMANDS, function_of


def test_help_lists_every_command_and_says_where_to_begin(turnover_):
    said = turnover_("--help")
    assert said.code == 0
    assert "Begin with: turnover demo" in said.words
    for command in COMMANDS:
        assert command in said.words


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_debug_and_an_example(turnover_, command):
    said = turnover_(command, "--help")
    for part in ("--json", "--debug", f"turnover {command}", "xample"):
        assert part in said.out


def test_an_unknown_option_ends_with_code_2_and_a_suggestion(turnover_):
    said = turnover_("run", "--labl", "x")
    assert said.code == 2
    assert "--label" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_needs_no_command_loads_none(option):
    code = (
        f"import sys; sys.argv = ['turnover', {option!r}]\n"
        "from turnover.ui.terminal import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "print(sum(name.split('.')[0] == 'turnover' for name in sys.modules), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules, torch = done.stdout.split()[-2:]
    assert int(modules) <= 60
    assert torch == "False"


@pytest.mark.parametrize("package", ["rich", "typer"])
def test_without_its_packages_the_command_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        SystemExit, match=rf"{package}.*'turnover\[cli\]' \(in a clone of turnover: pip install '\.\[cli\]'"
    ):
        main()


def test_the_installed_command_starts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["turnover", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("turnover ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says_first(command):
    _, summary = COMMANDS[command]
    assert function_of(command).__doc__.startswith(f"{summary}\n")
