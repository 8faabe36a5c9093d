"""Retraining check: does dropping rows help? Training on all rows, without random and without dropped ones (§4.4)."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from turnover.errors import ApplicationError
from turnover.evaluation import identity_of, in_view, query_losses, query_predictions
from turnover.scores import load_pandas
from turnover.training import TrainingRecipe, retrain

if TYPE_CHECKING:
    import pandas

Fit = Callable[[NDArray[np.bool_], int], ArrayLike]
ARMS = ("none", "random", "cleansed")
"""What is removed: nothing, as many rows at random, or the rows in question."""

# The model that chose the rows usually has a small seed; the check must not start from its parameters.
_FIRST_SEED = 1_000_000
_POWER = 0.8416  # standard deviations that a mean stays above with a chance of 80 %


@dataclass(frozen=True)
class Difference:
    """How much better the cleansed data are than another arm, seed by seed.

    Attributes:
        against: "none" or "random".
        measure: "accuracy" or "loss".
        gain: mean over seeds; positive: cleansing is better (more accurate, or less loss).
        stderr: its standard error.
        beyond: whether the gain is more than one standard error.
        seeds_needed: seeds with which a gain of this size would lie beyond one standard error in 80 % of cases; None:
            no number of seeds, as there is no gain.
    """

    against: str
    measure: str
    gain: float
    stderr: float
    beyond: bool
    seeds_needed: int | None


@dataclass(frozen=True)
class RetrainingCheck:
    """Test results of models retrained without some rows.

    Attributes:
        accuracy: [arms, seeds] on the test set, in the order of `ARMS`.
        loss: mean loss [arms, seeds] on it: the recipe's, or cross-entropy of what a function returned.
        seeds: of the trainings; an arm is compared with another from the same seed.
    """

    accuracy: NDArray[np.float64]
    loss: NDArray[np.float64]
    seeds: tuple[int, ...]
    removed: int
    rows: int
    test_rows: int

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Return how much better cleansed data are than none and random, in accuracy and in loss."""
        return tuple(
            _difference(against, measure, sign * (values[2] - values[ARMS.index(against)]))
            for measure, values, sign in (("accuracy", self.accuracy, 1), ("loss", self.loss, -1))
            for against in ARMS[:2]
        )

    def helps(self, measure: str) -> bool:
        """Tell whether cleansing beats both others beyond one standard error, in "accuracy" or "loss"."""
        if measure not in ("accuracy", "loss"):
            raise ApplicationError(f"measure must be 'accuracy' or 'loss', got {measure!r}.")
        return all(one.beyond for one in self.differences if one.measure == measure)

    def __str__(self) -> str:
        """Return the verdict in words."""
        return " ".join(self._verdict(measure) for measure in ("accuracy", "loss"))

    def _verdict(self, measure: str) -> str:
        each = [one for one in self.differences if one.measure == measure]
        gains = " and ".join(f"{one.gain:+.2g} ± {one.stderr:.1g} over {one.against}" for one in each)
        what = f"dropping {self.removed:,} of {self.rows:,} rows"
        if self.helps(measure):
            return f"In {measure}, {what} helps beyond one standard error ({gains}, {len(self.seeds)} seeds)."
        verdict = f"In {measure}, {what} does not help beyond one standard error ({gains}, {len(self.seeds)} seeds)"
        needed = [one.seeds_needed for one in each if not one.beyond]
        if any(count is None for count in needed):
            return f"{verdict}; more seeds would not help, as there is no gain to confirm."
        return f"{verdict}; a gain of this size would take about {max(count or 0 for count in needed)} seeds to show."

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        return {
            "arms": {
                arm: {
                    measure: {
                        "mean": float(values[place].mean()),
                        "sd": float(values[place].std(ddof=1)),
                        "values": values[place].tolist(),
                    }
                    for measure, values in (("accuracy", self.accuracy), ("loss", self.loss))
                }
                for place, arm in enumerate(ARMS)
            },
            "differences": [vars(one) for one in self.differences],
            "helps": {"accuracy": self.helps("accuracy"), "loss": self.helps("loss")},
            "seeds": list(self.seeds),
            "removed": self.removed,
            "rows": self.rows,
            "test_rows": self.test_rows,
        }

    def table(self) -> "pandas.DataFrame":
        """Return one row per arm: mean and standard deviation of accuracy and loss over the seeds."""
        columns: dict[str, Any] = {"removed": ARMS}
        for name, values in (("accuracy", self.accuracy), ("loss", self.loss)):
            columns |= {name: values.mean(1), f"{name}_sd": values.std(1, ddof=1)}
        return load_pandas().DataFrame(columns)


