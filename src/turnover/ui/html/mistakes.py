"""The worst errors: unseen rows that the network is sure of and wrong about, and the training rows behind them."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turnover.applications import Explanation, Reason, explain, shared_tokens

from .data_rows import Behind, Mistake, ShownRow, Span
from .shown_rows import ShownRows

if TYPE_CHECKING:
    from turnover.runs import Run

MOST = 24
# Rows that pushed there and against it: as many as fit beside each other.
_LISTED = {"text": (5, 4), "image": (6, 6), "table": (4, 3)}
# Numbers of a table are nearly the same within this share of their standard deviation.
_NEAR = 0.1


@dataclass(frozen=True)
class Unseen:
    """Validation and test rows, and what the whole network says of them.

    Attributes:
        rows: their numbers.
        given: their labels, as class numbers.
        probabilities: [rows, classes].
    """

    rows: np.ndarray
    given: np.ndarray
    probabilities: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """Return the most probable class of each row."""
        return self.probabilities.argmax(1)

    @property
    def wrong(self) -> np.ndarray:
        """Return the places of the rows that are predicted wrongly, the surest first."""
        places = np.flatnonzero(self.predicted != self.given)
        return places[np.argsort(-self.probabilities[places].max(1), kind="stable")]


def unseen_of(run: "Run") -> Unseen:
    """Return the validation and test rows that have a label."""
    rows = np.concatenate([run.places("validation"), run.places("test")])
    rows = rows[run.rows.labels[rows] >= 0]
    return Unseen(rows, run.rows.labels[rows], run.probabilities(run.x[rows]))


def mistakes_of(run: "Run", unseen: Unseen, shown: ShownRows, *, level: float, most: int = MOST) -> tuple[Mistake, ...]:
    """Return the worst errors with the rows behind them.

    Args:
        run: whose training rows are asked.
        unseen: rows that were not trained on.
        shown: told of every row that is named.
        level: share of the rows that stand out which may be noise.
        most: at most so many errors.
    """
    rows = unseen.rows[unseen.wrong[:most]]
    if not len(rows):
        return ()
    queries = run.x[rows], run.y[rows]
    pushed, opposed = _LISTED[run.rows.kind]
    toward = explain(run.influence, queries, k=pushed, level=level, same_label=not run.rows.groups)
    # Rows of other labels argue against a prediction, so that one list of all labels says most.
    against = explain(run.influence, queries, k=opposed, level=level, same_label=False)
    makers = _Makers(run, shown)
    return tuple(makers.mistake(int(row), one, other) for row, one, other in zip(rows, toward, against, strict=True))


class _Makers:
    """Makes the parts of a report out of the parts of an explanation."""

    def __init__(self, run: "Run", shown: ShownRows) -> None:
        self._run, self._shown = run, shown
        # Rows of a group share an id; the first stands for all.
        ids, first = np.unique(run.ids[run.places("train")], return_index=True)
        self._row_of_id = dict(zip(ids.tolist(), run.places("train")[first].tolist(), strict=True))

    def mistake(self, row: int, toward: Explanation, against: Explanation) -> Mistake:
        query = self._shown(row)
        pushed, spans = self._behind(toward.pushed, query)
        opposed, more = self._behind(against.against, query)
        return Mistake(
            row=row,
            predicted=self._run.label_names[toward.predicted],
            probability=toward.probability,
            given=self._shown.label(row) or "",
            pushed=pushed,
            against=opposed,
            meaningful=toward.meaningful,
            meaningful_against=against.meaningful_against,
            marks=tuple(sorted(set(spans) | set(more))),
        )

    def _behind(self, reasons: tuple[Reason, ...], query: ShownRow) -> tuple[tuple[Behind, ...], list[Span]]:
        found: list[Behind] = []
        spans: list[Span] = []
        for reason in reasons:
            row = self._shown(self._row_of_id[reason.id])
            marks: tuple[Span, ...] = ()
            if query.text is not None and row.text is not None and row.group is None:
                shared = shared_tokens(query.text, row.text)
                marks = tuple((span.start, span.end) for span in shared.example)
                spans += [(span.start, span.end) for span in shared.query]
            same = self._near(query.row, row.row) if row.cells and row.group is None else ()
            found.append(
                Behind(row.row, reason.score, reason.stderr, reason.p_value, reason.stands_out, marks, same, row.group)
            )
        return tuple(found), spans

    def _near(self, query: int, row: int) -> tuple[str, ...]:
        """Return the columns of a table in which two rows are the same, or nearly so."""
        table = self._run.rows.values
        found: list[str] = []
        for name in table.columns:
            one, other = table[name].iloc[query], table[name].iloc[row]
            spread = self._spreads.get(str(name))
            if one == other or (spread is not None and abs(one - other) <= _NEAR * spread):
                found.append(str(name))
        return tuple(found)

    @cached_property
    def _spreads(self) -> dict[str, float]:
        numbers = self._run.rows.values.select_dtypes("number")
        return {str(name): float(spread) for name, spread in numbers.std().items() if np.isfinite(spread)}
