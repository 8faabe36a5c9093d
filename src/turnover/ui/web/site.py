"""A run that is served: its rows with held-out predictions, answers to questions about it, and the queue they wait in.

What it returns are plain dicts, for the API and for templates alike.
"""

import asyncio
import io
import logging
import queue
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from turnover.applications import (
    Explanations,
    HeldOutLabels,
    Queries,
    Residuals,
    explain_examples,
    plain,
)
from turnover.errors import DataFileError, TurnOverError
from turnover.runs import SPLITS, Column, ColumnInputs, Run, checked_cells, label_text, nearest, need_pillow
from turnover.ui.html import nothing_learned, rows_by_split
from turnover.ui.pictures import as_data_uri, pixels_for

from .corrections import Mark, MarkBook, is_number
from .responses import BusyError, TooSlowError
from .security import MEGABYTE, UPLOAD_BYTES

T = TypeVar("T")
MOST_LETTERS = 20_000
MOST_EXAMPLES = 50
MOST_PIXELS = 16_000_000
PREDICTED, ALL = "predicted", "all"
# What browsers show; decoders of rarer formats are rarely looked at.
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_NAMES = {"text": "texts", "image": "images", "table": "rows of a table"}
_POSSIBLE = {"text": "a text or a row", "image": "a row, or upload an image", "table": "a row, values, or both"}


