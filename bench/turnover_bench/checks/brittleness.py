"""Do predictions change when the rows that are said to make them are removed?"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

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
    matrix_of,
    mean_interval,
    query_predictions,
)
from turnover.training import TrainingRecipe, retrain


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

    def intervals(self, bootstrap: Bootstrap | None = None) -> list[Interval]:
        """Return the bootstrap interval over queries of every share."""
        return [
            mean_interval(self.changed[:, place].mean(0), bootstrap or Bootstrap()) for place in range(len(self.ks))
        ]


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
