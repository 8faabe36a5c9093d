"""The examples that findings speak of, what they share, and the training instances that an `Influence` scores."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError, InfluenceError
from turnover.ids import Name, Names
from turnover.influence import Influence
from turnover.scores import OutOfSample
from turnover.tables import tells, words

from .labels import ClassLabels, HeldOutLabels, Labels, Residuals, WrongLabels
from .results import Result, checked_labels, entry

Tokenizer = Callable[[str], Iterable[Any]]
# What tokenizers add to subwords.
_MARKS = ("##", "Ġ", "▁", "</w>")
# Numbers of a table are near within this share of their column's standard deviation.
_NEAR = 0.1


@dataclass(frozen=True)
class Instance(Result):
    """A training instance that a finding names.

    Attributes:
        id: as it was given; of rows of a file their number, of groups that of the group.
        position: its place among the training instances, counted from 0.
        row: its row number in the data; of a group that of its first training row.
        label: by name where names are known; None: not known, or a group of rows.
        rows: its training rows: more than one only for a group.
    """

    id: Name
    position: int
    row: int
    name: str | None
    label: Any
    group: str | None
    rows: int


@dataclass(frozen=True)
class HeldOutExample(Instance):
    """A training example with its prediction by the subnetwork that was not trained on it; None: not known.

    Attributes:
        label_quality: held-out probability of the given label.
        suggested: the most probable other label, in words.
        residual: of a number, label minus held-out prediction, in units of the usual distance (`Residuals`).
        p_wrong: P(wrong) of its label.
    """

    held_out_label: Any
    held_out_probability: float | None
    label_quality: float | None
    suggested: str | None = field(default=None, kw_only=True)
    residual: float | None = field(default=None, kw_only=True)
    p_wrong: float | None = field(default=None, kw_only=True)
    likely_label_error: bool = field(default=False, kw_only=True)

    @property
    def prediction_words(self) -> str:
        """Return the given label and the held-out prediction in words; "" where there is none."""
        if self.held_out_label is None:
            return ""
        if self.residual is not None:
            distance = f"{abs(self.residual):.1f} times the usual distance"
            return f"given label {self.label:.6g}, held-out prediction {self.held_out_label:.6g} ({distance})"
        given, other = self.label_quality or 0.0, self.held_out_probability or 0.0
        if self.held_out_label == self.label:
            return f"given label {self.label} ({given:.0%}), as the held-out prediction"
        return f"given label {self.label} ({given:.0%}), held-out prediction {self.held_out_label} ({other:.0%})"


def held_out_fields(
    held_out: HeldOutLabels | Residuals | None, judged: WrongLabels | None, place: int
) -> dict[str, Any]:
    """Return the fields of `HeldOutExample` at a place of the predictions; all None where these are not known."""
    if held_out is None or place < 0:
        return dict.fromkeys(("held_out_label", "held_out_probability", "label_quality"))
    judged = held_out if judged is None else judged
    wrong = {"p_wrong": entry(judged.p_wrong, place), "likely_label_error": bool(judged.likely[place])}
    return held_out.of_row(place) | wrong


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of labeled data, as findings speak of them.

    Attributes:
        values: texts, uint8 pixels [rows, height, width, channels], or a DataFrame.
        names: what to call each row: its line, or the file of an image.
        labels: of all rows, classes or numbers.
        ids: instance id of each row; rows of a group share one.
        groups: group of each row; empty: rows are the instances.
        wrong_labels: how probably the label of each training row is wrong; None: not known.
    """

    kind: Literal["text", "image", "table"]
    values: Any
    names: Sequence[str]
    labels: Labels
    splits: NDArray[np.str_]
    ids: NDArray[np.int64]
    groups: Sequence[str] = ()
    wrong_labels: WrongLabels | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def train_rows(self) -> NDArray[np.int64]:
        """Return the numbers of the training rows."""
        return np.flatnonzero(self.splits == "train")

    @cached_property
    def train_labels(self) -> Labels:
        """Return the labels of the training rows."""
        return self.labels.among(self.train_rows)

    @cached_property
    def labeled_unseen_rows(self) -> NDArray[np.int64]:
        """Return the numbers of the validation rows and then of the test rows that have a label."""
        rows = np.concatenate([np.flatnonzero(self.splits == split) for split in ("validation", "test")])
        return rows[self.labels.known[rows]]

    def label(self, row: int) -> Any:
        """Return the label of a row: the name of its class, or its number; None: it has none."""
        return self.labels.name(self.labels.values[row])

    def value(self, row: int) -> Any:
        """Return a row as data: a text, pixels, or the cells of a table by column."""
        if self.kind != "table":
            return self.values[row]
        return {str(column): value for column, value in self.values.iloc[row].items()}

    def instance_of(self, id: int) -> dict[str, Any]:
        """Return the fields of `Instance`, but its position, of an instance id."""
        row, rows = self._instances[id]
        label, group = (None, self.groups[row]) if self.groups else (self.label(row), None)
        return {"id": id, "row": row, "name": self.names[row], "label": label, "group": group, "rows": rows}

    def training_row(self, position: int) -> dict[str, Any]:
        """Return the fields of `Instance` of one training row, also where groups are the instances."""
        row = int(self.train_rows[position])
        group = self.groups[row] if self.groups else None
        about = {"name": self.names[row], "label": self.label(row), "group": group, "rows": 1}
        return {"id": int(self.ids[row]), "position": int(position), "row": row, **about}

    def in_common(self, query: Any, row: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[str]]:
        """Return what a value, such as `value` returns, has in common with a row; nothing for images and groups.

        These are words of the query and of the row, as (start, end), and columns of nearly the same value.
        """
        if self.groups or self.kind == "image":
            return [], [], []
        if self.kind == "text":
            shared = shared_tokens(query, self.values[row])
            ours, theirs = ([(span.start, span.end) for span in spans] for spans in (shared.query, shared.example))
            return ours, theirs, []
        return [], [], [name for name, other in self.value(row).items() if self._near(name, query.get(name), other)]

    def _near(self, column: str, one: Any, other: Any) -> bool:
        deviation = self._deviations.get(column)
        if deviation is None:
            return one is not None and one == other
        if one is None or other is None or math.isnan(one) or math.isnan(other):
            return False
        return bool(abs(one - other) <= _NEAR * deviation)

    @cached_property
    def _deviations(self) -> Mapping[str, float]:
        numbers = self.values.iloc[self.train_rows].select_dtypes("number")
        return {str(column): float(np.nan_to_num(deviation)) for column, deviation in numbers.std().items()}

    @cached_property
    def _instances(self) -> dict[int, tuple[int, int]]:
        ids, first, counts = np.unique(self.ids[self.train_rows], return_index=True, return_counts=True)
        rows = self.train_rows[first]
        return {int(id): (int(row), int(count)) for id, row, count in zip(ids, rows, counts, strict=True)}


