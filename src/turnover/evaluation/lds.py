"""The linear datamodeling score: do summed scores rank the losses of models trained on subsets of the rows?

For each query the scores of a subset's rows are added up and compared by rank with the loss that a model trained on
that subset has on the query (Park et al. 2023). Retraining is noisy, so that even the truth does not reach 1: the
ceiling says what it would reach.
"""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from turnover.errors import ScoresError, TrainingError
from turnover.influence import fingerprint_of
from turnover.layers import find_root
from turnover.training import Inputs, RowMeasure, TrainingRecipe, retrain
from turnover.wrapping import unwrap

from .statistics import (
    AnyScores,
    Bootstrap,
    Floats,
    Interval,
    interval_of,
    matrix_of,
    mean_interval,
    mean_of_known,
    spearman,
)

View = Literal["plain", "full"]
Queries = tuple[Inputs, Tensor]

_MIN_SUBSETS = 3
# Ground truth must not share initial parameters with a method's own model, which usually has a small seed.
_FIRST_SEED = 1_000_000


@dataclass(frozen=True)
class Ceiling:
    """The score of an attribution that knows the expected outcome of every subset, with its interval over queries."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class LDS:
    """The linear datamodeling score of an attribution.

    Attributes:
        value: mean over queries, with its bootstrap interval; 1 for a perfect attribution, 0 for a random one.
        per_query: rank correlation of every query; NaN where all subsets had the same outcome.
        ceiling: what retraining noise allows; None for a single retraining of each subset.
    """

    value: float
    interval: Interval
    per_query: Floats
    ceiling: Ceiling | None


def lds(
    scores: AnyScores,
    subsets: ArrayLike,
    outcomes: ArrayLike,
    *,
    ids: ArrayLike | None = None,
    bootstrap: Bootstrap | None = None,
) -> LDS:
    """Return the linear datamodeling score of scores, with its interval and its ceiling.

    Args:
        scores: [rows, queries], positive where a row helps; from turnover or from another library.
        subsets: bool [subsets, rows]: on which rows each model was trained.
        outcomes: losses [subsets, queries], or [seeds, subsets, queries] for several retrainings of each subset.
        ids: instance id of every row of the subsets; None: row numbers. Plain arrays are in this order already.
        bootstrap: how the interval is made; None: 1,000 draws, 95 %.

    Raises:
        ScoresError: shapes or ids do not fit, or there are fewer than 3 subsets.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> helps, subsets = rng.normal(size=(20, 4)), rng.random((50, 20)) < 0.5
        >>> lds(helps, subsets, -(subsets @ helps)).value  # losses that fall as the rows' help adds up
        1.0
    """
    bootstrap = bootstrap or Bootstrap()
    runs, members, values = _runs(outcomes), np.asarray(subsets), matrix_of(scores, ids=ids)
    if members.dtype != np.bool_ or members.ndim != 2 or members.shape[0] != runs.shape[1]:
        raise ScoresError(
            f"subsets are {members.dtype} of shape {list(members.shape)} for outcomes of {runs.shape[1]} subsets. "
            "Give bool [subsets, rows]."
        )
    if values.shape != (members.shape[1], runs.shape[2]):
        raise ScoresError(
            f"scores are {list(values.shape)}, subsets {list(members.shape)} and outcomes {list(runs.shape[1:])}. "
            "Give [rows, queries], [subsets, rows] and [subsets, queries]."
        )
    predicted, measured = members.astype(np.float64) @ values, -runs.mean(0)
    per_query = spearman(predicted, measured)
    # A method that says nothing about a query must not gain by it; a query whose losses are all equal cannot judge any.
    per_query[(np.ptp(predicted, 0) == 0) & (np.ptp(measured, 0) > 0)] = 0.0
    if np.isnan(per_query).all():
        raise ScoresError("all subsets have the same outcome for every query; there is nothing to rank.")
    ceiling = retraining_ceiling(runs, bootstrap=bootstrap) if len(runs) > 1 else None
    return LDS(mean_of_known(per_query), mean_interval(per_query, bootstrap), per_query, ceiling)


def retraining_ceiling(outcomes: ArrayLike, *, bootstrap: Bootstrap | None = None) -> Ceiling:
    """Return the score that retraining noise allows, from losses [seeds, subsets, queries] with two seeds or more.

    The correlation r of two retrainings tells which share of the outcomes' variance is not noise. The mean of R
    retrainings has the reliability R r / (1 + (R − 1) r) (Spearman–Brown), and its correlation with the noiseless
    outcome is the square root of that. It is taken of the mean r over queries and pairs of seeds: the root of each
    query's own r would be biased.

    Example:
        >>> outcomes = np.random.default_rng(0).normal(size=(1, 50, 8)).repeat(2, 0)  # retraining without noise
        >>> round(retraining_ceiling(outcomes).value, 6)
        1.0
    """
    runs, bootstrap = _runs(outcomes), bootstrap or Bootstrap()
    if len(runs) < 2:
        raise ScoresError("one retraining of each subset says nothing about noise. Give [seeds, subsets, queries].")
    each = np.mean([spearman(run, other) for run, other in itertools.combinations(runs, 2)], axis=0)
    known = each[~np.isnan(each)]

    def reach(values: Floats) -> float:
        r = max(mean_of_known(values), 0.0)
        return float(np.sqrt(len(runs) * r / (1 + (len(runs) - 1) * r)))

    interval = Interval(np.nan, np.nan, bootstrap.level)
    if known.size > 1:
        interval = interval_of(lambda rng: reach(rng.choice(known, known.size)), bootstrap)
    return Ceiling(reach(known), interval)


def _runs(outcomes: ArrayLike) -> Floats:
    """Return outcomes as [seeds, subsets, queries]."""
    runs = np.asarray(outcomes, np.float64)
    runs = runs[None] if runs.ndim == 2 else runs
    if runs.ndim != 3 or not runs.size:
        raise ScoresError(
            f"outcomes have shape {list(runs.shape)}. Give [subsets, queries] or [seeds, subsets, queries]."
        )
    if runs.shape[1] < _MIN_SUBSETS:
        raise ScoresError(f"{runs.shape[1]} subsets cannot be ranked. Give at least {_MIN_SUBSETS}; 50 are usual.")
    if not np.isfinite(runs).all():
        raise ScoresError(f"{int((~np.isfinite(runs)).sum())} outcomes are not finite: a training diverged.")
    return runs


@dataclass(frozen=True)
class SubsetOutcomes:
    """Losses [seeds, subsets, queries] of models that were trained on subsets of the rows, bool [subsets, rows].

    View "plain": the model without masks was retrained; "full": the masked model, asked in full view.
    """

    subsets: NDArray[np.bool_]
    outcomes: NDArray[np.float32]
    ids: NDArray[np.int64]
    view: View


def subset_outcomes(
    recipe: TrainingRecipe,
    queries: Queries,
    *,
    subsets: int | np.ndarray = 50,
    share: float = 0.5,
    seeds: int | Sequence[int] = 2,
    processes: int = 1,
    cache: str | os.PathLike[str] | None = None,
    view: View | None = None,
    progress: bool = False,
) -> SubsetOutcomes:
    """Return the query losses of models trained on random subsets: the ground truth of `lds`.

    Every training has a seed of its own, as in a new experiment: noise of initial parameters and batches is then
    independent from subset to subset, and `lds` can estimate the ceiling.

    Args:
        recipe: how a model is trained.
        queries: a tuple (inputs, targets), inputs in the form of the recipe's.
        subsets: how many to draw, or bool [subsets, rows].
        share: of the rows in a subset that is drawn.
        seeds: retrainings of each subset, as a number or as different seeds; two or more give a ceiling.
        processes: worker processes.
        cache: a folder in which finished trainings are kept, so that an interrupted call resumes.
        view: "plain": retrain without masks, also if the recipe builds a wrapped model; "full": retrain the masked
            model and ask it in full view, as it is deployed; None: what the recipe builds.
        progress: show a bar.

    Example:
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
        >>> truth = subset_outcomes(recipe, (x[:4], recipe.targets[:4]), subsets=5)
        >>> truth.outcomes.shape, truth.view
        ((2, 5, 4), 'plain')
    """
    runs = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not runs or len(set(runs)) < len(runs):
        raise TrainingError(f"`seeds` must be an integer >= 1, or different seeds, got {seeds!r}.")
    recipe, view = in_view(recipe, view)
    chosen = _drawn_subsets(len(recipe), subsets, share) if isinstance(subsets, int) else np.asarray(subsets)
    count = len(chosen)
    losses = retrain(
        recipe,
        np.concatenate([chosen] * len(runs)),
        seeds=[_FIRST_SEED + run * count + place for run in runs for place in range(count)],
        measure=partial(query_losses, recipe.over(queries)),
        processes=processes,
        cache=cache,
        identity=identity_of(recipe, queries, view) if cache is not None else None,
        progress=progress,
    )
    return SubsetOutcomes(chosen, losses.reshape(len(runs), count, -1), recipe.row_ids, view)


def in_view(recipe: TrainingRecipe, view: View | None) -> tuple[TrainingRecipe, View]:
    """Return the recipe that trains the plain or the masked model, and which of the two it is."""
    if view not in (None, "plain", "full"):
        raise TrainingError(f"`view` must be 'plain', 'full', or None for what the recipe builds, got {view!r}.")
    with torch.random.fork_rng(devices=[]):
        wrapped = find_root(recipe.build()) is not None
    if view == "full" and not wrapped:
        raise TrainingError(
            "view='full' needs a recipe that builds a wrapped model: build=partial(turnover.wrap, ...)."
        )
    if view == "plain" and wrapped:
        return replace(recipe, build=partial(_build_plain, recipe)), "plain"
    return recipe, "full" if wrapped else "plain"


def _build_plain(recipe: TrainingRecipe) -> nn.Module:
    return unwrap(recipe.build(), in_place=True)


def query_losses(queries: TrainingRecipe, model: nn.Module) -> np.ndarray:
    """Return the loss of every query; a wrapped model in eval mode answers in full view."""
    return RowMeasure(((queries, None),))(model)


def query_predictions(queries: TrainingRecipe, model: nn.Module) -> np.ndarray:
    """Return the predicted class of every query; of outputs with a single number, by its sign."""
    return RowMeasure(((queries, None),), _predicted)(model)


def _predicted(outputs: Tensor, targets: Tensor) -> Tensor:
    single = outputs.dim() == 1 or outputs.shape[-1] == 1
    return (outputs.reshape(len(outputs), -1)[:, 0] > 0).long() if single else outputs.argmax(-1)


def identity_of(recipe: TrainingRecipe, queries: Queries, view: View) -> dict[str, Any]:
    """Return what retrained numbers depend on: rows, model, loss, optimizer, queries; functions by their code."""
    return {
        **recipe.description(),
        "loss": fingerprint_of(recipe.loss),
        "optimizer": fingerprint_of([recipe.optimizer, recipe.schedule]),
        "queries": fingerprint_of(list(queries)),
        "view": view,
    }


def _drawn_subsets(rows: int, count: int, share: float) -> NDArray[np.bool_]:
    size = round(share * rows)
    if count < 1 or not 0 < size < rows:
        raise TrainingError(
            f"`subsets` must be >= 1 and `share` must leave rows in and out, got subsets={count}, share={share}: "
            f"{size} of {rows} rows."
        )
    rng = np.random.default_rng(0)
    result = np.zeros((count, rows), bool)
    for subset in result:
        subset[rng.choice(rows, size, replace=False)] = True
    return result
