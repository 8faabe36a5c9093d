"""Leave-one-out retraining ("Re-train", Eq. 1 of the paper): what a query loses when one row is not trained on.

Every row that is asked about costs a training a seed. The row's place in its batches stays empty; initial parameters,
batches and the other rows' part in them are the same with and without it.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from turnover.errors import BaselineError, TurnOverWarning
from turnover.scores import Scores
from turnover.training import TrainingRecipe, check_processes, data_digest, described, retrain

from .cached_parts import Cache
from .progress_bar import shown
from .questions import AnswersQuestions
from .row_measures import RowMeasure, all_rows
from .rows_and_queries import Question


class LeaveOneOut(AnswersQuestions):
    """Influence by retraining without each row.

    A score is the query's loss without the row minus its loss with it, the model in eval mode (a wrapped model in full
    view). Rows that share an id are left out one by one. Several seeds are averaged; their spread gives standard
    errors.

    Args:
        recipe: how the model is trained.
        seeds: of the trainings; each gives an estimate of its own.
        processes: worker processes.
        cache: a folder; finished trainings are kept there, a sub-folder a question and seed, and not run again.
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
        super().__init__(recipe)
        self._seeds = [int(seed) for seed in seeds]
        if not self._seeds or len(set(self._seeds)) < len(self._seeds):
            raise BaselineError(f"seeds={list(seeds)}: give one or more, each once.")
        check_processes(processes)
        self._processes = processes
        self._cache = Cache.of(cache, identity)

    def _answer(self, question: Question, progress: bool | None) -> Scores:
        """Return the average over seeds, with its standard error where there are two seeds or more."""
        if question.kind == "self":
            found, told = self._retrained(question, progress)
            found = found.diagonal(axis1=1, axis2=2)
        else:
            # The mean comes from the same trainings, which the cache then has already.
            found, told = self._retrained(replace(question, kind="pairs"), progress)
            found = found.mean(2) if question.kind == "mean" else found
        count = len(self._seeds)
        return Scores(
            found.mean(0),
            ids=question.ids,
            stderr=found.std(0, ddof=1) / np.sqrt(count) if count > 1 else None,
            path=f"leave-one-out retraining, {count} seed{'s' if count > 1 else ''}{question.path}",
            replicas=count,
            provenance={**told, "seeds": self._seeds},
        )

    def _retrained(self, question: Question, progress: bool | None) -> tuple[np.ndarray, dict[str, Any]]:
        """Return loss without a row minus loss with it, [seeds, rows, queries or rows], and what it depends on."""
        rows, asked = question.rows, question.asked
        subsets = np.ones((1 + len(rows), len(self._recipe)), bool)
        subsets[1 + np.arange(len(rows)), rows.numpy()] = False
        told = {
            "method": "leave one out",
            **described(self._recipe),
            "queries": None if asked is None else data_digest(asked),
            "identity": self._cache.identity,
        }
        measure = RowMeasure(((self._recipe, rows) if asked is None else all_rows(asked),))
        found = []
        for seed in self._seeds:
            losses = retrain(
                self._recipe,
                subsets,
                seeds=[seed] * len(subsets),
                measure=measure,
                processes=self._processes,
                cache=self._cache.at(question.name, f"seed-{seed}"),
                identity=told,
                progress=shown(progress),
            )
            losses = np.where(np.isfinite(losses), losses, np.nan).astype(np.float64)
            found.append(losses[1:] - losses[:1])
        _warn_of_failed(np.stack(found))
        return np.stack(found), told


def _warn_of_failed(found: np.ndarray) -> None:
    failed = int(np.isnan(found).any(2).sum())
    if failed:
        warnings.warn(
            f"{failed} of {found[:, :, 0].size} retrainings are compared by losses that are not finite; their scores "
            "are NaN. Lower the learning rate of the recipe, or clip its loss.",
            TurnOverWarning,
            stacklevel=5,
        )
