"""Charts as geometry: everything lies within the frame, and where it should."""

from hypothesis import given
from hypothesis import strategies as st

from turnover.applications import Histogram
from turnover.ui.html.charts import bar_chart, line_chart, nice_ticks


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_round_and_within(low, span):
    ticks = nice_ticks(low, low + span)
    assert len(ticks) <= 7
    slack = 1e-6 * max(span, abs(low))
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)


def test_a_lower_loss_is_drawn_lower():
    chart = line_chart({"keep": [0.5, 0.1], "flip": [0.5, 0.9]})
    keep, flip = (line["end"] for line in chart["lines"])
    assert keep[1] > flip[1]  # SVG counts downwards
    assert keep[0] == flip[0] == chart["right"]


def test_bars_stand_on_the_floor_and_the_tallest_counts_most():
    chart = bar_chart(Histogram((-1.0, 0.0, 1.0, 2.0), (3, 100, 1)))
    bars = chart["bars"]
    assert {round(bar["y"] + bar["height"], 6) for bar in bars} == {chart["bottom"]}
    assert max(bars, key=lambda bar: bar["height"])["text"].endswith(": 100")
    assert all(0 <= bar["x"] <= chart["width"] and 0 <= bar["y"] <= chart["height"] for bar in bars)
    assert bars[2]["height"] > 0  # one row among hundreds is seen
    assert chart["zero"] is not None