def check_by_retraining(
    train: TrainingRecipe | Fit,
    dropped: ArrayLike,
    test: Any,
    *,
    rows: int | None = None,
    seeds: int | Sequence[int] = 5,
    processes: int = 1,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> RetrainingCheck:
    """Return whether models trained without the dropped rows are better on a test set that had no part in choosing.

    Three trainings for each seed, from the same parameters with the same batches: on all rows, without as many rows
    drawn at random (others for each seed), and without the dropped ones. As in the paper, models are trained without
    turn-over dropout, also where the recipe builds a wrapped one. Seeds tell how much trainings differ, not how much
    another test set would.

    Args:
        train: how to train; or a function (kept rows as bool [rows], seed) -> class probabilities [test rows, classes].
        dropped: places of the rows, or bool [rows], as `~cleansing.kept`.
        test: (inputs, labels) for a recipe; labels alone for a function.
        rows: how many training rows there are, for a function with places.
        seeds: how many, from 2, or which.
        processes: worker processes of a recipe.
        cache: a folder; finished trainings of a recipe are kept there and not run again.
        progress: show a bar.

    Raises:
        ApplicationError: rows, seeds or labels that do not fit.

    Example:
        >>> from functools import partial
        >>> from turnover.training import TrainingRecipe
        >>> x = torch.randn(80, 3)
        >>> y = (x[:, 0] > 0).long()
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x[:40], y[:40], epochs=3)
        >>> check = check_by_retraining(recipe, [0, 1], (x[40:], y[40:]), seeds=2)
        >>> check.accuracy.shape, check.removed
        ((3, 2), 2)
    """
    run_seeds = _seeds(seeds)
    known = len(train) if isinstance(train, TrainingRecipe) else rows
    gone = _gone(dropped, known)
    subsets = np.stack([_arms(gone, seed) for seed in run_seeds], 1)  # [arms, seeds, rows]
    jobs = [(subsets[arm, place], seed) for arm in range(len(ARMS)) for place, seed in enumerate(run_seeds)]
    if isinstance(train, TrainingRecipe):
        measured, count = _retrained(train, jobs, test, processes, cache, progress)
    else:
        labels = np.asarray(test.cpu() if isinstance(test, Tensor) else test)
        measured, count = np.stack([_judged(train(kept, seed), labels) for kept, seed in jobs]), len(labels)
    accuracy, loss = measured.astype(np.float64).reshape(len(ARMS), len(run_seeds), 2).transpose(2, 0, 1)
    return RetrainingCheck(accuracy, loss, tuple(run_seeds), int(gone.sum()), len(gone), count)


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    runs = [_FIRST_SEED + place for place in range(seeds)] if isinstance(seeds, int) else [int(one) for one in seeds]
    if len(runs) < 2 or len(set(runs)) < len(runs):
        raise ApplicationError(f"seeds must be at least two, and different, got {seeds!r}. Give seeds=5.")
    return runs


def _gone(dropped: ArrayLike, rows: int | None) -> NDArray[np.bool_]:
    """Return a bool for every row: whether it goes."""
    given = np.asarray(dropped)
    if given.dtype == np.bool_ and given.ndim == 1 and rows in (None, len(given)):
        gone = given
    elif rows is None:
        raise ApplicationError("how many training rows are there? Give dropped as a bool for each row, or rows=.")
    elif given.dtype.kind in "iu" and given.size and given.min() >= 0 and given.max() < rows:
        gone = np.zeros(rows, bool)
        gone[given] = True
    else:
        raise ApplicationError(
            f"dropped is {given.dtype} of shape {list(given.shape)}. Give row numbers from 0 to {rows - 1}, or a bool "
            f"for each of the {rows} rows."
        )
    if not gone.any() or gone.all():
        raise ApplicationError(f"{int(gone.sum())} of {len(gone)} rows are dropped. Drop some, and not all.")
    return gone


def _arms(gone: NDArray[np.bool_], seed: int) -> NDArray[np.bool_]:
    """Return which rows are kept [arms, rows]."""
    chance = np.ones(len(gone), bool)
    chance[np.random.default_rng(seed).choice(len(gone), int(gone.sum()), replace=False)] = False
    return np.stack([np.ones(len(gone), bool), chance, ~gone])


def _retrained(
    recipe: TrainingRecipe,
    jobs: Sequence[tuple[NDArray[np.bool_], int]],
    test: Any,
    processes: int,
    cache: str | os.PathLike[str] | None,
    progress: bool,
) -> tuple[NDArray[np.float32], int]:
    plain, view = in_view(recipe, "plain")
    queries = plain.over(test)
    measured = retrain(
        plain,
        np.stack([kept for kept, _ in jobs]),
        seeds=[seed for _, seed in jobs],
        measure=partial(_measured, queries),
        processes=processes,
        cache=cache,
        identity=identity_of(plain, test, view) if cache is not None else None,
        progress=progress,
    )
    return measured, len(queries)


def _measured(queries: TrainingRecipe, model: nn.Module) -> NDArray[np.float64]:
    predicted, labels = query_predictions(queries, model), queries.targets.cpu().numpy()
    if predicted.shape != labels.shape:
        raise ApplicationError(
            f"the model predicts {list(predicted.shape)} for {list(labels.shape)} test labels. The check needs one "
            "class per row."
        )
    return np.array([(predicted == labels).mean(), query_losses(queries, model).mean(dtype=np.float64)])


def _judged(probs: ArrayLike, labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return accuracy and mean cross-entropy."""
    said = np.asarray(probs, np.float64)
    fits = said.ndim == 2 and len(said) == len(labels) and labels.dtype.kind in "iu" and len(labels) > 0
    if not fits or labels.min() < 0 or labels.max() >= said.shape[1]:
        raise ApplicationError(
            f"predictions have shape {list(said.shape)} for {len(labels)} test labels. Give class probabilities "
            "[test rows, classes], and labels from 0 to classes − 1."
        )
    own = said[np.arange(len(labels)), labels]
    return np.array([(said.argmax(1) == labels).mean(), -np.log(np.maximum(own, 1e-12)).mean()])


def _difference(against: str, measure: str, gains: NDArray[np.float64]) -> Difference:
    gain, sd = float(gains.mean()), float(gains.std(ddof=1))
    stderr = sd / math.sqrt(len(gains))
    # A mean of n gains lies beyond one standard error, sd / √n, with a chance of 80 % if gain ≥ (1 + .84) sd / √n.
    needed = max(2, math.ceil(((1 + _POWER) * sd / gain) ** 2)) if gain > 0 else None
    # Few test rows give gains in whole rows: a tie must not count as a gain because of rounding.
    beyond = gain > stderr and not math.isclose(gain, stderr, rel_tol=1e-6)
    return Difference(against, measure, gain, stderr, beyond, needed)
