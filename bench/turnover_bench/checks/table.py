"""Methods side by side: one row per method, and how far they agree, as data and as Markdown."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.evaluation import LDS, AnyScores, Ceiling, Floats, MislabelDetection, matrix_of, mean_of_known, spearman
from turnover.scores import Scores

from .leave_one_out import LeaveOneOutCorrelation

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Agreement:
    """How far methods agree.

    Attributes:
        names: of the methods.
        spearman: [methods, methods]; rank correlation over the rows, mean over queries; NaN where one is constant.
        overlap: [methods, methods]; share of the k most helpful rows that both methods have, mean over queries.
        k: length of the lists.
    """

    names: tuple[str, ...]
    spearman: Floats
    overlap: Floats
    k: int

    def to_markdown(self) -> str:
        """Return a table with rank correlation / overlap of every pair."""
        cells = [
            [name, *(f"{self.spearman[i, j]:.2f} / {self.overlap[i, j]:.2f}" for j in range(len(self.names)))]
            for i, name in enumerate(self.names)
        ]
        return markdown_table([f"rank correlation / overlap of top {self.k}", *self.names], cells)


@dataclass(frozen=True)
class Row:
    """What was measured of one method; None: not asked for, not possible, or failed (see `problems`).

    Attributes:
        method: its name.
        lds: linear datamodeling score.
        loo: correlation with leave-one-out retraining.
        mislabels_self: wrong labels found by self-influence.
        mislabels_mean: wrong labels found by mean influence on the queries.
        brittleness: number of removed rows to the share of predictions that changed.
        build_seconds: until the method could be asked, training included.
        score_seconds: for all scores of all queries.
        peak_bytes: growth of resident memory in that time, workers included.
        storage_bytes: what the method keeps to answer queries, training data not counted.
        problems: what failed ("method" or the name of a metric), to the reason.
    """

    method: str
    lds: LDS | None = None
    loo: LeaveOneOutCorrelation | None = None
    mislabels_self: MislabelDetection | None = None
    mislabels_mean: MislabelDetection | None = None
    brittleness: Mapping[int, float] | None = None
    build_seconds: float | None = None
    score_seconds: float | None = None
    peak_bytes: int | None = None
    storage_bytes: int | None = None
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """The seconds of building and scoring together."""
        if self.build_seconds is None or self.score_seconds is None:
            return None
        return self.build_seconds + self.score_seconds


@dataclass(frozen=True)
class Table:
    """All methods on one task, by one ground truth.

    Attributes:
        task: its name.
        view: which model ground truth retrained: "plain", or the masked one in "full" view.
        rows: one per method.
        ceiling: the linear datamodeling score that retraining noise allows.
        random_brittleness: share of predictions that random removal changes, by number of removed rows.
        agreement: between the methods that gave scores.
    """

    task: str
    view: str
    rows: Sequence[Row]
    ceiling: Ceiling | None = None
    random_brittleness: Mapping[int, float] | None = None
    agreement: Agreement | None = None

    def to_markdown(self) -> str:
        """Return the table with notes for its readers, and the reasons of what failed."""
        columns = [(head, [cell(row) for row in self.rows]) for head, cell in _COLUMNS]
        shown = [(head, cells) for head, cells in columns if head == "method" or any(cells)]
        lines = [f"**{self.task}**; ground truth: {_VIEWS.get(self.view, self.view)}.", ""]
        body = [[cells[place] or "–" for _, cells in shown] for place in range(len(self.rows))]
        lines.append(markdown_table([head for head, _ in shown], body))
        notes = [*self._references(), *self._problems()]
        return "\n".join([*lines, "", *notes] if notes else lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it; NaN becomes None."""
        rows = [{**_plain(dataclasses.asdict(row)), "seconds": row.seconds} for row in self.rows]
        return {**_plain({**vars(self), "rows": None}), "rows": rows}

    def _references(self) -> list[str]:
        notes = []
        if self.ceiling is not None:
            low, high = self.ceiling.interval.low, self.ceiling.interval.high
            notes.append(f"- Retraining noise allows an LDS of {self.ceiling.value:.3f} [{low:.3f}, {high:.3f}].")
        if self.random_brittleness:
            notes.append(f"- Predictions changed by removing random rows: {_by_k(self.random_brittleness)}.")
        return notes

    def _problems(self) -> list[str]:
        return [f"- {row.method}, {what}: {why}" for row in self.rows for what, why in row.problems.items()]


