"""Scores against retraining without rows: one row at a time, or all that a prediction is said to rest on."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError
from turnover.evaluation import (
    AnyScores,
    Bootstrap,
    Floats,
    Interval,
    Queries,
    View,
    identity_of,
    in_view,
    interval_of,
    matrix_of,
    mean_of_known,
    query_predictions,
    spearman,
)
from turnover.scores import Scores
from turnover.training import TrainingRecipe, retrain

_MIN_ROWS = 3


@dataclass(frozen=True)
class Correlation:
    """One kind of correlation with leave-one-out retraining.

    Attributes:
        mean: over queries, with the scores of retraining averaged over seeds.
        interval: bootstrap interval of the mean, over queries and seeds.
        pooled: of all pairs of row and query at once.
        per_query: of every query, over the rows; NaN where retraining changes nothing.
        per_seed: mean over queries, with one seed's retraining each.
    """

    mean: float
    interval: Interval
    pooled: float
    per_query: Floats
    per_seed: Floats


@dataclass(frozen=True)
class LeaveOneOutCorrelation:
    """How well scores agree with retraining.

    Attributes:
        pearson: of the values: right up to a scale and an offset.
        spearman: of the ranks.
        rows: how many rows were left out, one at a time.
        seeds: over how many seeds retraining was averaged.
    """

    pearson: Correlation
    spearman: Correlation
    rows: int
    seeds: int


def loo_correlation(
    scores: AnyScores,
    leave_one_out_scores: AnyScores | Sequence[Scores],
    *,
    ids: ArrayLike | None = None,
    bootstrap: Bootstrap | None = None,
) -> LeaveOneOutCorrelation:
    """Return Pearson's and Spearman's correlation of scores with leave-one-out retraining.

    Args:
        scores: [rows, queries].
        leave_one_out_scores: Scores; a list of Scores, one per seed; or an array [rows, queries] or [seeds, rows,
            queries]. Scores may be of a part of the rows: those rows are compared.
        ids: instance id of every row of a plain array; None: row numbers.
        bootstrap: how intervals are made; None: 1,000 draws, 95 %.

    Raises:
        ScoresError: ids or shapes do not fit, or fewer than 3 rows were left out.

    Example:
        >>> truth = np.random.default_rng(0).normal(size=(30, 4))
        >>> round(loo_correlation(2 * truth + 1, truth).pearson.mean, 6)
        1.0
    """
    truths, rows = _truths(leave_one_out_scores, ids)
    if rows is not None and not isinstance(scores, Scores):
        numbers = np.asarray(scores, np.float64)
        scores = Scores(numbers, ids=np.arange(len(numbers)) if ids is None else ids)
    values = matrix_of(scores, ids=ids if rows is None else rows)
    if values.shape != truths.shape[1:]:
        raise ScoresError(
            f"scores are {list(values.shape)} and leave-one-out scores {list(truths.shape[1:])}. Give the same rows "
            "and queries."
        )
    if len(values) < _MIN_ROWS:
        raise ScoresError(f"{len(values)} rows were left out. Leave out at least {_MIN_ROWS}, one at a time.")
    bootstrap = bootstrap or Bootstrap()
    return LeaveOneOutCorrelation(
        pearson=_correlation(pearson, values, truths, bootstrap),
        spearman=_correlation(spearman, values, truths, bootstrap),
        rows=len(values),
        seeds=len(truths),
    )


def _truths(scores: Any, ids: ArrayLike | None) -> tuple[Floats, np.ndarray | None]:
    """Return leave-one-out scores as [seeds, rows, queries], and the ids of the rows where they are known."""
    name = "leave-one-out scores"
    if isinstance(scores, Scores):
        return matrix_of(scores, ids=scores.mask_ids, name=name)[None], scores.mask_ids
    if isinstance(scores, list | tuple) and scores and all(isinstance(of_seed, Scores) for of_seed in scores):
        rows = scores[0].mask_ids
        parts = [matrix_of(of_seed, ids=rows, name=name) for of_seed in scores]
        if len({part.shape for part in parts}) > 1 or any(len(of_seed.mask_ids) != len(rows) for of_seed in scores):
            raise ScoresError("leave-one-out scores of the seeds differ in rows or queries. Give the same for all.")
        return np.stack(parts), rows
    values = np.asarray(scores, np.float64)
    if values.ndim == 3 and len(values):
        return np.stack([matrix_of(of_seed, ids=ids, name=name) for of_seed in values]), None
    return matrix_of(values, ids=ids, name=name)[None], None


def pearson(one: Floats, other: Floats) -> Floats:
    """Return Pearson's correlation of every column with the same column of the other; NaN where one is constant.

    As scipy.stats.pearsonr, which also computes p-values and is too slow for a thousand bootstrap samples.
    """
    a, b = (np.where(np.ptp(values, 0) > 0, values - values.mean(0), 0.0) for values in (one, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        result = (a * b).sum(0) / np.sqrt((a * a).sum(0) * (b * b).sum(0))
    return np.asarray(np.clip(result, -1.0, 1.0))


def _or_zero(measure: Callable[[Floats, Floats], Floats], predicted: Floats, measured: Floats) -> Floats:
    result = measure(predicted, measured)
    result[(np.ptp(predicted, 0) == 0) & (np.ptp(measured, 0) > 0)] = 0.0  # who says nothing must not gain by it
    return result


def _correlation(
    measure: Callable[[Floats, Floats], Floats], values: Floats, truths: Floats, bootstrap: Bootstrap
) -> Correlation:
    per_query = _or_zero(measure, values, truths.mean(0))
    if np.isnan(per_query).all():
        raise ScoresError("leaving rows out changes nothing for any query; there is nothing to compare with.")

    def of_sample(rng: np.random.Generator) -> float:
        # One seed says nothing about seeds; queries are drawn all the same.
        result = per_query
        if len(truths) > 1:
            result = _or_zero(measure, values, truths[rng.integers(0, len(truths), len(truths))].mean(0))
        return mean_of_known(rng.choice(result, len(result)))

    single = len(per_query) == 1 and len(truths) == 1
    return Correlation(
        mean=mean_of_known(per_query),
        interval=Interval(np.nan, np.nan, bootstrap.level) if single else interval_of(of_sample, bootstrap),
        pooled=float(measure(values.ravel(), truths.mean(0).ravel())),
        per_query=per_query,
        per_seed=np.array([mean_of_known(_or_zero(measure, values, truth)) for truth in truths]),
    )


@dataclass(frozen=True)
class Brittleness:
    """Which predictions changed after the most helpful rows were removed, beside rows removed at random.

    Attributes:
        ks: how many rows were removed.
        changed: bool [seeds, ks, queries]: removed were each query's own most helpful rows.
        random: bool [seeds, ks, queries]: removed were rows drawn at random, for all queries the same.
        view: "plain" or "full": which model was retrained.
    """

    ks: tuple[int, ...]
    changed: NDArray[np.bool_]
    random: NDArray[np.bool_]
    view: View

    @property
    def share(self) -> Floats:
        """The share of predictions that changed, for every k."""
        return self.changed.mean((0, 2))

    @property
    def random_share(self) -> Floats:
        """The share of predictions that changed by random removal, for every k."""
        return self.random.mean((0, 2))


def brittleness(
    scores: AnyScores,
    recipe: TrainingRecipe,
    queries: Queries,
    *,
    ks: Sequence[int] = (10, 20, 40),
    seeds: Sequence[int] = (0,),
    processes: int = 1,
    cache: str | os.PathLike[str] | None = None,
    view: View | None = None,
    progress: bool = False,
) -> Brittleness:
    """Return how many predictions change when their k most helpful rows are removed and the model is retrained.

    A prediction is compared with that of a model trained on all rows from the same seed. It takes
    seeds × (1 + ks × (1 + queries)) trainings.

    Args:
        scores: [rows, queries], positive where a row helps.
        recipe: how the model is trained.
        queries: a tuple (inputs, targets), inputs in the form of the recipe's.
        ks: how many rows to remove.
        seeds: of the trainings.
        processes: worker processes.
        cache: a folder for these scores, in which finished trainings are kept.
        view: "plain", "full" or None, as for `subset_outcomes`.
        progress: show a bar.

    Raises:
        ScoresError: scores do not fit the recipe and the queries, or more rows than there are shall be removed.

    Example:
        >>> import torch
        >>> x, y = torch.ones(12, 1), torch.tensor([1] * 8 + [0] * 4)  # all alike: the larger class wins
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 1, 2), x, y, epochs=40)
        >>> scores = torch.where(y == 1, 1.0, -1.0)  # on a query of class 1
        >>> brittleness(scores, recipe, (x[:1], y[:1]), ks=(1, 6)).share
        array([0., 1.])
    """
    values = matrix_of(scores, ids=recipe.row_ids)
    recipe, view = in_view(recipe, view)
    queried = recipe.over(queries)
    if values.shape != (len(recipe), len(queried)):
        raise ScoresError(
            f"scores are {list(values.shape)} for {len(recipe)} rows and {len(queried)} queries. Give [rows, queries]."
        )
    if not ks or any(not 1 <= k < len(recipe) for k in ks) or not seeds:
        raise ScoresError(
            f"`ks` must be integers from 1 to {len(recipe) - 1} and `seeds` one or more, got ks={tuple(ks)}, "
            f"seeds={tuple(seeds)}."
        )
    removals = _removals(values, ks)
    trained = np.concatenate([np.ones((1, len(recipe)), bool), ~removals.reshape(-1, len(recipe))])
    predictions = retrain(
        recipe,
        np.concatenate([trained] * len(seeds)),
        seeds=[int(seed) for seed in seeds for _ in trained],
        measure=partial(query_predictions, queried),
        processes=processes,
        cache=cache,
        identity=identity_of(recipe, queries, view) if cache is not None else None,
        progress=progress,
    ).reshape(len(seeds), len(trained), -1)
    if predictions.shape[2] != len(queried):
        raise ScoresError("the model predicts more than one class per query; brittleness needs one prediction each.")
    different = (predictions[:, 1:] != predictions[:, :1]).reshape(len(seeds), len(ks), 1 + len(queried), len(queried))
    # Of the model retrained for a query, that query's own prediction counts.
    own = np.diagonal(different[:, :, 1:], axis1=2, axis2=3)
    return Brittleness(tuple(int(k) for k in ks), np.array(own), different[:, :, 0], view)


def _removals(values: Floats, ks: Sequence[int]) -> NDArray[np.bool_]:
    """Return bool [ks, 1 + queries, rows]: rows drawn at random first, then the most helpful of each query."""
    rows, queries = values.shape
    order = np.argsort(-values, axis=0, kind="stable")
    chance = np.random.default_rng(0).permutation(rows)
    removed = np.zeros((len(ks), 1 + queries, rows), bool)
    for place, k in enumerate(ks):
        removed[place, 0, chance[:k]] = True
        for query in range(queries):
            removed[place, 1 + query, order[:k, query]] = True
    return removed
