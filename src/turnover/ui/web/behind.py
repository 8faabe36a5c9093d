"""From a prediction to the training rows behind it, as pages and programs see them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from turnover.applications import Explanations, Reason, Span, explain, shared_tokens
from turnover.runs import Run

from .browsing import Browsing
from .shapes import Cell, Example, Piece

PREDICTED, ALL = "predicted", "all"


class Behind:
    """Finds the training rows behind predictions of a run.

    Args:
        run: a finished one.
        browsing: shows its rows.
    """

    def __init__(self, run: Run, browsing: Browsing) -> None:
        self._run, self._browsing = run, browsing
        ids = run.ids[run.places("train")]
        # The first training row of every instance; with groups there are more.
        self._first = dict(zip(ids[::-1].tolist(), run.places("train")[::-1].tolist(), strict=True))
        self._count = dict(zip(*(part.tolist() for part in np.unique(ids, return_counts=True)), strict=True))

    def find(self, x: Tensor, *, examples_of: str, k: int) -> Explanations:
        """Return what is behind the prediction of one input.

        Args:
            x: [1, ...].
            examples_of: rows of the predicted label (and of any where they pushed against it), of all labels, or of
                the one named.
            k: rows of each kind.
        """
        run = self._run
        if examples_of == ALL or (run.rows.groups and examples_of == PREDICTED):
            return explain(run.influence, x, k=k, same_label=False)
        if examples_of == PREDICTED:
            return explain(run.influence, x, k=k, same_label="pushed")
        # Only rows of one label compete: for the question they stand for the predicted label, and no others do.
        predicted = int(run.probabilities(x)[0].argmax())
        wanted = np.asarray(run.influence.train_labels) == self._browsing.label_number(examples_of)
        return explain(run.influence, x, k=k, train_labels=np.where(wanted, predicted, -1))

    def example(self, reason: Reason, text: str | None, values: Sequence[Cell]) -> tuple[Example, tuple[Span, ...]]:
        """Return a training row with what it has in common with the question, and the spans of that in the question.

        Args:
            reason: why it is shown.
            text: that was asked about.
            values: that were asked about.
        """
        row = self._browsing.row(self._first[reason.id])
        pieces: list[Piece] = []
        spans: tuple[Span, ...] = ()
        if row.text is not None:
            shared = shared_tokens(text or "", row.text)
            pieces, spans = in_pieces(row.text, shared.example), shared.query
        if row.cells:
            asked = {cell.name: cell.value for cell in values}
            same = [cell.model_copy(update={"same": asked.get(cell.name) == cell.value}) for cell in row.cells]
            row = row.model_copy(update={"cells": same})
        found = Example(
            row=row,
            score=reason.score,
            stderr=_finite(reason.stderr),
            p_value=_finite(reason.p_value),
            stands_out=reason.stands_out,
            pieces=pieces,
            rows=self._count[reason.id],
        )
        return found, spans


def in_pieces(text: str, spans: Sequence[Span]) -> list[Piece]:
    """Return a text in pieces, those in the spans marked.

    Example:
        >>> [(piece.text, piece.shared) for piece in in_pieces("a thin plot", [Span(2, 6, "thin", 1.0)])]
        [('a ', False), ('thin', True), (' plot', False)]
    """
    pieces: list[Piece] = []
    at = 0
    for start, end in sorted({(span.start, span.end) for span in spans}):
        if start >= at:
            pieces += [Piece(text=text[at:start]), Piece(text=text[start:end], shared=True)]
            at = end
    return [piece for piece in [*pieces, Piece(text=text[at:])] if piece.text]


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
