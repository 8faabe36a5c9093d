"""Tables as a notebook shows them, read by a parser of HTML."""

from html.parser import HTMLParser

import numpy as np

from turnover.scores import OutOfSample, Scores
from turnover.tables import html_table

HOSTILE = "<script>alert(1)</script>"


class _Seen(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


def seen(result: object) -> _Seen:
    found = _Seen(result._repr_html_())  # pyright: ignore[reportAttributeAccessIssue]
    assert found.open == []
    assert found.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "span"}
    return found


def test_a_list_shows_ids_scores_and_bars():
    null = np.random.default_rng(0).normal(size=(1000, 2))
    top = Scores([[9.0, 0.1], [-0.2, 0.3], [-8.0, 0.2]], ids=[7, 8, 9], queries=["a", HOSTILE], null=null).top(2)
    found = seen(top)
    assert any(cell.startswith("+9 ±") and cell.endswith("*") for cell in found.cells)
    assert {"7", "8", "9", "a"} <= set(found.cells)
    assert any(cell.startswith("<script>") for cell in found.cells)
    assert top._repr_html_().count("opacity:.55") == 6  # one entry of a on either side, and all four of the other


def test_scores_show_what_they_are_and_their_lists():
    found = seen(Scores([[0.5], [-1.0]], ids=[7, 8], queries=[HOSTILE], path="a path"))
    assert {"a path", "7", "8"} <= set(found.cells)


def test_predictions_show_the_least_likely_labels():
    found = seen(OutOfSample([[0.9, 0.1], [0.2, 0.8]], ids=[7, 8], labels=[1, 1]))
    at = found.cells.index("7")
    assert found.cells[at : at + 4] == ["7", "1", "0", "0.100"]
    assert "quality" not in seen(OutOfSample([[0.9, 0.1]], ids=[7])).cells


def test_a_title_is_escaped():
    assert "<script>" not in html_table(HOSTILE, [], below=[HOSTILE])
