"""The lists of a Top as people see them: lines of text, a table for a notebook, entries of a figure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import zip_longest
from typing import Any, Literal

from turnover.ids import Ids, Ints, Name
from turnover.tables import Html, aligned, counted, faded, html_table, score_bar, shown_row

from ._arrays import Floats
from ._formats import shortened
from ._views import Views
from .significance import Bools

Side = Literal["helpful", "harmful"]

_MOST_QUERIES = 5
_MOST_IN_TEXT = 3
_MOST_IN_NOTEBOOK = 10
_MARK = "*"
_REST = "..."


@dataclass(frozen=True)
class Entry:
    """An instance in a list."""

    side: Side
    instance: str
    score: float
    stderr: float | None
    marked: bool | None  # whether it is significant; None: not known
    mask_id: int
    views: Views

    @cached_property
    def row(self) -> Any:
        """Return the instance as people see it: uint8 pixels, a text, or None."""
        return self.views.instance(self.mask_id)

    @property
    def text(self) -> str:
        """Return the score with its standard error."""
        return f"{self.score:+.3g}" + ("" if self.stderr is None else f" ± {self.stderr:.2g}")

    @property
    def mark(self) -> str:
        """Return what stands behind a score that is significant."""
        return _MARK if self.marked else ""


@dataclass(frozen=True)
class SideOfTop:
    """All lists of one side [m, k]."""

    name: Side
    ids: Ids
    mask_ids: Ints
    scores: Floats
    stderr: Floats | None
    marked: Bools | None  # which are significant; None: not known


@dataclass(frozen=True)
class ShownLists:
    """Both lists of every query, of which the first are shown."""

    head: str
    queries: tuple[Name, ...] | None  # None: one pair of lists that is not about a query
    sides: tuple[SideOfTop, SideOfTop]
    views: Views

    def entries(self, query: int, side: SideOfTop) -> list[Entry]:
        """Return a list of the query at a place."""
        return [
            Entry(
                side=side.name,
                instance=str(side.ids[query, place]),
                score=float(side.scores[query, place]),
                stderr=None if side.stderr is None else float(side.stderr[query, place]),
                marked=None if side.marked is None else bool(side.marked[query, place]),
                mask_id=mask_id,
                views=self.views,
            )
            for place, mask_id in enumerate(side.mask_ids[query].tolist())
            if mask_id >= 0
        ]

    def text(self) -> str:
        """Return the first entries of the first queries, one query per line."""
        rows = [["query", "most helpful: id (score)", "most harmful: id (score)"]]
        rows += [[name, *map(_line, sides)] for name, sides in self._first()]
        if self.queries is None:
            rows = [row[1:] for row in rows]
        return "\n".join([self.head, *(f"  {line}" for line in [*aligned(rows), *self._below])])

    def html(self) -> str:
        """Return the first entries of the first queries with a bar for each score, faded where not significant."""
        rows: list[list[str]] = []
        for place, (name, sides) in enumerate(self._first()):
            shown = [side[:_MOST_IN_NOTEBOOK] for side in sides]
            largest = max((abs(entry.score) for side in shown for entry in side), default=0.0)
            query = None if self.queries is None else self.views.query(self.queries[place])
            name = Html(f"{escape(name)}{shown_row(query)}")
            cells = [[_cells(entry, largest, query) for entry in side] for side in shown]
            for column, side in zip(cells, sides, strict=True):
                column += [[_REST, "", ""]] if len(side) > _MOST_IN_NOTEBOOK else []
            for helpful, harmful in zip_longest(*cells, fillvalue=["", "", ""]):
                rows.append([name, *helpful, *harmful])
                name = ""
        header = ["query", "most helpful", "", "", "most harmful", "", ""]
        if self.queries is None:
            header, rows = header[1:], [row[1:] for row in rows]
        return html_table(self.head, rows, header=header, below=self._below)

    def _first(self) -> Iterator[tuple[str, list[list[Entry]]]]:
        """Yield the first queries by name, with both lists."""
        for query in range(min(_MOST_QUERIES, len(self.sides[0].ids))):
            name = "" if self.queries is None else shortened(self.queries[query])
            yield name, [self.entries(query, side) for side in self.sides]

    @property
    def _below(self) -> list[str]:
        """Return what stands below the lists of the first queries."""
        rest = len(self.sides[0].ids) - _MOST_QUERIES
        more = [f"and {counted(rest, 'more query', 'more queries')}"] if rest > 0 else []
        return more if self.sides[0].marked is None else [*more, f"{_MARK} significant (FDR 5 %)"]


def _line(entries: Sequence[Entry]) -> str:
    """Return the first entries of a list in one line."""
    first = [f"{shortened(entry.instance)} ({entry.text}){entry.mark}" for entry in entries[:_MOST_IN_TEXT]]
    return ", ".join(first + [_REST] * (len(entries) > _MOST_IN_TEXT)) or "none"


def _cells(entry: Entry, largest: float, query: Any) -> list[str]:
    """Return the cells of an entry for a notebook: id and what is known of its row, score, bar."""
    text = Html(f'<span style="white-space:nowrap">{escape(entry.text)}{entry.mark}</span>')
    shown = Html(f"{escape(shortened(entry.instance))}{shown_row(entry.row, query)}")
    return [shown, faded(text) if entry.marked is False else text, score_bar(entry.score, largest)]