@dataclass(frozen=True)
class TrainInstances:
    """Training instances in the order of the data, each once; labels, examples and names where they are known."""

    mask_ids: NDArray[np.int64]
    labels: NDArray[Any] | None
    examples: Examples | None = None
    names: Names = field(default_factory=Names)

    @classmethod
    def of(
        cls, influence: Influence, labels: Any, examples: Examples | None = None, *, needed: bool
    ) -> "TrainInstances":
        """Return those of an engine, with labels (None: those of the data); raise where `needed` ones are missing."""
        ids, names = influence.mask_ids(), influence.names
        if labels is not None:
            return cls(ids, checked_labels(labels, len(ids)), examples, names)
        try:
            return cls(ids, influence.train_labels, examples, names)
        except InfluenceError:
            if needed:
                raise
            return cls(ids, None, examples, names)

    def __len__(self) -> int:
        return len(self.mask_ids)

    def instance(self, position: int) -> dict[str, Any]:
        """Return the fields of `Instance` at a position."""
        id, position = int(self.mask_ids[position]), int(position)
        if self.examples is not None:
            return {"position": position, **self.examples.instance_of(id)}
        label = None if self.labels is None else self.labels[position].item()
        name = self.names.by_id.get(id)
        about = {"name": None if name is None else str(name), "label": label, "group": None, "rows": 1}
        return {"id": id if name is None else name, "position": position, "row": position, **about}

    def positions(self, ids: Any) -> NDArray[np.int64]:
        """Return the positions of mask ids; −1 for those that are not among the instances."""
        ids = np.asarray(ids, np.int64)
        place = np.searchsorted(self.mask_ids, ids, sorter=self._order)
        position = self._order[np.minimum(place, len(self) - 1)]
        return np.where(self.mask_ids[position] == ids, position, -1)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.mask_ids, kind="stable")

    def held_out(self, out_of_sample: OutOfSample, positions: Any) -> list[dict[str, Any]]:
        """Return the fields of `HeldOutExample` of the instances at some positions, from predictions of all rows."""
        values, first, counts = np.unique(out_of_sample.mask_ids, return_index=True, return_counts=True)
        ids = self.mask_ids[positions]
        at = np.minimum(np.searchsorted(values, ids), len(values) - 1)
        if (values[at] != ids).any():
            raise ApplicationError(
                "out_of_sample holds other rows than the training data. Give influence.out_of_sample()."
            )
        places = np.where(counts[at] == 1, first[at], -1)  # a group is several rows
        if self.examples is not None:
            labels, judged = self.examples.train_labels, self.examples.wrong_labels
        else:
            labels, judged = None if out_of_sample.labels is None else ClassLabels(out_of_sample.labels), None
        beside = None if labels is None else labels.beside(out_of_sample.probs)
        return [held_out_fields(beside, judged, int(place)) for place in places]


