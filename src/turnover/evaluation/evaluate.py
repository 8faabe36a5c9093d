"""Wrong-label detection; several methods by one ground truth; and where further methods come from."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.storage import as_plain
from turnover.training import TrainingRecipe

from .lds import LDS, Ceiling, Queries, View, in_view, lds, retraining_ceiling, subset_outcomes
from .statistics import AnyScores, Floats, average_ranks, matrix_of

Metric = Literal["lds", "mislabels", "self"]
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True)
class MislabelDetection:
    """How well a suspicion finds wrong labels; rows that are equally suspicious count as drawn at random.

    Attributes:
        auc: chance that a wrong row is more suspicious than a right one; 0.5 for a random suspicion.
        found: share of all wrong rows among the most suspicious `share` of the rows.
    """

    auc: float
    found: float
    share: float
    wrong: int
    rows: int


def mislabel_detection(
    suspicion: AnyScores, is_wrong: ArrayLike, *, share: float = 0.1, ids: ArrayLike | None = None
) -> MislabelDetection:
    """Return how well a suspicion finds the rows whose labels are wrong.

    A row with a wrong label is memorized, so that its self-influence is high; and it harms others, so that its mean
    influence on clean queries is low: give that with its sign changed.

    Args:
        suspicion: [rows], larger for more suspicious rows.
        is_wrong: bool [rows].
        share: of the rows to look at.
        ids: instance id of every row of `is_wrong`; None: row numbers.

    Raises:
        ScoresError: shapes or ids do not fit, or no row or every row is wrong.

    Example:
        >>> detection = mislabel_detection([0.9, 0.1, 0.8, 0.2], [True, False, True, False], share=0.5)
        >>> detection.auc, detection.found
        (1.0, 1.0)
    """
    wrong = np.asarray(is_wrong)
    if wrong.ndim != 1 or wrong.dtype != np.bool_:
        raise ScoresError(f"is_wrong is {wrong.dtype} of shape {list(wrong.shape)}. Give a bool for each row.")
    values = matrix_of(suspicion, ids=ids, name="suspicion")
    if values.shape != (len(wrong), 1):
        raise ScoresError(f"suspicion is {list(values.shape)} for {len(wrong)} rows. Give one number per row.")
    count = int(wrong.sum())
    if count in (0, len(wrong)):
        raise ScoresError(f"{count} of {len(wrong)} rows are wrong. Both kinds are needed to tell apart.")
    if not 0 < share <= 1:
        raise ScoresError(f"`share` must be within (0, 1], such as 0.1, got {share}.")
    ranks = average_ranks(values[:, 0])[wrong].sum()
    # The number of wrong rows among the 1, 2, ... most suspicious, expected over the order of equals.
    _, group, sizes = np.unique(-values[:, 0], return_inverse=True, return_counts=True)
    hits = np.cumsum(np.repeat(np.bincount(group, weights=wrong) / sizes, sizes))
    return MislabelDetection(
        auc=float((ranks - count * (count + 1) / 2) / (count * (len(wrong) - count))),
        found=float(hits[max(1, round(share * len(wrong))) - 1] / count),
        share=share,
        wrong=count,
        rows=len(wrong),
    )


class Method(Protocol):
    """A method of another distribution: each entry point of the group `turnover.methods` maps names to methods."""

    title: str
    trainings: int

    def check(self) -> None:
        """Raise a TurnOverError that says what to install where the method cannot run."""

    def build(self, recipe: TrainingRecipe, seed: int) -> Any:
        """Return an object with `pairwise(queries)` and `self_influence()`; what it needs is trained."""


def installed_methods() -> dict[str, Method]:
    """Return the methods of all installed distributions, by name."""
    entries = metadata.entry_points(group="turnover.methods")
    return {name: method for entry in entries for name, method in entry.load().items()}


def find_method(name: str) -> Method:
    """Return a method that can run, by name; a ScoresError or MissingExtraError says what to install."""
    known = installed_methods()
    if name not in known:
        install = "Install methods: pip install turnover-bench (in a clone: pip install ./bench)."
        cure = f"Give one of {', '.join(known)}." if known else install
        raise ScoresError(f"there is no method {name!r}. {cure}")
    known[name].check()
    return known[name]


@dataclass(frozen=True)
class Row:
    """What was measured of one method; None: not asked for, not possible, or failed.

    Attributes:
        mislabels_self: wrong labels found by self-influence.
        mislabels_mean: wrong labels found by mean influence on the queries.
        seconds: until the method had scored all queries, trainings included.
        problems: what failed ("method" or the name of a metric), to the reason.
    """

    method: str
    lds: LDS | None = None
    mislabels_self: MislabelDetection | None = None
    mislabels_mean: MislabelDetection | None = None
    seconds: float | None = None
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """All methods by one ground truth: which model was retrained, a row per method, what retraining noise allows."""

    view: View
    rows: Sequence[Row]
    ceiling: Ceiling | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it; NaN becomes None."""
        return as_plain(self)


