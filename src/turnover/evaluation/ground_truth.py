"""Ground truth: losses and predictions of models retrained on subsets, of the plain or of the masked model."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.errors import TrainingError
from turnover.influence import fingerprint_of
from turnover.layers import find_root
from turnover.training import Inputs, RowMeasure, TrainingRecipe, retrain
from turnover.wrapping import unwrap

View = Literal["plain", "full"]
Queries = tuple[Inputs, Tensor]

# Ground truth must not share initial parameters with a method's own model, which usually has a small seed.
_FIRST_SEED = 1_000_000


@dataclass(frozen=True)
class SubsetOutcomes:
    """Losses of models that were trained on subsets of the rows.

    Attributes:
        subsets: bool [subsets, rows].
        outcomes: query losses [seeds, subsets, queries].
        ids: instance ids of the rows.
        view: "plain": the model without masks was retrained; "full": the masked model, asked in full view.
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
        >>> import torch
        >>> from functools import partial
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


def query_losses(queries: TrainingRecipe, model: nn.Module) -> np.ndarray:
    """Return the loss of every query; a wrapped model in eval mode answers in full view."""
    return RowMeasure(((queries, None),), "loss")(model)


def query_predictions(queries: TrainingRecipe, model: nn.Module) -> np.ndarray:
    """Return the predicted class of every query; of outputs with a single number, by its sign."""
    return RowMeasure(((queries, None),), "prediction")(model)


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


def _build_plain(recipe: TrainingRecipe) -> nn.Module:
    return unwrap(recipe.build(), in_place=True)