@dataclass(frozen=True)
class Span:
    """A token in a text: text[start:end]."""

    start: int
    end: int
    token: str


@dataclass(frozen=True)
class SharedTokens(Result):
    """Spans on the query and on the example, and each shared token once, in the order of the query."""

    query: tuple[Span, ...]
    example: tuple[Span, ...]
    tokens: tuple[str, ...]


def shared_tokens(query: str, example: str, *, tokenizer: Tokenizer | None = None) -> SharedTokens:
    """Return the tokens that two texts share, without stop words, with their places in both.

    Args:
        query: a text.
        example: another.
        tokenizer: text -> tokens, as strings in the order of the text (marks of subwords as ## or ▁ are taken off), or
            as (token, start, end); None: words, without case.

    Raises:
        ApplicationError: a tokenizer returned something else.

    Example:
        >>> shared = shared_tokens("The plot is thin.", "A thin, thin plot")
        >>> shared.tokens, [(span.start, span.end) for span in shared.example]
        (('plot', 'thin'), [(2, 6), (8, 12), (13, 17)])
    """
    if not isinstance(query, str) or not isinstance(example, str):
        raise ApplicationError("shared_tokens compares two texts. Give strings.")
    ours, theirs = list(_spans(query, tokenizer)), list(_spans(example, tokenizer))
    common = {span.token for span in ours} & {span.token for span in theirs}
    ours, theirs = (tuple(span for span in spans if span.token in common) for spans in (ours, theirs))
    return SharedTokens(ours, theirs, tuple(dict.fromkeys(span.token for span in ours)))


def _spans(text: str, tokenizer: Tokenizer | None) -> Iterator[Span]:
    """Yield the tokens of a text that say something; strings of a tokenizer are looked for one after the other."""
    lower, at = text.lower(), 0
    # Lower case may be longer than the text, by one sign in some alphabets; then places are looked for as written.
    folds = len(lower) == len(text)
    for token in words(text) if tokenizer is None else tokenizer(text):
        if isinstance(token, str):
            bare = token
            for mark in _MARKS:
                bare = bare.replace(mark, "")
            start = (lower if folds else text).find(bare.lower() if folds else bare, at) if bare else -1
            if start < 0:  # marks of begin, end and unknown words are not in the text
                continue
            name, end = token, start + len(bare)
            at = end
        elif isinstance(token, Sequence) and len(token) == 3 and isinstance(token[0], str):
            name, start, end = token[0], int(token[1]), int(token[2])
        else:
            raise ApplicationError(
                f"the tokenizer returned {token!r}. It must return strings, or tuples (token, start, end)."
            )
        name = name.casefold()
        if tells(name):
            yield Span(start, end, name)
