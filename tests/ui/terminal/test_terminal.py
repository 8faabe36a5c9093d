"""Long stages are foretold in a sentence, once; bars are drawn on terminals only; JSON has no NaN."""

import io

from rich.console import Console

from turnover.ui.terminal.terminal import Bars, print_json


def said_of(steps, *, total, seconds, first=0, terminal=False):
    """Return what is said while a stage goes on, `seconds` a step."""
    heard = io.StringIO()
    now = [0.0]
    console = Console(file=heard, force_terminal=terminal, width=200, color_system=None)
    with Bars(console, advice="Take fewer rows.", clock=lambda: now[0]) as watch:
        for done in range(first, first + steps + 1):
            watch("training", done, total)
            now[0] += seconds
    return heard.getvalue()


def test_a_long_stage_is_foretold_once_with_advice():
    said = said_of(20, total=10_000, seconds=1.0)
    assert said.count("training will take about") == 1
    assert "2 h 46 min" in said
    assert "Take fewer rows." in said


def test_a_short_stage_is_not_worth_a_word():
    assert said_of(20, total=40, seconds=1.0) == ""


def test_steps_of_an_earlier_day_do_not_make_the_estimate_shorter():
    assert "2 h 29 min" in said_of(20, total=10_000, seconds=1.0, first=1000)


def test_a_terminal_sees_a_bar_with_the_stage_and_its_steps():
    said = said_of(3, total=40, seconds=1.0, terminal=True)
    assert "training" in said
    assert "3/40" in said


def test_what_is_told_of_a_stage_is_no_markup():
    heard = io.StringIO()
    with Bars(Console(file=heard, force_terminal=True, width=200, color_system=None)) as watch:
        watch("[bold]stage", 1, 2, "[red]note")
    assert "[bold]stage" in heard.getvalue()
    assert "[red]note" in heard.getvalue()


def test_json_has_null_for_what_is_no_number(capsys):
    print_json({"a": [float("nan"), 1.5], "b": {"c": float("inf")}})
    assert "".join(capsys.readouterr().out.split()) == '{"a":[null,1.5],"b":{"c":null}}'
