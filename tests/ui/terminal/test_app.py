"""The app itself: version, help, and what every command has."""

import subprocess
import sys

import pytest

COMMANDS = "demo run explain cleanse memorized audit report serve evaluate".split()


def test_help_lists_every_command_and_says_where_to_begin(turnover_):
    said = turnover_("--help")
    assert said.code == 0
    assert "Begin with: turnover demo" in said.words
    for command in COMMANDS:
        assert command in said.words


def test_the_version_is_told(turnover_):
    assert turnover_("--version").out.startswith("turnover ")


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


def test_the_installed_command_starts():
    done = subprocess.run(
        [sys.executable, "-c", "from turnover.ui.terminal import main; main()", "--version"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("turnover ")
