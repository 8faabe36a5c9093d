"""The command line as a user starts it."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("sklearn", reason="needs the extra cli")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from turnover.cli.app import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_demo_ends_with_how_many_changed_labels_were_found():
    done = run("demo", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for part in (
        "of the 144 changed labels are among the 144 digits",
        "flip: half that never saw it",
        "seconds in all",
    ):
        assert part in text


def test_the_demo_prints_json():
    done = run("demo", "--epochs", "2", "--json")
    result = json.loads(done.stdout)
    assert result["changed"] == 144
    assert len(result["top_rows"]) == 144
    assert len(result["curves"]["flip"]) == 2
    assert len(result["self_influence"]) == 1437


def test_version_and_help_are_there():
    assert run("--version").stdout.startswith("turnover ")
    help_text = run("demo", "--help").stdout
    assert "changed labels" in help_text
    assert "--json" in help_text


def test_a_bad_option_ends_with_code_2_and_no_traceback():
    done = run("demo", "--epochs", "0")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
