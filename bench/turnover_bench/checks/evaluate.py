"""One task, many methods, one table."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from turnover.errors import ScoresError
from turnover.evaluation import (
    Bootstrap,
    Ceiling,
    MislabelDetection,
    Queries,
    SubsetOutcomes,
    View,
    identity_of,
    in_view,
    lds,
    matrix_of,
    mislabel_detection,
    retraining_ceiling,
    subset_outcomes,
)
from turnover.influence import fingerprint_of
from turnover.layers import map_tensors
from turnover.scores import Scores
from turnover.training import TrainingRecipe
from turnover_bench.baselines import LeaveOneOut

from .brittleness import Brittleness, brittleness
from .cost import PeakResident, Stopwatch, stored_bytes
from .leave_one_out import loo_correlation
from .table import Row, Table, agreement

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
