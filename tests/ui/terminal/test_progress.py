"""One bar for a whole run, and silence where nobody sees it."""

import io

import pytest
from rich.console import Console

from turnover.ui.terminal.command import Bars


def said_of(*steps, terminal):
    heard = io.StringIO()
    with Bars(Console(file=heard, force_terminal=terminal, width=200, color_system=None)) as watch:
        for step in steps:
            watch(*step)
    return heard.getvalue()


def test_a_terminal_sees_one_bar_with_the_stage_its_steps_and_a_note():
    said = said_of(("features", 10, 10, ""), ("training", 40, 40, "a note"), terminal=True)
    for part in ("training", "40/40", "100%", "a note"):
        assert part in said


@pytest.mark.parametrize("part", ["[bold]stage", "[red]note"])
def test_what_is_told_of_a_stage_is_no_markup(part):
    assert part in said_of(("[bold]stage", 1, 2, "[red]note"), terminal=True)
