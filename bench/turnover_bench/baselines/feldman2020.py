"""Feldman & Zhang (2020): memorization and influence from many models, each trained on a random subset of the rows.

For row i and query q: the mean of a measure on q over the models whose subset has i, minus the mean over those whose
subset has not. One set of models serves all pairs. As everywhere here, a row that is not in a subset leaves its place
in the batch empty, so steps are about `share` times as long as in a training on the subset alone.

Feldman and Zhang, "What Neural Networks Memorize and Why: Discovering the Long Tail via Influence Estimation", 2020.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from turnover.errors import TurnOverWarning
from turnover.progress import is_shown
from turnover.scores import Scores
from turnover.training import RowMeasure, TrainingRecipe, check_processes, retrain
from turnover_bench.errors import BaselineError

from ._questions import Baseline, Question

_Measure = Literal["loss", "probability", "accuracy"]
_Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]
_BLOCK = 50
_ROWS_AT_ONCE = 512
_MOST_MODELS = 10_000


class FeldmanZhang(Baseline):
    """Influence as the difference between models that were and were not trained on a row.

    Standard errors come from the variance within both groups of models (Welch). A row that is in all subsets or in none
    has NaN, after a warning; one that is in all but one or in one only has a score without a standard error (NaN).

    Args:
        recipe: how a model is trained.
        models: number of subsets; the first of them are the same for any number.
        share: of the rows in a subset.
        seed: of subsets and trainings.
        measure: of a query: "loss" (without minus with the row); "probability" of the given label or "accuracy" (0 or
            1, the authors' definition), both with minus without.
        processes: worker processes.
        cache: a folder in which measurements of finished models are kept, in blocks, so that more models extend it.
        identity: what a recipe cannot tell by itself, such as the version of your model and loss; needed with `cache`.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> from turnover.training import TrainingRecipe
        >>> x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 1, 2), x, torch.tensor([0, 0, 1, 1]), epochs=3)
        >>> method = FeldmanZhang(recipe, models=20, share=0.5)
        >>> scores = method.pairwise((torch.tensor([[1.5], [-1.5]]), torch.tensor([1, 0])))
        >>> scores.shape, scores.stderr.shape, method.self_influence().shape
        ((4, 2), (4, 2), (4,))
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        *,
        models: int = 100,
        share: float = 0.7,
        seed: int = 0,
        measure: Literal["loss", "probability", "accuracy"] = "loss",
        processes: int = 1,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(recipe, cache, identity)
        self._size = round(share * len(recipe))
        if models < 2 or seed < 0:
            raise BaselineError(f"`models` must be >= 2 and `seed` >= 0, got models={models}, seed={seed}.")
        if not 0 < self._size < len(recipe):
            raise BaselineError(
                f"share={share} of {len(recipe)} rows is {self._size} rows; a subset needs from 1 to {len(recipe) - 1}."
            )
        if measure not in get_args(_Measure):
            raise BaselineError(f"`measure` must be one of {', '.join(get_args(_Measure))}, got {measure!r}.")
        check_processes(processes)
        self._models, self._share, self._seed = int(models), float(share), int(seed)
        self._measure: _Measure = measure
        self._processes = processes
        self._last: tuple[dict[str, Any], np.ndarray] | None = None

    def plan(self, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, list[int]]:
        """Return the subsets of models, bool [models, rows], and the seeds of their trainings.

        Args:
            start: the first model.
            stop: the one after the last; None: all.
        """
        drawn = [self._draw(model) for model in range(start, self._models if stop is None else stop)]
        return np.stack([rows for rows, _ in drawn]), [seed for _, seed in drawn]

    def self_influence(self, *, queries: Any = None, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to itself, the authors' memorization.

        Args:
            queries: those of an earlier `pairwise`, whose cached trainings are then used; None: the trainings of this
                object's last call, or else new ones.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        trained_for = None if queries is None else self._recipe.over(queries)
        return self._score(self._question("self", ids), progress, trained_for)

    def _score(self, question: Question, progress: bool | None, trained_for: TrainingRecipe | None = None) -> Scores:
        """Return the scores of a question, from models that also measured the queries `trained_for`."""
        rows = question.rows.numpy()
        included, measured, identity = self._measurements(question.queries or trained_for, rows, progress)
        # Larger is better, so that a score is always with minus without.
        outcomes = measured.astype(np.float64) * (-1 if self._measure == "loss" else 1)
        of_rows, of_queries = outcomes[:, : len(self._recipe)], outcomes[:, len(self._recipe) :]
        if question.kind == "self":
            values, stderr = welch(included[:, rows], of_rows[:, rows], _row_by_row)
        elif question.kind == "mean":
            means = of_queries.mean(1, keepdims=True)
            values, stderr = (part[:, 0] for part in welch(included[:, rows], means))
        else:
            # Some rows at a time: temporary matrices are no larger than the result.
            chunks = [rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE)]
            parts = [welch(included[:, chunk], of_queries) for chunk in chunks]
            values, stderr = (np.concatenate(part) for part in zip(*parts, strict=True))
        return question.scores(
            values,
            path=f"Feldman and Zhang 2020, {self._models} models on {self._share:g} of the rows",
            provenance=identity,
            unit=self._measure,
            stderr=stderr,
            replicas=self._models,
        )

    def _measurements(
        self, queries: TrainingRecipe | None, rows: np.ndarray, progress: bool | None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return the subsets, [models, rows + queries] measured, and what that depends on."""
        included, _ = self.plan()
        self._warn_of_uncovered(included[:, rows], rows)
        identity = {
            "method": "Feldman and Zhang 2020",
            "share": self._share,
            "seed": self._seed,
            "measure": self._measure,
            **self._recipe.description(),
            "queries": None if queries is None else queries.data_digest(),
            "identity": self._cache.identity,
        }
        # Measurements of the rows serve any question about the rows alone.
        needed = identity if queries is not None else identity.keys() - {"queries"}
        if self._last is None or any(self._last[0][name] != identity[name] for name in needed):
            self._last = identity, self._measured(queries, identity, progress)
        return included, self._last[1], {**identity, "models": self._models}

    def _measured(self, queries: TrainingRecipe | None, identity: dict[str, Any], progress: bool | None) -> np.ndarray:
        """Return the measure of all rows and then all queries by every model, [models, rows + queries]."""
        recipes = [self._recipe] if queries is None else [self._recipe, queries]
        by_name = {
            "loss": None,
            "probability": partial(_correctness, False),
            "accuracy": partial(_correctness, True),
        }
        measure = RowMeasure(tuple((recipe, None) for recipe in recipes), by_name[self._measure])
        blocks = []
        for start, stop, folder in self._blocks(identity["queries"]):
            subsets, seeds = self.plan(start, stop)
            blocks.append(
                retrain(
                    self._recipe,
                    subsets,
                    seeds=seeds,
                    measure=measure,
                    processes=self._processes,
                    cache=folder,
                    identity=identity,
                    progress=is_shown(progress),
                )
            )
        measured = np.concatenate(blocks)[: self._models]
        failed = np.flatnonzero(~np.isfinite(measured).all(1))
        if len(failed):
            raise BaselineError(
                f"{len(failed)} of {self._models} models (the first is model {failed[0]}) have a {self._measure} that "
                "is not finite. Lower the learning rate of the recipe, clip its loss, or use measure='accuracy'."
            )
        return measured

    def _blocks(self, queries: str | None) -> Iterator[tuple[int, int, Path | None]]:
        """Yield start, end and folder of blocks of models; those in the cache stay as they were cut."""
        folder = self._cache.at(f"{self._measure}-{'rows' if queries is None else queries[:12]}")
        if folder is None:
            yield 0, self._models, None
            return
        start = 0
        while start < self._models:
            ends = [int(block.name.split("-")[2]) for block in folder.glob(f"models-{start:05d}-*")]
            stop = max(ends, default=min((start // _BLOCK + 1) * _BLOCK, self._models))
            yield start, stop, folder / f"models-{start:05d}-{stop:05d}"
            start = stop

    def _draw(self, model: int) -> tuple[np.ndarray, int]:
        """Return subset and seed of one model; they depend on no other model, so that more can be added."""
        rng = np.random.default_rng([self._seed, model])
        rows = np.zeros(len(self._recipe), bool)
        rows[rng.permutation(len(rows))[: self._size]] = True
        return rows, int(rng.integers(2**31))

    def _warn_of_uncovered(self, included: np.ndarray, rows: np.ndarray) -> None:
        """Warn, before hours of training, of rows that all models have or none."""
        have, lack = included.any(0), (~included).any(0)
        uncovered = int((~(have & lack)).sum())
        if not uncovered:
            return
        needed = self._models
        while not (have & lack).all() and needed < _MOST_MODELS:
            drawn = self._draw(needed)[0][rows]
            have, lack, needed = have | drawn, lack | ~drawn, needed + 1
        cure = (
            f"{needed - self._models} more are needed: models={needed}"
            if (have & lack).all()
            else f"even models={_MOST_MODELS} are not enough: bring share={self._share} nearer to 0.5"
        )
        warnings.warn(
            f"{uncovered} of {len(rows)} rows are in all or in none of the {self._models} subsets; their scores are "
            f"NaN. For a score of every row {cure}.",
            TurnOverWarning,
            stacklevel=5,
        )


def welch(included: np.ndarray, outcomes: np.ndarray, sums: _Sums = np.matmul) -> tuple[np.ndarray, np.ndarray]:
    """Return the difference of group means and its standard error; NaN where a group is too small."""
    # The difference does not change, and sums of squares lose no digits.
    outcomes = outcomes - outcomes.mean(0)
    means, variances = [], []
    with np.errstate(invalid="ignore", divide="ignore"):
        for group in (included, ~included):
            weights = group.T.astype(np.float64)
            count = sums(weights, np.ones_like(outcomes))
            mean = sums(weights, outcomes) / count
            variance = np.maximum(sums(weights, outcomes**2) - count * mean**2, 0) / (count - 1)
            means.append(mean)
            variances.append(np.where(count > 1, variance, np.nan) / count)
    return means[0] - means[1], np.sqrt(variances[0] + variances[1])


def _row_by_row(weights: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return (weights * numbers.T).sum(1)


def _correctness(hard: bool, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the probability of the given label, or 1 where it is predicted; means over tokens that have a label."""
    if targets.is_floating_point() or outputs.dim() != targets.dim() + 1:
        raise BaselineError(
            f"outputs are {list(outputs.shape)} and targets {targets.dtype} {list(targets.shape)}; measures "
            "'probability' and 'accuracy' need class scores [rows, classes] and integer targets. Use measure='loss'."
        )
    labels = targets.clamp(min=0).long()
    if hard:
        correct = (outputs.argmax(-1) == labels).float()
    else:
        correct = outputs.softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
    correct, counted = correct.reshape(len(correct), -1), (targets >= 0).reshape(len(correct), -1)
    return ((correct * counted).sum(1) / counted.sum(1).clamp(min=1)).float()
