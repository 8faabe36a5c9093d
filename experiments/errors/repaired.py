"""Does removing the rows behind an error repair it more often than removing random rows of the same label?"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnover.evaluation import identity_of, over_queries, query_predictions
from turnover.runs import Run, run_recipe
from turnover.training import retrain

from .config import Config
from .explained import Errors

# By which scores rows are removed: the paper's, averaged over the run's replicas, and denoised, as the run explains.
ESTIMATES = {"paper": "scores as they are", "denoised": "denoised scores"}


def pushed_most(run: Run, errors: Errors, *, denoised: bool) -> np.ndarray:
    """Return the training rows of the predicted label by how much they pushed each error there [errors, rows].

    Rows of other labels come last.
    """
    engine = run.influence if denoised else run.raw_influence
    queries = run.x[errors.rows], run.y[errors.rows]
    scores = np.array(engine.pairwise(queries, at_label="predicted", progress=False).values)
    labels = run.rows.labels[run.places("train")]
    scores[labels[:, None] != errors.predicted[None]] = -np.inf
    return np.argsort(-scores, axis=0, kind="stable").T


def repaired(run: Run, config: Config, errors: Errors, orders: dict[str, np.ndarray], cache: Path) -> dict[str, Any]:
    """Return how many errors are gone after retraining the network without masks, by what was removed.

    Errors that a retraining on all rows does not make count for nothing: there is nothing to repair.

    Args:
        run: that made the errors.
        config: how much is removed and how often.
        errors: of which the first are repaired.
        orders: rows by their push, by estimate.
        cache: folder for finished trainings.
    """
    recipe = run_recipe(run)
    count = min(config.errors, len(errors.rows))
    removed = max(1, round(config.share * len(recipe)))
    labels, rng = run.rows.labels[run.places("train")], np.random.default_rng(2)
    chance = np.array(
        [rng.permutation(np.flatnonzero(labels == label))[:removed] for label in errors.predicted[:count]]
    )
    ways = {**{name: order[:count, :removed] for name, order in orders.items()}, "random": chance}
    chosen = np.ones((1 + len(ways) * count, len(recipe)), bool)
    for number, rows in enumerate(rows for way in ways.values() for rows in way):
        chosen[1 + number, rows] = False
    queries = run.x[errors.rows[:count]], run.y[errors.rows[:count]]
    predictions = retrain(
        recipe,
        np.concatenate([chosen] * len(config.seeds)),
        seeds=[1000 + seed for seed in config.seeds for _ in chosen],
        measure=partial(query_predictions, over_queries(recipe, queries)),
        cache=cache,
        identity=identity_of(recipe, queries, "plain"),
        progress=True,
    ).reshape(len(config.seeds), len(chosen), -1)
    given = run.rows.labels[errors.rows[:count]]
    right = predictions.reshape(len(config.seeds), len(chosen), count) == given
    still = ~right[:, 0]  # [seeds, errors]: made again by a training on all rows
    by_way = right[:, 1:].reshape(len(config.seeds), len(ways), count, count)
    own = np.diagonal(by_way, axis1=2, axis2=3)  # of the model retrained for an error, that error counts
    return {
        "removed": removed,
        "tried": int(still.sum()),
        "errors": count,
        "repaired": {name: int((own[:, place] & still).sum()) for place, name in enumerate(ways)},
        # Error by error, for an interval: means over the seeds in which it was made again.
        "by_error": {
            name: [
                float(own[still[:, error], place, error].mean()) if still[:, error].any() else None
                for error in range(count)
            ]
            for place, name in enumerate(ways)
        },
    }
