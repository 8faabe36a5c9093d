"""From what a user asks about to a prediction with the training examples behind it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from turnover.applications import Explanations, InfluentialExample, Queries, explain_examples, plain
from turnover.errors import DataFileError, TurnOverError
from turnover.runs import Run
from turnover.ui.pictures import as_data_uri

from .browsing import Browsing
from .inputs import as_cells, checked_text, checked_values, read_upload
from .responses import NotReadyError
from .shapes import Answer, Cell, Example, Probability, Question, Row

PREDICTED, ALL = "predicted", "all"


@dataclass(frozen=True)
class _Query:
    """One query, checked: the value, and how it is shown."""

    value: Any
    text: str | None = None
    cells: list[Cell] = field(default_factory=list)
    image: str | None = None
    row: Row | None = None


class Answering:
    """Answers questions about a run; only one at a time may be asked."""

    def __init__(self, run: Run[Any], browsing: Browsing) -> None:
        self._run, self._browsing = run, browsing
        self.state: Literal["warming up", "ready", "failed"] = "warming up"
        self.detail = "the model is being loaded."

    def warm_up(self) -> None:
        """Load all that the first question needs, and find out what all questions share."""
        try:
            self._step("the rows are looked at.", lambda: self._browsing.errors)
            first = self._run.rows.values[:1] if self._run.kind != "table" else self._run.rows.values.iloc[:1]
            self._step("the model is being loaded.", lambda: self._run.predict(first))
            query = _Query(self._run.examples.value(0))
            self._step(
                "the training rows are compared with each other; this is done once.",
                lambda: self._explained(self._run.x[:1], query, ALL, k=1),
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
            possible = {
                "text": "a text or a row",
                "image": "a row, or upload an image",
                "table": "a row, values, or both",
            }
            sent = " and ".join(given) or "nothing"
            raise DataFileError(f"this run is about {_NAMES[kind]}: give {possible[kind]}; {sent} was given.")
        self._check_examples(question.examples_of)
        if question.text is not None:
            checked_text(question.text)
        if question.row is not None:
            self._browsing.check(question.row)

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question."""
        return self._answer(self._query(question), question.examples_of, question.k)

    def answer_image(self, content: bytes, *, examples_of: str = PREDICTED, k: int = 10) -> Answer:
        """Return the prediction of an image that was sent, and the examples behind it."""
        if self._run.kind != "image":
            raise DataFileError(f"this run is about {_NAMES[self._run.kind]}, not images: nothing can be uploaded.")
        self._check_examples(examples_of)
        pixels = read_upload(content, self._run)
        return self._answer(_Query(pixels, image=as_data_uri(pixels)), examples_of, k)

    def _check_examples(self, examples_of: str) -> None:
        """Raise where no rows can be looked at that were asked for."""
        if examples_of in (PREDICTED, ALL):
            return
        if self._run.rows.numeric:
            raise DataFileError("labels of this run are numbers: ask for examples of all labels.")
        self._browsing.label_number(examples_of)
        if self._run.rows.groups:
            raise DataFileError(
                "the examples of this run are groups, whose rows have several labels: there are none of one label. Ask "
                "for examples of all labels."
            )

    def _query(self, question: Question) -> _Query:
        run = self._run
        row = None if question.row is None else self._browsing.row(question.row)
        if run.kind == "text":
            text = checked_text(question.text) if question.text is not None else run.rows.values[question.row]
            return _Query(text, text=text, row=row)
        if run.kind == "image":
            assert row is not None
            return _Query(run.rows.values[row.row], image=row.image, row=row)
        values = checked_values(run, question.values or {}, question.row)
        changed = row is not None and as_cells(values) != row.cells
        return _Query(values, cells=as_cells(values), row=None if changed else row)

    def _inputs(self, query: _Query) -> Tensor:
        run = self._run
        if query.row is not None:
            return run.x[query.row.row : query.row.row + 1]
        if run.kind == "table":
            import pandas as pd

            return run.inputs(pd.DataFrame([query.value]))
        return run.inputs(query.value[None] if run.kind == "image" else [query.value])

    def _explained(self, x: Tensor, query: _Query, examples_of: str, *, k: int) -> Explanations:
        """Return the examples behind the prediction of one input [1, ...]."""
        run, row = self._run, None if query.row is None else query.row.row
        inputs = x if row is None else (x, run.y[row : row + 1])
        chosen = None if examples_of in (PREDICTED, ALL) else self._browsing.label_number(examples_of)
        return explain_examples(
            run.influence,
            Queries(inputs, [query.value], [query.row.name if query.row else "query"], [row]),
            run.examples,
            k=k,
            same_label="supporting" if examples_of == PREDICTED else False,
            only_label=chosen,
        )

    @torch.no_grad()
    def _answer(self, query: _Query, examples_of: str, k: int) -> Answer:
        began = time.perf_counter()
        x, names = self._inputs(query), self._run.label_names
        explained = self._explained(x, query, examples_of, k=k)
        probabilities = np.empty(0) if explained.numeric else self._run.probabilities(x)[0]
        one = explained[0]
        return Answer(
            predicted=one.predicted,
            probability=one.probability,
            probabilities=[
                Probability(label=names[place], probability=float(probabilities[place]))
                for place in np.argsort(-probabilities, kind="stable")
            ],
            label=one.label,
            error=one.error,
            supporting=[self._example(example) for example in one.supporting],
            opposing=[self._example(example) for example in one.opposing],
            significant_supporting=one.significant_supporting,
            significant_opposing=one.significant_opposing,
            shared_spans=list(one.shared_spans),
            examples_of=examples_of,
            asked=query.row,
            text=query.text,
            cells=query.cells,
            image=query.image,
            unit=explained.unit,
            standardized=explained.standardized,
            method=explained.method,
            noise_from=explained.noise_from,
            replicas=explained.replicas,
            path=explained.path,
            numeric=explained.numeric,
            seconds=round(time.perf_counter() - began, 4),
        )

    def _example(self, example: InfluentialExample) -> Example:
        return Example(**plain(example), shown=self._browsing.row(example.row))

    def _step(self, detail: str, load: Callable[[], object]) -> None:
        self.detail = detail
        load()


_NAMES = {"text": "texts", "image": "images", "table": "rows of a table"}
