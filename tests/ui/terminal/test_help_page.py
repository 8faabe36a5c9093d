"""The page of commands shows what the commands say."""

import runpy
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import pytest

from turnover.runs.config import RunConfig

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "commands.md"


@pytest.fixture(scope="module")
def page():
    return runpy.run_path(str(ROOT / "docs" / "hooks" / "commands.py"))["help_page"]()


def test_the_page_of_commands_is_up_to_date(page):
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not {f"{package}=={version(package)}" for package in ("rich", "typer")} <= set(pinned):
        pytest.skip("the page is drawn by rich and typer as constraints.txt pins them")
    assert PAGE.read_text(encoding="utf-8") == page, "write it anew: python docs/hooks/commands.py > docs/commands.md"


def test_every_setting_of_a_run_has_an_option(page):
    for setting in fields(RunConfig):
        if setting.name != "data":
            assert f"--{setting.name.replace('_', '-')}" in page, setting.name
