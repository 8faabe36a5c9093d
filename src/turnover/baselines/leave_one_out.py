"""Leave-one-out retraining ("Re-train", Eq. 1 of the paper): what a query loses when one row is not trained on.

Every row that is asked about costs a training a seed. The row's place in its batches stays empty; initial parameters,
batches and the other rows' part in them are the same with and without it.
"""

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError, TurnOverWarning
from turnover.scores import Scores
from turnover.storage.json_values import plain
from turnover.training import TrainingRecipe, retrain

from .rows_and_queries import data_digest, digest_of, ids_of, recipe_of, rows_of

_PART = 1024


class LeaveOneOut:
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
        self._recipe = recipe
        self._seeds = [int(seed) for seed in seeds]
        if not self._seeds or len(set(self._seeds)) < len(self._seeds):
            raise BaselineError(f"seeds={list(seeds)}: give one or more, each once.")
        self._processes = processes
        self._cache, self._identity = checked_cache(cache, identity)

    def pairwise(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows, queries]: what each training row does to each query.

        Args:
            queries: a tuple (inputs, targets) in the form of the recipe's.
            ids: which rows; None: all.
            progress: show a bar; None: on a terminal.
        """
        found, rows, told = self._retrained(recipe_of(queries, self._recipe), ids, progress)
        return self._scores(found, rows, "", told)

    def mean(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: the mean influence of each training row on a set of queries.

        Args:
            queries: as for `pairwise`, whose cached trainings are used.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        found, rows, told = self._retrained(recipe_of(queries, self._recipe), ids, progress)
        return self._scores(found.mean(2), rows, f"; mean of {found.shape[2]} queries", told)

    def self_influence(self, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own loss.

        Args:
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        found, rows, told = self._retrained(None, ids, progress)
        return self._scores(found.diagonal(axis1=1, axis2=2), rows, "; each row on itself", told)

    def _retrained(
        self, asked: TrainingRecipe | None, ids: Any, progress: bool | None
    ) -> tuple[np.ndarray, Tensor, dict[str, Any]]:
        """Return loss without a row minus loss with it, [seeds, rows, asked], the rows, and what it depends on.

        Asked are queries, or for None the rows themselves.
        """
        rows = rows_of(self._recipe, ids)
        subsets = np.ones((1 + len(rows), len(self._recipe)), bool)
        subsets[1 + np.arange(len(rows)), rows.numpy()] = False
        told = {
            "method": "leave one out",
            **described(self._recipe),
            "queries": None if asked is None else data_digest(asked),
            "identity": self._identity,
        }
        measure = _Losses(self._recipe, rows) if asked is None else _Losses(asked, torch.arange(len(asked)))
        chosen = digest_of(rows) if asked is None else digest_of(rows, asked.inputs, asked.targets)
        name = f"{'self' if asked is None else 'pairs'}-{chosen[:12]}"
        found = []
        for seed in self._seeds:
            losses = retrain(
                self._recipe,
                subsets,
                seeds=[seed] * len(subsets),
                measure=measure,
                processes=self._processes,
                cache=None if self._cache is None else self._cache / name / f"seed-{seed}",
                identity=told,
                progress=sys.stderr.isatty() if progress is None else progress,
            )
            losses = np.where(np.isfinite(losses), losses, np.nan).astype(np.float64)
            found.append(losses[1:] - losses[:1])
        _warn_of_failed(np.stack(found))
        return np.stack(found), rows, told

    def _scores(self, found: np.ndarray, rows: Tensor, path: str, told: dict[str, Any]) -> Scores:
        """Return the average over seeds, [seeds, ...], with its standard error where there are two seeds or more."""
        count = len(self._seeds)
        return Scores(
            found.mean(0),
            ids=ids_of(self._recipe)[rows.numpy()],
            stderr=found.std(0, ddof=1) / np.sqrt(count) if count > 1 else None,
            path=f"leave-one-out retraining, {count} seed{'s' if count > 1 else ''}{path}",
            replicas=count,
            provenance={**told, "seeds": self._seeds},
        )


@dataclass(frozen=True, eq=False)
class _Losses:
    """The losses of rows of a recipe, asked of a trained model; can be sent to a worker."""

    recipe: TrainingRecipe
    rows: Tensor

    def __call__(self, model: nn.Module) -> np.ndarray:
        """Return the losses, [rows]."""
        return in_parts(lambda rows: self.recipe.losses(model, rows), self.rows)


def _warn_of_failed(found: np.ndarray) -> None:
    failed = int(np.isnan(found).any(2).sum())
    if failed:
        warnings.warn(
            f"{failed} of {found[:, :, 0].size} retrainings are compared by losses that are not finite; their scores "
            "are NaN. Lower the learning rate of the recipe, or clip its loss.",
            TurnOverWarning,
            stacklevel=4,
        )


def in_parts(values: Callable[[Tensor], Tensor], rows: Tensor) -> np.ndarray:
    """Return the values of rows, computed some at a time so that many rows need no more memory."""
    return np.concatenate([values(part).float().cpu().numpy() for part in rows.split(_PART)])


def checked_cache(
    cache: str | os.PathLike[str] | None, identity: Mapping[str, Any] | None
) -> tuple[Path | None, dict[str, Any]]:
    """Return the folder and what its numbers depend on; raise where the second is missing."""
    if cache is not None and identity is None:
        raise BaselineError(
            f"cache={os.fspath(cache)!r} needs identity=: a dict that says what the numbers depend on and the recipe "
            'cannot tell, such as identity={"model": "mlp, version 3"}.'
        )
    # Now, and not after all trainings: the scores carry it as JSON.
    return None if cache is None else Path(cache), plain(identity or {}, where="identity")


def described(recipe: TrainingRecipe) -> dict[str, Any]:
    """Return what can be told of a recipe in plain data, the same in every process; functions by name only."""
    with torch.random.fork_rng(devices=[]):
        model = recipe.build()
        optimiser = recipe.optimiser(model.parameters())
    return {
        "model": hashlib.sha256(_text(model).encode()).hexdigest(),
        "optimiser": _text(optimiser),
        "schedule": _text(recipe.schedule),
        "loss": _text(recipe.loss),
        "epochs": recipe.epochs,
        "batch_size": recipe.batch_size,
        "data": data_digest(recipe),
    }


def _text(value: Any) -> str:
    """Return the repr without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
