"""Many methods on one task in one table, and how far they agree, as data and as Markdown."""

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.evaluation import (
    LDS,
    AnyScores,
    Bootstrap,
    Ceiling,
    Floats,
    MislabelDetection,
    Queries,
    SubsetOutcomes,
    View,
    identity_of,
    in_view,
    lds,
    matrix_of,
    mean_of_known,
    mislabel_detection,
    retraining_ceiling,
    spearman,
    subset_outcomes,
)
from turnover.influence import fingerprint_of
from turnover.layers import map_tensors
from turnover.scores import Scores
from turnover.training import TrainingRecipe
from turnover_bench.baselines import LeaveOneOut

from .cost import PeakResident, Stopwatch, stored_bytes
from .retraining import Brittleness, LeaveOneOutCorrelation, brittleness, loo_correlation

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


Metric = Literal["lds", "loo", "mislabels", "self", "brittleness", "agreement"]
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True)
class Task:
    """What methods are compared on.

    Attributes:
        name: for the table.
        recipe: how the model is trained, on which rows.
        queries: a tuple (inputs, targets), inputs in the form of the recipe's.
        wrong: bool [rows]: whose labels are known to be wrong; None: not known.
    """

    name: str
    recipe: TrainingRecipe
    queries: Queries
    wrong: np.ndarray | None = None


@dataclass(frozen=True)
class EvaluationConfig:
    """How much retraining goes into the ground truth, and which model is retrained.

    Attributes:
        view: "plain": without masks; "full": the masked model, as deployed; None: what the recipe builds.
        subsets: for the linear datamodeling score.
        share: of the rows in a subset.
        subset_seeds: retrainings of each subset.
        loo_rows: how many rows to leave out, drawn at random; None: all.
        loo_seeds: of leave-one-out retraining.
        found_share: of the rows to look at for wrong labels.
        ks: how many rows to remove for brittleness.
        brittle_queries: how many of the queries to use for brittleness, which takes a training each.
        brittle_seeds: of its trainings.
        top: length of the lists whose overlap is counted.
        processes: worker processes.
        cache: a folder for all retraining.
        bootstrap: how intervals are made.
    """

    view: View | None = None
    subsets: int = 50
    share: float = 0.5
    subset_seeds: int = 2
    loo_rows: int | None = 50
    loo_seeds: Sequence[int] = (0, 1)
    found_share: float = 0.1
    ks: Sequence[int] = (10, 20, 40)
    brittle_queries: int = 10
    brittle_seeds: Sequence[int] = (0,)
    top: int = 10
    processes: int = 1
    cache: str | os.PathLike[str] | None = None
    bootstrap: Bootstrap = field(default_factory=Bootstrap)

    def folder(self, name: str) -> Path | None:
        """Return the folder for one kind of retraining."""
        return None if self.cache is None else Path(self.cache) / name


def evaluate(
    task: Task,
    methods: Mapping[str, Callable[[], Any]],
    *,
    metrics: Collection[Metric] = METRICS,
    config: EvaluationConfig | None = None,
    leave_one_out_scores: Any = None,
    progress: bool = False,
) -> Table:
    """Return one table of all methods, measured on the same rows, queries and ground truth.

    A method that raises is reported in its row with the reason, and the others continue; so is a metric that fails.

    Args:
        task: rows, queries and what is known of them.
        methods: name to a function without arguments that trains what the method needs and returns an object with
            `pairwise(queries)` and, for the metric "self", `self_influence()`, as `Influence` and all
            baselines have. Both may return Scores or plain arrays with the recipe's rows in order.
        metrics: "lds", "loo" (correlation with leave-one-out retraining), "mislabels" (by mean influence) and "self"
            (by self-influence), both only if wrong labels are known, "brittleness", "agreement".
        config: how much retraining, and of which model.
        leave_one_out_scores: Scores, a list with one per seed, or arrays; None: retrain.
        progress: show bars.

    Raises:
        ScoresError: a metric is unknown, or there is no method.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(40, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
        >>> task = Task("points", recipe, (x[:4], recipe.targets[:4]))
        >>> class Chance:
        ...     def pairwise(self, queries):
        ...         return torch.randn(40, len(queries[1]))
        >>> table = evaluate(task, {"chance": Chance}, metrics=["lds"], config=EvaluationConfig(subsets=5))
        >>> -1 <= table.rows[0].lds.value <= 1
        True
    """
    unknown = sorted(set(metrics) - set(METRICS))
    if unknown:
        raise ScoresError(f"`metrics` must be some of {', '.join(METRICS)}, got {unknown}.")
    if not methods:
        raise ScoresError("there is no method to evaluate. Give {name: function that builds it}.")
    config = config or EvaluationConfig()
    judge = _Judge(task, frozenset(metrics), config, leave_one_out_scores, progress)
    scores_by_name: dict[str, Scores] = {}
    rows = [_row(name, build, judge, scores_by_name) for name, build in methods.items()]
    agreement_of_all = None
    if "agreement" in metrics and len(scores_by_name) > 1:
        agreement_of_all = agreement(scores_by_name, k=min(config.top, len(task.recipe) - 1), ids=judge.ids)
    return Table(
        task.name,
        judge.view,
        rows,
        ceiling=judge.ceiling(),
        random_brittleness=judge.random_brittleness,
        agreement=agreement_of_all,
    )