class Question(BaseModel):
    """What to explain: a text, a row of the data, or the values of a table's row; give one of them.

    A row together with values is that row with some values changed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str | None = Field(default=None, max_length=MOST_LETTERS, examples=["a moving and funny film"])
    row: int | None = Field(default=None, ge=0, strict=True, description="number of a row, counted from 0")
    values: dict[str, str | float | int | bool | None] | None = Field(
        default=None, description="by column; those left out count as missing"
    )
    examples_of: str = Field(
        default=PREDICTED, description="training examples of the predicted label, of all, or of the one named"
    )
    k: int = Field(
        default=10, ge=1, le=MOST_EXAMPLES, strict=True, description="supporting and opposing examples, each"
    )


class NotReadyError(BusyError):
    """The model is still being loaded."""


class WorkQueue:
    """Runs jobs one after the other in a thread of its own.

    A job that nobody waits for any more is taken out of the queue; one that runs already is finished, and counts as
    waiting until then, so that nothing piles up behind a slow model.
    """

    def __init__(self, *, most_waiting: int = 32, seconds: float = 30.0) -> None:
        self._most_waiting, self._seconds = most_waiting, seconds
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._unfinished: set[Future[Any]] = set()
        # A daemon, so that Ctrl-C does not wait for a job that nobody needs any more.
        threading.Thread(target=self._work, name="turnover-model", daemon=True).start()

    def __len__(self) -> int:
        """Return how many jobs wait or run."""
        return len(self._unfinished)

    async def run(self, job: Callable[[], T]) -> T:
        """Return what a job returns."""
        future = self.start(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError as error:
            if future.done() and not future.cancelled():  # the job itself raised this
                raise
            sentence = "the model did not answer in time. Try again, or send a shorter text."
            raise TooSlowError(sentence) from error

    def start(self, job: Callable[[], T]) -> "Future[T]":
        """Put a job into the queue."""
        if len(self._unfinished) > self._most_waiting:
            raise BusyError("too many requests are waiting. Try again in a few seconds.")
        future: Future[T] = Future()
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        self._jobs.put((future, job))
        return future

    def close(self) -> None:
        """Let the running job end, and no other begin."""
        for future in list(self._unfinished):
            future.cancel()
        self._jobs.put(None)

    def _work(self) -> None:
        while (next_job := self._jobs.get()) is not None:
            future, job = next_job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whoever asked is told
                future.set_exception(error)


class Site:
    """A run that is served, and everything that pages and API ask of it."""

    def __init__(self, run: Run, *, most_waiting: int = 32, seconds: float = 30.0) -> None:
        self.run, self.marks = run, MarkBook(run)
        self.queue = WorkQueue(most_waiting=most_waiting, seconds=seconds)
        self.columns: tuple[Column, ...] = ()
        if isinstance(run.preparation, ColumnInputs):
            self.columns = run.preparation.columns
        self._examples = run.examples
        self._state: Literal["warming up", "ready", "failed"] = "warming up"
        self._detail = "the model is being loaded."

    # What is served, and whether it can be asked

    @property
    def state(self) -> dict[str, Any]:
        """Return whether questions can be asked."""
        return {"state": self._state, "detail": self._detail, "waiting": len(self.queue)}

    @property
    def about(self) -> dict[str, Any]:
        """Return what is served."""
        run, rows = self.run, self.run.rows
        return {
            "name": rows.name,
            "kind": rows.kind,
            "rows": rows_by_split(run),
            "labels": list(run.label_names),
            "task": run.task.name,
            "label_column": rows.label_column,
            "columns": [str(name) for name in rows.values.columns] if rows.kind == "table" else [],
            "groups": len(set(rows.groups)),
            "results": run.about.results,
            "warning": nothing_learned(run),
            "versions": run.about.versions,
            "state": self.state,
        }

    def warm_up(self) -> None:
        """Load all that the first question needs, and find out what all questions share."""
        run = self.run
        try:
            self._detail = "the rows are looked at."
            self.errors  # noqa: B018 - computed once, and kept
            self._detail = "the model is being loaded."
            run.predict([run.examples.value(0)])
            self._detail = "the training rows are compared with each other; this is done once."
            self._explained(run.x[:1], run.examples.value(0), None, ALL, 1)
        except TurnOverError as error:
            self._state, self._detail = "failed", str(error)
        except Exception as error:
            logging.getLogger(__name__).exception("the model could not be loaded")
            self._state, self._detail = "failed", f"the model cannot be loaded ({type(error).__name__}: {error})."
        else:
            self._state, self._detail = "ready", "ask."

    def check_ready(self) -> None:
        """Raise where no question can be answered yet."""
        if self._state == "warming up":
            raise NotReadyError(f"warming up: {self._detail} The answer comes by itself when that is done.")
        if self._state == "failed":
            raise DataFileError(f"no question can be answered: {self._detail}")

    # Rows

    @cached_property
    def held_out(self) -> np.ndarray:
        """Return probabilities [rows, classes], or predicted numbers [rows, 1], by networks not trained on the row.

        For training rows that is the flipped subnetwork, for all others the full network.
        """
        run = self.run
        predicted = np.empty((len(run.rows), run.out_of_sample.probs.shape[1]), np.float32)
        predicted[run.places("train")] = run.out_of_sample.probs
        unseen = np.flatnonzero(self._examples.splits != "train")
        predicted[unseen] = run.predicted(run.x[unseen]).reshape(len(unseen), predicted.shape[1])
        return predicted

    @cached_property
    def beside(self) -> HeldOutLabels | Residuals:
        """Return the labels of all rows beside their held-out predictions."""
        train = self._examples.train_labels.beside(self.run.out_of_sample.probs)
        return self._examples.labels.beside(self.held_out, like=train)

    @cached_property
    def errors(self) -> np.ndarray:
        """Return the wrongly predicted validation and test rows, the most confident, or largest, errors first."""
        rows = self._examples.labeled_unseen_rows
        return rows[self._examples.labels.among(rows).errors(self.held_out[rows])]

    @cached_property
    def label_errors(self) -> np.ndarray:
        """Return all rows, the likeliest label error first, those without a label last."""
        order, judged = self.beside.order, self.run.wrong_labels
        if judged.expected is not None:  # by the record: training rows as findings have them, before all others
            first = self._examples.train_rows[judged.order[: int(judged.likely.sum())]]
            order = np.concatenate([first, order[~np.isin(order, first)]])
        return order

    def row(self, row: int, *, with_prediction: bool = True) -> dict[str, Any]:
        """Return a row, with its held-out prediction where asked for."""
        examples, mark = self._examples, self.marks.get(self.check_row(row))
        return {
            "row": row,
            "name": examples.names[row],
            "split": str(examples.splits[row]),
            "label": examples.label(row),
            "text": examples.values[row] if examples.kind == "text" else None,
            "cells": as_cells(examples.value(row)) if examples.kind == "table" else [],
            "image": f"/rows/{row}/image.png" if examples.kind == "image" else None,
            "group": examples.groups[row] if examples.groups else None,
            "mark": None if mark is None else plain(mark),
            **self._prediction(row, known=with_prediction),
        }

    def listed(self, *, order: str = "label_errors", split: str = "", label: str = "", words: str = "") -> np.ndarray:
        """Return the numbers of the rows that fit a filter; "" as split, label or words is any.

        Likely label errors come first, or only errors, the most confident first, or rows as in the file.
        """
        orders = {"label_errors": lambda: self.label_errors, "errors": lambda: self.errors}
        rows = orders.get(order, lambda: np.arange(len(self._examples)))()
        if split:
            if split not in SPLITS:
                raise DataFileError(f"there is no split {split!r}. Give one of {', '.join(SPLITS)}.")
            rows = rows[self._examples.splits[rows] == split]
        if label:
            rows = rows[self._examples.labels.values[rows] == self._label_number(label)]
        sought = words.strip().casefold()
        return rows if not sought else rows[[sought in self._searched(row) for row in rows.tolist()]]

    def check_row(self, row: int) -> int:
        """Return the number of a row that exists, or raise."""
        if not 0 <= row < len(self._examples):
            raise DataFileError(
                f"there is no row {row}. Rows are numbered from 0 to {len(self._examples) - 1:,}; give one of them."
            )
        return row

    def mark(self, row: int, label: str | None) -> Mark:
        """Mark a row that exists with a label that exists; None: it is to be removed."""
        self.check_row(row)
        if label is not None and not self._examples.labels.numeric:
            self._label_number(label)
        elif label is not None and not is_number(label):
            raise DataFileError(f"the label must be a finite number, got {label!r}. Give one, such as 1.5.")
        return self.marks.put(row, label)

    def _label_number(self, name: str) -> int:
        if self._examples.labels.numeric:
            raise DataFileError("labels of this run are numbers: rows are not listed by label. Leave the label out.")
        names = self._examples.labels.names
        if name not in names:
            raise DataFileError(f"there is no label {name!r}. The labels are {', '.join(map(repr, names[:10]))}.")
        return names.index(name)

    def _prediction(self, row: int, *, known: bool) -> dict[str, Any]:
        """Return the fields of a row that its held-out prediction gives."""
        names = ("held_out_label", "held_out_probability", "label_quality", "p_wrong", "residual", "suggested")
        fields: dict[str, Any] = dict.fromkeys(names) | {"likely_label_error": False}
        if not known:
            return fields
        judged, place = self.beside, row
        if self._examples.splits[row] == "train":
            judged, place = self.run.wrong_labels, int(np.searchsorted(self._examples.train_rows, row))
        wrong = {"p_wrong": judged.p_wrong[place], "likely_label_error": judged.likely[place]}
        return plain(fields | self.beside.of_row(row) | wrong)

    def _searched(self, row: int) -> str:
        kind = self._examples.kind
        if kind == "table":
            return " ".join(cell["value"] for cell in as_cells(self._examples.value(row))).casefold()
        return (self._examples.values if kind == "text" else self._examples.names)[row].casefold()

    # Questions

    async def answer(self, question: Question) -> dict[str, Any]:
        """Return the answer to a question when its turn comes."""
        kind = self.run.kind
        given = [name for name in ("text", "row", "values") if getattr(question, name) is not None]
        fits = given == ["row"] or (kind == "text" and given == ["text"]) or (kind == "table" and "text" not in given)
        if not given or not fits:
            sent = " and ".join(given) or "nothing"
            raise DataFileError(f"this run is about {_NAMES[kind]}: give {_POSSIBLE[kind]}; {sent} was given.")
        self._check_examples(question.examples_of)
        if question.text is not None:
            _checked_text(question.text)
        if question.row is not None:
            self.check_row(question.row)
        self.check_ready()
        return await self.queue.run(lambda: self.answer_now(question))

    async def answer_image(self, content: bytes, *, examples_of: str = PREDICTED, k: int = 10) -> dict[str, Any]:
        """Return the prediction of an image that was sent, and the examples behind it, when its turn comes."""
        self.check_ready()
        if self.run.kind != "image":
            raise DataFileError(f"this run is about {_NAMES[self.run.kind]}, not images: nothing can be uploaded.")
        self._check_examples(examples_of)

        def answered() -> dict[str, Any]:
            pixels = read_upload(content, self.run)
            return self._answer(pixels, None, examples_of, k, image=as_data_uri(pixels))

        return await self.queue.run(answered)

    def answer_now(self, question: Question) -> dict[str, Any]:
        """Return the answer to a question that was checked; only one at a time may be asked."""
        run, asked = self.run, question.row
        row = None if asked is None else self.row(asked)
        if run.kind == "text":
            text = run.rows.values[asked] if question.text is None else _checked_text(question.text)
            return self._answer(text, row, question.examples_of, question.k, text=text)
        if run.kind == "image":
            assert row is not None
            return self._answer(run.rows.values[asked], row, question.examples_of, question.k, image=row["image"])
        values = self.checked_values(question.values or {}, asked)
        cells = as_cells(values)
        row = row if row is None or row["cells"] == cells else None  # other values make another row
        return self._answer(values, row, question.examples_of, question.k, cells=cells)

    def checked_values(self, values: Mapping[str, Any], row: int | None) -> dict[str, Any]:
        """Return values of a table's row: those of `row` (None: all missing), changed by what was given."""
        known = [column.name for column in self.columns]
        unknown = [name for name in values if name not in known]
        if unknown:
            near = nearest(unknown[0], known)
            hint = f"Did you mean {near!r}?" if near else f"There are {', '.join(map(repr, known[:12]))}."
            raise DataFileError(f"there is no feature column {unknown[0]!r}. {hint}")
        cells = dict.fromkeys(known) if row is None else dict(self.run.rows.values.iloc[row])
        return cells | checked_cells(self.columns, values)

    def _check_examples(self, examples_of: str) -> None:
        """Raise where no rows can be looked at that were asked for."""
        if examples_of in (PREDICTED, ALL):
            return
        if self.run.rows.numeric:
            raise DataFileError("labels of this run are numbers: ask for examples of all labels.")
        self._label_number(examples_of)
        if self.run.rows.groups:
            raise DataFileError(
                "the examples of this run are groups, whose rows have several labels: there are none of one label. Ask "
                "for examples of all labels."
            )

    @torch.no_grad()
    def _answer(self, value: Any, row: dict[str, Any] | None, examples_of: str, k: int, **shown: Any) -> dict[str, Any]:
        """Return the prediction of a value, the examples behind it, and how the value is shown."""
        began, run = time.perf_counter(), self.run
        x = run.inputs([value]) if row is None else run.x[row["row"] : row["row"] + 1]
        answer = self._explained(x, value, row, examples_of, k).as_dict()
        answer |= answer.pop("items")[0]
        for example in (*answer["supporting"], *answer["opposing"]):
            example["shown"] = self.row(example["row"])
        probabilities = np.empty(0) if answer["numeric"] else run.predicted(x)[0]
        return {
            **answer,
            "probabilities": [
                {"label": run.label_names[place], "probability": float(probabilities[place])}
                for place in np.argsort(-probabilities, kind="stable")
            ],
            "examples_of": examples_of,
            "asked": row,
            **({"text": None, "cells": [], "image": None} | shown),
            "seconds": round(time.perf_counter() - began, 4),
        }

    def _explained(self, x: Any, value: Any, row: dict[str, Any] | None, examples_of: str, k: int) -> Explanations:
        """Return the examples behind the prediction of one input [1, ...]."""
        run, number = self.run, None if row is None else row["row"]
        inputs = x if number is None else (x, run.y[number : number + 1])
        return explain_examples(
            run.influence,
            Queries(inputs, [value], ["query" if row is None else row["name"]], [number]),
            run.examples,
            k=k,
            same_label="supporting" if examples_of == PREDICTED else False,
            only_label=None if examples_of in (PREDICTED, ALL) else self._label_number(examples_of),
        )


