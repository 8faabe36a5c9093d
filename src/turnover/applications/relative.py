"""Relative influence: scores divided by the magnitude of each training row (Barshan, Brunet and Dziugaite 2020)."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ApplicationError
from turnover.influence import Influence
from turnover.scores import Scores, Top

from ._results import significance
from .examples import TrainInstances

Marks = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Which entries of the helpful and of the harmful lists [queries, k] are significant."""


def row_magnitudes(influence: Influence, self_influence: Scores | None = None) -> NDArray[np.float32]:
    """Return the magnitude of every training instance, in the order of `influence.train_ids`.

    It is the root of the row's influence on itself. To first order a row's influence on a query is the product of two
    gradients, and its influence on itself the square of its own: divided by the root, what is left is how well the two
    go together (the relative influence of Barshan, Brunet and Dziugaite 2020). Outliers and wrong labels, whose
    gradient is large whatever the query, lose their advantage. Self-influence is the one score whose signal is far
    above its noise, and it takes one pass over the data however many queries are explained. Below the noise of null
    ids it cannot be told from 0; there, the noise takes its place.

    Args:
        influence: with its training data.
        self_influence: that of the training data, where it is known already; None: it is computed.

    Example:
        >>> import turnover
        >>> from turnover.training import TrainingRecipe
        >>> x, y = torch.randn(20, 4), torch.randint(2, (20,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> trained = TrainingRecipe(lambda: turnover.wrap(net, at=["1"]), x, y, epochs=40).fit()
        >>> row_magnitudes(turnover.Influence(trained, train=data, estimator="tod")).shape
        (20,)
    """
    own = influence.self_influence(progress=False) if self_influence is None else self_influence
    known = TrainInstances(influence.mask_ids(), None)
    positions = known.positions(own.mask_ids)
    if (positions < 0).any() or len(np.unique(positions)) < len(known):
        raise ApplicationError("self_influence is not that of the training data. Give influence.self_influence().")
    # Rows of one group share an id; the group's magnitude is that of its mean row.
    values = np.nan_to_num(own.values.astype(np.float64), nan=0.0)
    mean = np.bincount(positions, values) / np.bincount(positions)
    spread = own.null_spread
    floor = float(np.max(spread)) if spread is not None else float(np.median(np.abs(mean)))
    return np.sqrt(np.maximum(mean, max(floor, 1e-12))).astype(np.float32)


def checked_magnitudes(influence: Influence, given: ArrayLike | None, count: int) -> NDArray[np.float32]:
    """Return magnitudes that were given, or computed, of so many instances."""
    if given is None:
        return row_magnitudes(influence)
    scale = np.asarray(given, np.float32)
    if scale.shape != (count,) or not bool((scale > 0).all()):
        raise ApplicationError(
            f"magnitudes must be {count} numbers above 0, one per instance, got shape {list(scale.shape)}. Give "
            "those of row_magnitudes(influence)."
        )
    return scale


def relative_top(scores: Scores, scale: NDArray[np.float32], k: int, level: float) -> tuple[Top, Marks]:
    """Return the lists by relative scores, with marks and p-values of the scores as they were."""
    marked, p = significance(scores, level)
    own = np.broadcast_to(scale[:, None], scores.shape)
    top = with_values(scores, scores.values / own, own).top(k)
    rows = TrainInstances(scores.mask_ids, None)
    queries = np.arange(len(top.counts))[:, None]
    places = [rows.positions(ids) for ids in (top.helpful_mask_ids, top.harmful_mask_ids)]
    helpful, harmful = ((place >= 0) & marked[place, queries] for place in places)
    top = replace(top, path=f"{scores.path}; relative to each row's magnitude")
    if p is not None:
        helpful_p, harmful_p = (np.where(place < 0, np.nan, p[place, queries]) for place in places)
        top = replace(top, helpful_p=helpful_p, harmful_p=harmful_p)
    return top, (helpful, harmful)


def with_values(scores: Scores, values: NDArray[np.float32], scale: NDArray[np.float32] | None = None) -> Scores:
    """Return scores with other values; with a scale, standard errors are divided by it and null ids let go."""
    stderr = scores.stderr
    return Scores(
        values,
        ids=scores.ids,
        mask_ids=scores.mask_ids,
        queries=scores.queries,
        stderr=None if stderr is None else stderr if scale is None else stderr / scale,
        null=scores.null if scale is None else None,
        unit=scores.unit,
        path=scores.path,
        replicas=scores.replicas,
        provenance=scores.provenance,
        standardized=scores.standardized,
    )
