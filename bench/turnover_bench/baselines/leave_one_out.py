"""Leave-one-out retraining ("Re-train", Eq. 1 of the paper): what a query loses when one row is not trained on.

Every scored row costs one training per seed. The row's place in its batches stays empty; initial parameters,
batches and the other rows' part in them are the same with and without it.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from turnover.errors import TurnOverWarning
from turnover.progress import is_shown
from turnover.scores import Scores
from turnover.training import RowMeasure, TrainingRecipe, check_processes, retrain
from turnover_bench.errors import BaselineError

from ._questions import Baseline, Question


class LeaveOneOut(Baseline):
    """Influence by retraining without each row.

    A score is the query's loss without the row minus its loss with it, the model in eval mode (a wrapped model in full
    view). Rows that share an id are left out one by one. Several seeds are averaged; their variance gives standard
    errors.

    Args:
        recipe: how the model is trained.
        seeds: of the trainings; each gives an estimate of its own.
        processes: worker processes.
        cache: a folder in which finished trainings are kept, one sub-folder per question and seed.
        identity: what a recipe cannot tell by itself, such as the version of your model and loss; needed with `cache`.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> from turnover.training import TrainingRecipe
        >>> x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 1, 2), x, torch.tensor([0, 0, 1, 1]), epochs=3)
        >>> scores = LeaveOneOut(recipe, seeds=(0, 1)).pairwise((torch.tensor([[1.5]]), torch.tensor([1])), ids=[3])
        >>> bool(scores.values[0, 0] > 0), scores.unit, scores.replicas
        (True, 'loss', 2)
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        *,
        seeds: Sequence[int] = (0,),
        processes: int = 1,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(recipe, cache, identity)
        self._seeds = [int(seed) for seed in seeds]
        if not self._seeds or len(set(self._seeds)) < len(self._seeds):
            raise BaselineError(f"`seeds` must be one or more different integers, got {list(seeds)}.")
        check_processes(processes)
        self._processes = processes

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the average over seeds, with its standard error where there are two seeds or more."""
        if question.kind == "self":
            differences, identity = self._retrained(question, progress)
            differences = differences.diagonal(axis1=1, axis2=2)
        else:
            # The mean comes from the same trainings, which the cache then has already.
            differences, identity = self._retrained(replace(question, kind="pairs"), progress)
            differences = differences.mean(2) if question.kind == "mean" else differences
        count = len(self._seeds)
        return question.scores(
            differences.mean(0),
            path=f"leave-one-out retraining, {count} seed{'s' if count > 1 else ''}",
            provenance={**identity, "seeds": self._seeds},
            stderr=differences.std(0, ddof=1) / np.sqrt(count) if count > 1 else None,
            replicas=count,
        )

    def _retrained(self, question: Question, progress: bool | None) -> tuple[np.ndarray, dict[str, Any]]:
        """Return loss without a row minus loss with it, [seeds, rows, queries or rows], and what it depends on."""
        rows, queries = question.rows, question.queries
        subsets = np.ones((1 + len(rows), len(self._recipe)), bool)
        subsets[1 + np.arange(len(rows)), rows.numpy()] = False
        identity = {
            "method": "leave one out",
            **self._recipe.description(),
            "queries": None if queries is None else queries.data_digest(),
            "identity": self._cache.identity,
        }
        measure = RowMeasure(((self._recipe, rows) if queries is None else (queries, None),))
        differences = []
        for seed in self._seeds:
            losses = retrain(
                self._recipe,
                subsets,
                seeds=[seed] * len(subsets),
                measure=measure,
                processes=self._processes,
                cache=self._cache.at(question.name, f"seed-{seed}"),
                identity=identity,
                progress=is_shown(progress),
            )
            losses = np.where(np.isfinite(losses), losses, np.nan).astype(np.float64)
            differences.append(losses[1:] - losses[:1])
        _warn_of_failed(np.stack(differences))
        return np.stack(differences), identity


def _warn_of_failed(differences: np.ndarray) -> None:
    failed = int(np.isnan(differences).any(2).sum())
    if failed:
        warnings.warn(
            f"{failed} of {differences[:, :, 0].size} retrainings have losses that are not finite; their scores are "
            "NaN. Lower the learning rate of the recipe, or clip its loss.",
            TurnOverWarning,
            stacklevel=5,
        )