def as_cells(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return values as they are shown; "" where one is missing."""
    return [{"name": name, "value": label_text(value)} for name, value in values.items()]


def read_upload(content: bytes, run: Run) -> np.ndarray:
    """Return an image as the run's images are: uint8 [height, width, channels]."""
    image_module = need_pillow()
    if not content:
        raise DataFileError("no image was uploaded. Choose a file.")
    if len(content) > UPLOAD_BYTES:
        raise DataFileError(f"the image must have at most {UPLOAD_BYTES // MEGABYTE} MB. Scale it down.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Only the header is read here.
            with image_module.open(io.BytesIO(content), formats=_FORMATS) as image:
                width, height = image.size
            if width * height > MOST_PIXELS:
                raise DataFileError(
                    f"the image must have at most {MOST_PIXELS // 10**6} million pixels, got {width:,} x {height:,}. "
                    "Scale it down."
                )
            return pixels_for(run, io.BytesIO(content))
    except DataFileError as error:
        raise DataFileError(f"the image cannot be used: {error}") from error
    except (Warning, OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        known = ", ".join(_FORMATS)
        raise DataFileError(f"this file cannot be read as an image. Upload an undamaged {known} file.") from error


def _checked_text(text: str) -> str:
    """Return a text that can be asked about, or raise; its length was checked where it came in."""
    stripped = text.strip()
    if not stripped:
        raise DataFileError("the text is empty. Type a sentence.")
    try:
        stripped.encode()
    except UnicodeEncodeError as error:
        raise DataFileError("the text is not valid Unicode (a lone surrogate). Type it again.") from error
    return stripped