def evaluate(
    methods: Mapping[str, Callable[[], Any]],
    recipe: TrainingRecipe,
    queries: Queries,
    *,
    wrong: np.ndarray | None = None,
    metrics: Collection[Metric] = METRICS,
    view: View | None = None,
    subsets: int = 50,
    processes: int = 1,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Table:
    """Return one table of all methods, measured on the same rows, queries and ground truth.

    A method that raises is reported in its row with the reason, and the others continue; so is a metric that fails.

    Args:
        methods: name to a function without arguments that trains what the method needs and returns an object with
            `pairwise(queries)` and, for the metric "self", `self_influence()`, as `Influence` has them. Both
            may return Scores or plain arrays with the recipe's rows in order.
        recipe: how the model is trained, on which rows.
        queries: a tuple (inputs, targets), inputs in the form of the recipe's.
        wrong: bool [rows]: whose labels are known to be wrong; None: not known.
        metrics: "lds"; where wrong labels are known "mislabels" (by mean influence) and "self" (by self-influence).
        view: which model is retrained, as in `subset_outcomes`.
        subsets: random halves of the rows for "lds", two trainings each.
        processes: worker processes.
        cache: a folder in which finished trainings are kept.
        progress: show bars.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(40, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
        >>> class Chance:
        ...     def pairwise(self, queries):
        ...         return torch.randn(40, len(queries[1]))
        >>> table = evaluate({"chance": Chance}, recipe, (x[:4], recipe.targets[:4]), metrics=["lds"], subsets=5)
        >>> -1 <= table.rows[0].lds.value <= 1
        True
    """
    unknown = sorted(set(metrics) - set(METRICS))
    if unknown:
        raise ScoresError(f"`metrics` must be some of {', '.join(METRICS)}, got {unknown}.")
    if not methods:
        raise ScoresError("there is no method to evaluate. Give {name: function that builds it}.")
    recipe, view = in_view(recipe, view)
    ids, shape = recipe.row_ids, (len(recipe), len(recipe.over(queries)))
    truth = None
    if "lds" in metrics:
        truth = subset_outcomes(recipe, queries, subsets=subsets, processes=processes, cache=cache, progress=progress)

    def measured(metric: Metric, method: Any, scores: Floats) -> dict[str, Any]:
        if metric == "lds":
            return {} if truth is None else {"lds": lds(scores, truth.subsets, truth.outcomes)}
        if wrong is None or (metric == "self" and not hasattr(method, "self_influence")):
            return {}
        if metric == "mislabels":
            return {"mislabels_mean": mislabel_detection(-scores.mean(1), wrong)}
        return {"mislabels_self": mislabel_detection(matrix_of(method.self_influence(), ids=ids), wrong)}

    def row_of(name: str, build: Callable[[], Any]) -> Row:
        row, began = Row(name), time.perf_counter()
        try:
            method = build()
            scores = matrix_of(method.pairwise(queries), ids=ids)
            row = replace(row, seconds=time.perf_counter() - began)
            if scores.shape != shape:
                raise ScoresError(f"scores are {list(scores.shape)}. Give {list(shape)}: all rows and queries.")
        except Exception as error:  # noqa: BLE001 - one method must not end the comparison of the others
            return replace(row, problems={"method": f"{type(error).__name__}: {error}"})
        problems: dict[str, str] = {}
        for metric in METRICS:
            try:
                row = replace(row, **(measured(metric, method, scores) if metric in metrics else {}))
            except Exception as error:  # noqa: BLE001 - nor must one metric
                problems[metric] = f"{type(error).__name__}: {error}"
        return replace(row, problems=problems)

    rows = [row_of(name, build) for name, build in methods.items()]
    return Table(view, rows, None if truth is None else retraining_ceiling(truth.outcomes))