class _Judge:
    """The ground truth of a task, made once, and the metrics of scores by it."""

    def __init__(
        self, task: Task, metrics: frozenset[Metric], config: EvaluationConfig, leave_one_out: Any, progress: bool
    ) -> None:
        self.task, self.config, self._progress = task, config, progress
        self.recipe: TrainingRecipe
        self.view: View
        self.recipe, self.view = in_view(task.recipe, config.view)
        self.ids = task.recipe.row_ids
        self.queries = len(task.recipe.over(task.queries))
        self.random_brittleness: dict[int, float] | None = None
        possible = metrics if task.wrong is not None else metrics - {"mislabels", "self"}
        self.metrics: list[Metric] = [metric for metric in METRICS if metric in possible and metric != "agreement"]
        self._subset_outcomes = self._retrained_on_subsets() if "lds" in possible else None
        self._leave_one_out = leave_one_out
        if "loo" in possible and leave_one_out is None:
            self._leave_one_out = self._retrained_without_rows()

    def ceiling(self) -> Ceiling | None:
        """Return what retraining noise allows, where it is known."""
        if self._subset_outcomes is None or len(self._subset_outcomes.outcomes) < 2:
            return None
        return retraining_ceiling(self._subset_outcomes.outcomes, bootstrap=self.config.bootstrap)

    def read(self, scores: Any, shape: tuple[int, ...]) -> Scores:
        """Return the scores of a method as Scores, in the order of the rows."""
        values = matrix_of(scores, ids=self.ids)
        if len(shape) == 1 and values.shape[1] == 1:
            values = values[:, 0]
        if values.shape != shape:
            raise ScoresError(f"scores are {list(values.shape)}. Give {list(shape)}: all rows and queries of the task.")
        return Scores(values, ids=self.ids)

    def measure(self, metric: Metric, method: Any, scores: Scores) -> dict[str, Any]:
        """Return the fields of a row that a metric fills."""
        bootstrap = self.config.bootstrap
        if metric == "lds":
            truth = self._subset_outcomes
            assert truth is not None
            return {"lds": lds(scores, truth.subsets, truth.outcomes, ids=truth.ids, bootstrap=bootstrap)}
        if metric == "loo":
            return {"loo": loo_correlation(scores, self._leave_one_out, ids=self.ids, bootstrap=bootstrap)}
        if metric == "mislabels":
            return {"mislabels_mean": self._mislabels(-scores.values.mean(1))}
        if metric == "self":
            if not hasattr(method, "self_influence"):
                return {}
            self_influence = self.read(method.self_influence(), (len(self.ids),))
            return {"mislabels_self": self._mislabels(self_influence.values)}
        result = self._brittleness(scores)
        self.random_brittleness = dict(zip(result.ks, result.random_share.tolist(), strict=True))
        return {"brittleness": dict(zip(result.ks, result.share.tolist(), strict=True))}

    def _mislabels(self, suspicion: np.ndarray) -> MislabelDetection:
        return mislabel_detection(suspicion, np.asarray(self.task.wrong), share=self.config.found_share)

    def _brittleness(self, scores: Scores) -> Brittleness:
        count = min(self.config.brittle_queries, self.queries)
        values = scores.values[:, :count]
        return brittleness(
            Scores(values, ids=self.ids),
            self.recipe,
            map_tensors(self.task.queries, lambda tensor: tensor[:count]),
            ks=self.config.ks,
            seeds=self.config.brittle_seeds,
            processes=self.config.processes,
            # Other scores remove other rows: each has a folder of its own.
            cache=self.config.folder(f"brittleness-{fingerprint_of([values, list(self.config.ks)])[:12]}"),
            progress=self._progress,
        )

    def _retrained_on_subsets(self) -> SubsetOutcomes:
        return subset_outcomes(
            self.recipe,
            self.task.queries,
            subsets=self.config.subsets,
            share=self.config.share,
            seeds=self.config.subset_seeds,
            processes=self.config.processes,
            cache=self.config.folder("subset-outcomes"),
            progress=self._progress,
        )

    def _retrained_without_rows(self) -> list[Scores]:
        """Return the scores of some rows by leave-one-out retraining, one result per seed."""
        config = self.config
        count = len(self.ids) if config.loo_rows is None else min(config.loo_rows, len(self.ids))
        rows = np.sort(np.random.default_rng(0).choice(len(self.ids), count, replace=False))
        cache = config.folder("leave-one-out")
        identity = None if cache is None else identity_of(self.recipe, self.task.queries, self.view)
        return [
            LeaveOneOut(
                self.recipe, seeds=(seed,), processes=config.processes, cache=cache, identity=identity
            ).pairwise(self.task.queries, ids=self.ids[rows], progress=self._progress)
            for seed in config.loo_seeds
        ]


def _row(name: str, build: Callable[[], Any], judge: _Judge, scores_by_name: dict[str, Scores]) -> Row:
    """Return the row of a method, whatever it does; its scores are kept under its name."""
    row = Row(name)
    try:
        with PeakResident() as peak, Stopwatch() as whole:
            with Stopwatch() as building:
                method = build()
            raw_scores = method.pairwise(judge.task.queries)
        row = replace(
            row,
            build_seconds=building.seconds,
            score_seconds=whole.seconds - building.seconds,
            peak_bytes=peak.bytes,
            storage_bytes=stored_bytes(method, without=[judge.task, judge.recipe]),
        )
        scores = scores_by_name[name] = judge.read(raw_scores, (len(judge.ids), judge.queries))
    except Exception as error:  # noqa: BLE001 - one method must not end the comparison of the others
        return replace(row, problems={"method": _reason(error)})
    problems: dict[str, str] = {}
    for metric in judge.metrics:
        try:
            row = replace(row, **judge.measure(metric, method, scores))
        except Exception as error:  # noqa: BLE001 - nor must one metric
            problems[metric] = _reason(error)
    return replace(row, problems=problems)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
