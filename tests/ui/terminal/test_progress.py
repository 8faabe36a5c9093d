"""One bar and one estimate for a whole run; where nobody sees a bar, sentences."""

import io

import pytest
from rich.console import Console

from turnover.ui.terminal.progress import Bars, Estimate

EXPECTED = {"features": 10.0, "training": 60.0, "scoring": 20.0, "report": 10.0}


def said_of(stages, *, terminal=False, expected=EXPECTED):
    """Return what is said while stages go by, given as (name, seconds, steps)."""
    heard, now = io.StringIO(), [0.0]
    console = Console(file=heard, force_terminal=terminal, width=200, color_system=None)
    with Bars(console, advice="Take fewer rows.", clock=lambda: now[0]) as watch:
        watch.expect(expected)
        for stage, seconds, steps in stages:
            for done in range(steps + 1):
                watch(stage, done, steps, "a note")
                now[0] += seconds / (steps + 1)
    return heard.getvalue()


@pytest.mark.parametrize("slower", [0.5, 1.0, 7.0])
@pytest.mark.parametrize("steps", [1, 50])
def test_what_is_left_is_what_was_expected_times_how_much_slower_the_stages_before_were(slower, steps):
    estimate, now = Estimate(), 0.0
    seconds = {stage: 100 * value for stage, value in EXPECTED.items()}
    estimate.expect(seconds)
    whole = slower * sum(seconds.values())
    for stage, expected in seconds.items():
        for step in range(steps):
            estimate.step(stage, step / steps, now)
            if now > 0.1 * whole:
                assert estimate.left(now) == pytest.approx(whole - now, rel=0.1 if steps > 1 else 0.25)
            now += slower * expected / steps
    assert estimate.done(now) > 0.95


def test_a_stage_that_is_faster_than_expected_shortens_the_estimate_as_it_goes():
    estimate = Estimate()
    estimate.expect({"training": 1000.0})
    for second in range(20):
        estimate.step("training", second / 100, float(second))
    assert estimate.left(20.0) == pytest.approx(80, rel=0.1)


def test_steps_of_an_earlier_day_do_not_make_the_estimate_shorter():
    estimate = Estimate()
    estimate.expect({"training": 100.0})
    for second in range(20):
        estimate.step("training", 0.5 + second / 100, float(second))
    assert estimate.left(20.0) == pytest.approx(31, rel=0.1)


def test_nothing_is_foretold_before_anything_is_known():
    estimate = Estimate()
    estimate.step("reading", 0.5, 1.0)
    assert estimate.left(2.0) is None


def test_a_long_run_is_foretold_with_advice_once_and_again_when_twice_the_time_has_passed():
    said = said_of([("features", 100, 100), ("training", 600, 600)])
    assert said.splitlines()[0].startswith("features: 21 s done, about ")
    assert said.splitlines()[0].endswith(" left. Take fewer rows.")
    assert said.count("left.") == 6
    assert said.count("Take fewer rows.") == 1


def test_a_short_run_is_not_worth_a_word():
    assert said_of([("features", 10, 10), ("training", 40, 10)]) == ""


def test_a_terminal_sees_one_bar_with_the_stage_its_steps_and_the_time_left():
    said = said_of([("features", 10, 10), ("training", 30, 40)], terminal=True)
    for part in ("training", "40/40", "a note", "left"):
        assert part in said


def test_what_is_told_of_a_stage_is_no_markup():
    heard = io.StringIO()
    with Bars(Console(file=heard, force_terminal=True, width=200, color_system=None)) as watch:
        watch("[bold]stage", 1, 2, "[red]note")
    assert "[bold]stage" in heard.getvalue()
    assert "[red]note" in heard.getvalue()
