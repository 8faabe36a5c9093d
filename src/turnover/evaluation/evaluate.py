"""Several methods on the rows of one training recipe, by one ground truth, and where further methods come from."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any, Literal, Protocol, get_args

import numpy as np

from turnover.errors import ScoresError
from turnover.scores import Scores
from turnover.training import TrainingRecipe

from .ground_truth import Queries, View, in_view, subset_outcomes
from .lds import LDS, Ceiling, lds, retraining_ceiling
from .mislabels import MislabelDetection, mislabel_detection, suspicion_of
from .statistics import matrix_of

Metric = Literal["lds", "mislabels", "self"]
METRICS: tuple[Metric, ...] = get_args(Metric)

# Each entry point of this group is a mapping of names to methods.
_GROUP = "turnover.methods"


class Method(Protocol):
    """A method of another distribution, such as turnover-bench."""

    title: str
    trainings: int

    def check(self) -> None:
        """Raise a TurnOverError that says what to install where the method cannot run."""

    def build(self, recipe: TrainingRecipe, seed: int) -> Any:
        """Return an object with `pairwise(queries)` and `self_influence()`; what it needs is trained."""


def installed_methods() -> dict[str, Method]:
    """Return the methods of all installed distributions, by name."""
    return {name: method for entry in metadata.entry_points(group=_GROUP) for name, method in entry.load().items()}


def find_method(name: str) -> Method:
    """Return a method that can run, by name.

    Raises:
        ScoresError: no installed distribution offers it.
        MissingExtraError: its package is not installed.
    """
    known = installed_methods()
    if name not in known:
        cure = f"Give one of {', '.join(known)}." if known else "Install the methods: pip install turnover-bench"
        clone = "" if known else " (in a clone: pip install ./bench)."
        raise ScoresError(f"there is no method {name!r}. {cure}{clone}")
    known[name].check()
    return known[name]


@dataclass(frozen=True)
class Row:
    """What was measured of one method; None: not asked for, not possible, or failed (see `problems`).

    Attributes:
        method: its name.
        lds: linear datamodeling score.
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
    """All methods by one ground truth.

    Attributes:
        view: which model ground truth retrained: "plain", or the masked one in "full" view.
        rows: one per method.
        ceiling: the linear datamodeling score that retraining noise allows.
    """

    view: str
    rows: Sequence[Row]
    ceiling: Ceiling | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it; NaN becomes None."""
        return _plain(dataclasses.asdict(self))


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
        metrics: "lds", "mislabels" (by mean influence) and "self" (by self-influence), both only if wrong labels
            are known.
        view: "plain": retrain without masks; "full": the masked model, as deployed; None: what the recipe builds.
        subsets: random halves of the rows for "lds", two trainings each.
        processes: worker processes.
        cache: a folder for all retraining.
        progress: show bars.

    Raises:
        ScoresError: a metric is unknown, or there is no method.

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

    def read(scores: Any, shape: tuple[int, ...]) -> Scores:
        values = matrix_of(scores, ids=ids)
        values = values[:, 0] if len(shape) == 1 and values.shape[1] == 1 else values
        if values.shape != shape:
            raise ScoresError(f"scores are {list(values.shape)}. Give {list(shape)}: all rows and queries.")
        return Scores(values, ids=ids)

    def measured(metric: Metric, method: Any, scores: Scores) -> dict[str, Any]:
        if metric == "lds":
            return {} if truth is None else {"lds": lds(scores, truth.subsets, truth.outcomes, ids=ids)}
        if wrong is None or (metric == "self" and not hasattr(method, "self_influence")):
            return {}
        if metric == "mislabels":
            return {"mislabels_mean": mislabel_detection(suspicion_of(scores, by="mean"), wrong, ids=ids)}
        own = read(method.self_influence(), shape[:1])
        return {"mislabels_self": mislabel_detection(suspicion_of(own, by="self"), wrong, ids=ids)}

    rows = []
    for name, build in methods.items():
        row, began = Row(name), time.perf_counter()
        try:
            method = build()
            raw_scores = method.pairwise(queries)
            row = replace(row, seconds=time.perf_counter() - began)
            scores = read(raw_scores, shape)
        except Exception as error:  # noqa: BLE001 - one method must not end the comparison of the others
            rows.append(replace(row, problems={"method": _reason(error)}))
            continue
        problems: dict[str, str] = {}
        for metric in METRICS:
            try:
                row = replace(row, **(measured(metric, method, scores) if metric in metrics else {}))
            except Exception as error:  # noqa: BLE001 - nor must one metric
                problems[metric] = _reason(error)
        rows.append(replace(row, problems=problems))
    return Table(view, rows, ceiling=None if truth is None else retraining_ceiling(truth.outcomes))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
