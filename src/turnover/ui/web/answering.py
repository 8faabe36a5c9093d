"""From what a user asks about to a prediction with the training rows behind it."""

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from turnover.errors import DataFileError, TurnOverError
from turnover.runs import Run

from .behind import ALL, PREDICTED, Behind, in_pieces
from .browsing import Browsing
from .inputs import as_cells, as_data_uri, checked_text, checked_values, read_upload
from .responses import NotReadyError
from .shapes import Answer, Cell, Probability, Question, Row


@dataclass(frozen=True)
class _Asked:
    """One question, checked: the input, and how it is shown."""

    values: Any
    text: str | None = None
    cells: list[Cell] = field(default_factory=list)
    image: str | None = None
    row: Row | None = None


class Answering:
    """Answers questions about a run; only one at a time may be asked.

    Args:
        run: a finished one.
        browsing: shows its rows.
    """

    def __init__(self, run: Run, browsing: Browsing) -> None:
        self._run, self._browsing = run, browsing
        self._behind = Behind(run, browsing)
        self.state: Literal["warming up", "ready", "failed"] = "warming up"
        self.detail = "the model is being loaded."

    def warm_up(self) -> None:
        """Load all that the first question needs, and find out what all questions share."""
        try:
            self._step("the rows are looked at.", lambda: self._browsing.surest_errors)
            probe = self._run.rows.values[:1] if self._run.kind != "table" else self._run.rows.values.iloc[:1]
            self._step("the model is being loaded.", lambda: self._run.predict(probe))
            self._step(
                "the training rows are compared with each other; this is done once.",
                lambda: self._behind.find(self._run.x[:1], examples_of=ALL, k=1),
            )
        except TurnOverError as error:
            self.state, self.detail = "failed", str(error)
        except Exception as error:
            logging.getLogger(__name__).exception("the model could not be loaded")
            self.state, self.detail = "failed", f"the model cannot be loaded ({type(error).__name__}: {error})."
        else:
            self.state, self.detail = "ready", "ask."

    def check_ready(self) -> None:
        """Raise where no question can be answered yet."""
        if self.state == "warming up":
            raise NotReadyError(f"warming up: {self.detail} The answer comes by itself when that is done.")
        if self.state == "failed":
            raise DataFileError(f"no question can be answered: {self.detail}")

    def check(self, question: Question) -> None:
        """Raise where a question cannot be answered at all, before it waits for the model."""
        given = [name for name in ("text", "row", "values") if getattr(question, name) is not None]
        kind = self._run.kind
        fits = given == ["row"] or (kind == "text" and given == ["text"]) or (kind == "table" and "text" not in given)
        if not given or not fits:
            wanted = {
                "text": "a text or a row",
                "image": "a row, or upload an image",
                "table": "a row, values, or both",
            }
            raise DataFileError(
                f"this run is about {_NAMES[kind]}: give {wanted[kind]}; {' and '.join(given) or 'nothing'} was given."
            )
        self._check_examples(question.examples_of)
        if question.text is not None:
            checked_text(question.text)
        if question.row is not None:
            self._browsing.check(question.row)

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question."""
        return self._answer(self._asked(question), question.examples_of, question.k)

    def answer_image(self, content: bytes, *, examples_of: str = PREDICTED, k: int = 10) -> Answer:
        """Return what is behind the prediction of an image that was sent."""
        if self._run.kind != "image":
            raise DataFileError(f"this run is about {_NAMES[self._run.kind]}, not images: nothing can be uploaded.")
        self._check_examples(examples_of)
        pixels = read_upload(content, self._run)
        return self._answer(_Asked(pixels[None], image=as_data_uri(pixels)), examples_of, k)

    def _check_examples(self, examples_of: str) -> None:
        """Raise where no rows can be looked at that were asked for."""
        if examples_of in (PREDICTED, ALL):
            return
        self._browsing.label_number(examples_of)
        if self._run.rows.groups:
            raise DataFileError(
                "the examples of this run are groups, whose rows have several labels: there are none of one label. Ask "
                "for examples of all labels."
            )

    def _asked(self, question: Question) -> _Asked:
        run = self._run
        row = None if question.row is None else self._browsing.row(question.row)
        if run.kind == "text":
            text = checked_text(question.text) if question.text is not None else run.rows.values[question.row]
            return _Asked([text], text=text, row=row)
        if run.kind == "image":
            assert row is not None
            return _Asked(run.rows.values[row.row : row.row + 1], image=row.image, row=row)
        import pandas as pd

        values = checked_values(run, question.values or {}, question.row)
        changed = row is not None and as_cells(values) != row.cells
        return _Asked(pd.DataFrame([values]), cells=as_cells(values), row=None if changed else row)

    @torch.no_grad()
    def _answer(self, asked: _Asked, examples_of: str, k: int) -> Answer:
        began = time.perf_counter()
        run = self._run
        x = run.inputs(asked.values)
        found = self._behind.find(x, examples_of=examples_of, k=k)
        one, names = found[0], run.label_names
        toward = [self._behind.example(reason, asked.text, asked.cells) for reason in one.pushed]
        against = [self._behind.example(reason, asked.text, asked.cells) for reason in one.against]
        probabilities = run.probabilities(x)[0]
        spans = [span for _, shared in (*toward, *against) for span in shared]
        return Answer(
            predicted=names[one.predicted],
            probability=one.probability,
            probabilities=[
                Probability(label=names[place], probability=float(probabilities[place]))
                for place in np.argsort(-probabilities, kind="stable")
            ],
            toward=[example for example, _ in toward],
            against=[example for example, _ in against],
            meaningful=one.meaningful,
            meaningful_against=one.meaningful_against,
            examples_of=examples_of,
            asked=asked.row,
            pieces=[] if asked.text is None else in_pieces(asked.text, spans),
            cells=asked.cells,
            image=asked.image,
            unit=found.unit,
            replicas=found.replicas,
            path=found.path,
            seconds=round(time.perf_counter() - began, 4),
        )

    def _step(self, detail: str, work: Any) -> None:
        self.detail = detail
        work()


_NAMES = {"text": "texts", "image": "images", "table": "rows of a table"}
