"""Feldman & Zhang (2020): memorization and influence from many models, each trained on a random subset of the rows.

For row i and query q: the mean of a measure on q over the models whose subset has i, minus the mean over those whose
subset has not. One set of models serves all pairs. As everywhere here, a row that is not in a subset leaves its place
in the batch empty, so steps are about `share` times as long as in a training on the subset alone.

Feldman and Zhang, "What Neural Networks Memorize and Why: Discovering the Long Tail via Influence Estimation", 2020.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from turnover.errors import BaselineError, TurnOverWarning
from turnover.scores import Scores
from turnover.training import TrainingRecipe, check_processes, data_digest, described, ids_of, retrain

from .cached_parts import Cache
from .progress_bar import shown
from .row_measures import MeasureName, RowMeasure, all_rows
from .rows_and_queries import recipe_of, rows_of
from .welch import row_by_row, welch

_BLOCK = 50
_ROWS_AT_ONCE = 512
_MOST_MODELS = 10_000


class FeldmanZhang:
    """Influence as the difference between models that were and were not trained on a row.

    Standard errors come from the spread within both groups of models (Welch). A row that is in all subsets or in none
    has NaN, after a warning; one that is in all but one or in one only has a score without a standard error (NaN).

    Args:
        recipe: how a model is trained.
        models: how many subsets; the first of them are the same for any number.
        share: of the rows in a subset.
        seed: of subsets and trainings.
        measure: of a query: "loss" (without minus with the row); "probability" of the right label or "accuracy" (0 or
            1, the authors' definition), both with minus without.
        processes: worker processes.
        cache: a folder; what finished models say is kept there, in blocks, so that more models extend it.
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
        measure: MeasureName = "loss",
        processes: int = 1,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        self._size = round(share * len(recipe))
        if models < 2 or seed < 0:
            raise BaselineError(f"models={models}, seed={seed}: give at least 2 models and a seed from 0.")
        if not 0 < self._size < len(recipe):
            raise BaselineError(
                f"share={share} of {len(recipe)} rows is {self._size} rows; a subset needs from 1 to {len(recipe) - 1}."
            )
        if measure not in get_args(MeasureName):
            raise BaselineError(f"measure={measure!r} is unknown. Give one of {', '.join(get_args(MeasureName))}.")
        self._recipe, self._models, self._share, self._seed = recipe, int(models), float(share), int(seed)
        self._measure: MeasureName = measure
        check_processes(processes)
        self._processes = processes
        self._cache = Cache.of(cache, identity)
        self._last: tuple[dict[str, Any], np.ndarray] | None = None

    def plan(self, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, list[int]]:
        """Return the subsets of models, bool [models, rows], and the seeds of their trainings.

        Args:
            start: the first model.
            stop: the one after the last; None: all.
        """
        drawn = [self._draw(model) for model in range(start, self._models if stop is None else stop)]
        return np.stack([rows for rows, _ in drawn]), [seed for _, seed in drawn]

    def pairwise(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows, queries]: what each training row does to each query.

        Args:
            queries: a tuple (inputs, targets) in the form of the recipe's.
            ids: which rows; None: all.
            progress: show a bar; None: on a terminal.
        """
        rows = rows_of(self._recipe, ids).numpy()
        inside, good, told = self._ask(recipe_of(queries, self._recipe), rows, progress)
        parts = [welch(inside[:, part], good) for part in _split(rows)]
        return self._scores(parts, rows, "", told)

    def mean(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: the mean influence of each training row on a set of queries.

        Args:
            queries: as for `pairwise`, whose trainings are used.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        rows = rows_of(self._recipe, ids).numpy()
        inside, good, told = self._ask(recipe_of(queries, self._recipe), rows, progress)
        values, stderr = welch(inside[:, rows], good.mean(1, keepdims=True))
        return self._scores([(values[:, 0], stderr[:, 0])], rows, f"; mean of {good.shape[1]} queries", told)

    def self_influence(self, *, queries: Any = None, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to itself, the authors' memorization.

        Args:
            queries: those of an earlier `pairwise`, whose cached trainings are then used; None: the trainings of this
                object's last call, or else new ones.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        rows = rows_of(self._recipe, ids).numpy()
        asked = None if queries is None else recipe_of(queries, self._recipe)
        inside, _, told = self._ask(asked, rows, progress)
        assert self._last is not None  # just asked
        good = self._signed(self._last[1][:, rows])
        return self._scores(
            [welch(inside[:, rows], good, row_by_row)], rows, "; each row on itself", {**told, "queries": None}
        )

    def _ask(
        self, asked: TrainingRecipe | None, rows: np.ndarray, progress: bool | None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return who was trained on which row, how good each model is on each query, and what that depends on."""
        inside, _ = self.plan()
        self._warn_of_uncovered(inside[:, rows], rows)
        told = {
            "method": "Feldman and Zhang 2020",
            "share": self._share,
            "seed": self._seed,
            "measure": self._measure,
            **described(self._recipe),
            "queries": None if asked is None else data_digest(asked),
            "identity": self._cache.identity,
        }
        # What was measured on the rows does for any question about the rows alone.
        enough = told if asked is not None else told.keys() - {"queries"}
        if self._last is None or any(self._last[0][name] != told[name] for name in enough):
            parts = tuple(all_rows(recipe) for recipe in (self._recipe, asked) if recipe is not None)
            self._last = told, self._measured(RowMeasure(parts, self._measure), told, progress)
        return inside, self._signed(self._last[1][:, len(self._recipe) :]), {**told, "models": self._models}

    def _measured(self, measure: RowMeasure, told: dict[str, Any], progress: bool | None) -> np.ndarray:
        """Return what every model says about all rows and then all queries, [models, rows + queries]."""
        found = []
        key = f"{self._measure}-{'rows' if told['queries'] is None else told['queries'][:12]}"
        for start, stop, folder in self._blocks(key):
            subsets, seeds = self.plan(start, stop)
            part = retrain(
                self._recipe,
                subsets,
                seeds=seeds,
                measure=measure,
                processes=self._processes,
                cache=folder,
                identity=told,
                progress=shown(progress),
            )
            found.append(part)
        result = np.concatenate(found)[: self._models]
        failed = np.flatnonzero(~np.isfinite(result).all(1))
        if len(failed):
            raise BaselineError(
                f"{len(failed)} of {self._models} models (the first is model {failed[0]}) have a {self._measure} that "
                "is not finite. Lower the learning rate of the recipe, clip its loss, or use measure='accuracy'."
            )
        return result

    def _blocks(self, key: str) -> Iterator[tuple[int, int, Path | None]]:
        """Yield start, end and folder of blocks of models; those that lie in the cache stay as they were cut."""
        folder = self._cache.at(key)
        if folder is None:
            yield 0, self._models, None
            return
        start = 0
        while start < self._models:
            there = [int(block.name.split("-")[2]) for block in folder.glob(f"models-{start:05d}-*")]
            stop = max(there, default=min((start // _BLOCK + 1) * _BLOCK, self._models))
            yield start, stop, folder / f"models-{start:05d}-{stop:05d}"
            start = stop

    def _draw(self, model: int) -> tuple[np.ndarray, int]:
        """Return subset and seed of one model; they depend on no other model, so that more can be added."""
        random = np.random.default_rng([self._seed, model])
        rows = np.zeros(len(self._recipe), bool)
        rows[random.permutation(len(rows))[: self._size]] = True
        return rows, int(random.integers(2**31))

    def _warn_of_uncovered(self, inside: np.ndarray, rows: np.ndarray) -> None:
        """Warn, before hours of training, of rows that all models have or none."""
        have, lack = inside.any(0), (~inside).any(0)
        failed = int((~(have & lack)).sum())
        if not failed:
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
            f"{failed} of {len(rows)} rows are in all or in none of the {self._models} subsets; their scores are NaN. "
            f"For a score of every row {cure}.",
            TurnOverWarning,
            stacklevel=4,
        )

    def _signed(self, measured: np.ndarray) -> np.ndarray:
        """Return it in float64, larger meaning better, so that a score is always with minus without."""
        return measured.astype(np.float64) * (-1 if self._measure == "loss" else 1)

    def _scores(
        self, parts: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray, path: str, told: dict[str, Any]
    ) -> Scores:
        values, stderr = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
        return Scores(
            values,
            ids=ids_of(self._recipe)[rows],
            unit=self._measure,
            stderr=stderr,
            path=f"Feldman and Zhang 2020, {self._models} models on {self._share:g} of the rows{path}",
            replicas=self._models,
            provenance=told,
        )


def _split(rows: np.ndarray) -> list[np.ndarray]:
    """Return the rows some at a time: temporary matrices are no larger than the result."""
    return [rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE)]