def agreement(named_scores: Mapping[str, AnyScores], *, k: int = 10, ids: ArrayLike | None = None) -> Agreement:
    """Return rank correlation and overlap of the most helpful rows for every pair of methods.

    Args:
        named_scores: name to scores [rows, queries], all of the same rows and queries.
        k: length of the lists that are compared.
        ids: instance id of every row; None: those of the first Scores, else row numbers.

    Raises:
        ScoresError: rows or queries differ, or k is not below the number of rows.

    Example:
        >>> scores = np.random.default_rng(0).normal(size=(30, 4))
        >>> agreement({"one": scores, "same order": scores**3}, k=5).overlap
        array([[1., 1.],
               [1., 1.]])
    """
    if len(named_scores) < 2:
        raise ScoresError(f"`named_scores` must have two methods or more, got {len(named_scores)}: {{name: scores}}.")
    if ids is None:
        ids = next((scores.mask_ids for scores in named_scores.values() if isinstance(scores, Scores)), None)
    names = tuple(named_scores)
    values = [matrix_of(scores, ids=ids, name=f"scores of {name!r}") for name, scores in named_scores.items()]
    for name, matrix in zip(names, values, strict=True):
        if matrix.shape != values[0].shape:
            raise ScoresError(
                f"scores of {name!r} are {list(matrix.shape)}, those of {names[0]!r} {list(values[0].shape)}. "
                "Give scores of the same rows and queries."
            )
    if not 1 <= k < len(values[0]):
        raise ScoresError(f"`k` must be an integer from 1 to {len(values[0]) - 1} for {len(values[0])} rows, got {k}.")
    tops = [_top(matrix, k) for matrix in values]
    return Agreement(
        names,
        np.array([[mean_of_known(spearman(one, other)) for other in values] for one in values]),
        np.array([[float((one & other).sum(0).mean() / k) for other in tops] for one in tops]),
        k,
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, padded: bool = True) -> str:
    """Return a Markdown table, its first column to the left, the others, which are numbers, to the right.

    Args:
        head: titles of the columns.
        rows: cells.
        padded: pad all cells of a column to one width. False: cells are sentences, and all columns are to the left.

    Example:
        >>> print(markdown_table(["method", "LDS"], [["TracIn", "0.12"]]))
        | method |  LDS |
        |--------|-----:|
        | TracIn | 0.12 |
        >>> print(markdown_table(["claim", "verdict"], [["rare words are memorized", "holds"]], padded=False))
        | claim | verdict |
        |---|---|
        | rare words are memorized | holds |
    """
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(3, *(len(row[column]) for row in cells)) if padded else 1 for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        others = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        return "| " + " | ".join([row[0].ljust(widths[0]), *others]) + " |"

    end = ":" if padded else "-"
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + end for width in widths[1:]), ""])
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lds(row: Row) -> str:
    return "" if row.lds is None else f"{row.lds.value:.3f} [{row.lds.interval.low:.3f}, {row.lds.interval.high:.3f}]"


def _loo(row: Row) -> str:
    return "" if row.loo is None else f"{row.loo.pearson.mean:.2f} / {row.loo.spearman.mean:.2f}"


def _detection(result: MislabelDetection | None) -> str:
    return "" if result is None else f"{result.auc:.3f} / {result.found:.0%} at {result.share:.0%}"


def _by_k(shares: Mapping[int, float] | None) -> str:
    return ", ".join(f"{share:.0%} at {k}" for k, share in (shares or {}).items())


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _size(value: int | None) -> str:
    if value is None:
        return ""
    power = min(int(math.log(value, 1000)), len(_UNITS) - 1) if value > 0 else 0
    return f"{value / 1000**power:.3g} {_UNITS[power]}"


def _top(values: Floats, k: int) -> np.ndarray:
    """Return bool [rows, queries]: the k largest of each query, among equals the first."""
    chosen = np.zeros(values.shape, bool)
    np.put_along_axis(chosen, np.argsort(-values, axis=0, kind="stable")[:k], True, axis=0)
    return chosen


_VIEWS = {"plain": "the plain model, retrained", "full": "the masked model, retrained and asked in full view"}
_COLUMNS = (
    ("method", lambda row: row.method),
    ("LDS", _lds),
    ("leave-one-out r / ρ", _loo),
    ("wrong labels by self-influence: AUC / found", lambda row: _detection(row.mislabels_self)),
    ("by mean influence", lambda row: _detection(row.mislabels_mean)),
    ("predictions changed", lambda row: _by_k(row.brittleness)),
    ("seconds to build", lambda row: _seconds(row.build_seconds)),
    ("to score", lambda row: _seconds(row.score_seconds)),
    ("peak memory", lambda row: _size(row.peak_bytes)),
    ("storage", lambda row: _size(row.storage_bytes)),
)
