"""Retraining check: does dropping rows help? Training on all rows, without random and without dropped ones (§4.4)."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from turnover.errors import ApplicationError
from turnover.evaluation import identity_of, in_view, query_losses, query_predictions
from turnover.scores import load_pandas, student_limit, student_tail
from turnover.training import TrainingRecipe, retrain

from .results import Result

if TYPE_CHECKING:
    import pandas

Fit = Callable[[NDArray[np.bool_], int], ArrayLike]
ARMS = ("none", "random", "cleansed")
"""What is removed: nothing, as many rows at random, or the rows in question."""

# The model that chose the rows usually has a small seed; the check must not start from its parameters.
_FIRST_SEED = 1_000_000
_LEVEL = 0.05  # two-sided: chance calls a gain in 2.5 % of cases per measure, in 5 % or less in either of the two
_MISSED = 0.2  # how often a gain of the observed size may be missed with `seeds_needed`
_MOST_STEPS = 100
_CHANGES = {"none": "no change", "random": "dropping random rows"}


@dataclass(frozen=True)
class Difference(Result):
    """How much better the cleansed data are than another arm, seed by seed; None of what one seed does not tell.

    Attributes:
        gain: mean over seeds; positive: cleansing is better (more accurate, or less loss).
        stderr: its standard error, over seeds and test rows.
        interval: 95 % interval of the gain by Student's distribution.
        p_value: two-sided, of the paired test that there is no difference.
        seeds_needed: seeds with which a gain of this size would be significant in 80 % of cases; None, too: no number
            of seeds, as there is no gain, or the test rows are too few for it.
    """

    _also = ("significant",)

    against: str
    measure: str
    gain: float
    stderr: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    seeds_needed: int | None = None

    @property
    def significant(self) -> bool:
        """Whether the arms differ at 5 %, in either direction: the interval does not contain 0."""
        return self.p_value is not None and self.p_value < _LEVEL

    @property
    def gains(self) -> bool:
        """Whether cleansing is significantly better."""
        return self.significant and self.gain > 0

    def __str__(self) -> str:
        # A loss that falls is a gain; said as the change of the loss, it would need the other sign.
        name, scale, unit = ("", 100, " points") if self.measure == "accuracy" else ("gain ", 1, "")
        words = f"{name}{_signed(scale * self.gain)}{unit} over {self.against}"
        if self.interval is None or self.p_value is None:
            return words
        low, high = (_signed(scale * end) for end in self.interval)
        p_value = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        return f"{words} (95 % interval {low} to {high}, {p_value})"


@dataclass(frozen=True)
class RetrainingCheck:
    """Results of models retrained without some rows, and what follows from them by a paired test at 5 %.

    The arms of a seed share initial parameters, batches and random numbers of the training, so they are compared seed
    by seed. All seeds share test rows and dropped rows: what dropping them happens to do to these few test rows must
    not count. The squared standard error of a gain is the sum of two: over seeds, and over test rows of what all
    seeds have in common, judged by Student's distribution with the degrees of freedom of Welch and Satterthwaite.
    Cleansing helps if it is significantly better than both other arms; as both must hold, no correction is needed.

    Attributes:
        accuracy: [arms, seeds] on the test set, in the order of `ARMS`; None: labels are numbers.
        loss: mean loss [arms, seeds] on it: the recipe's, or cross-entropy of what a function returned.
        row_errors: standard errors of the gains over test rows, [accuracy and loss, over none and random]; None: not
            known, and only seeds are tested.
    """

    accuracy: NDArray[np.float64] | None
    loss: NDArray[np.float64]
    seeds: tuple[int, ...]
    removed: int
    rows: int
    test_rows: int
    row_errors: NDArray[np.float64] | None = None

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """How much better cleansed data are than none and random, in accuracy and in loss."""
        # Rows of errors are those of accuracy and loss, or of the loss alone.
        errors = np.zeros((2, 2)) if self.row_errors is None else self.row_errors
        found = []
        for place, (measure, values) in enumerate(self._values.items()):
            gains = values[2] - values[:2] if measure == "accuracy" else values[:2] - values[2]
            for arm in range(2):
                tested = _tested(gains[arm], float(errors[place, arm]), self.test_rows)
                found.append(Difference(ARMS[arm], measure, *tested))
        return tuple(found)

    @property
    def _values(self) -> dict[str, NDArray[np.float64]]:
        return {"loss": self.loss} if self.accuracy is None else {"accuracy": self.accuracy, "loss": self.loss}

    def helps(self, measure: str) -> bool:
        """Tell whether cleansing is significantly better than both others, in "accuracy" or "loss"."""
        if measure not in self._values:
            known = " or ".join(map(repr, self._values))
            raise ApplicationError(f"measure must be {known}, got {measure!r}.")
        return all(one.gains for one in self.differences if one.measure == measure)

    def __str__(self) -> str:
        seeds = f"{len(self.seeds)} seed{'' if len(self.seeds) == 1 else 's'}"
        start = f"Dropping {self.removed:,} of {self.rows:,} rows, {seeds}, {self.test_rows:,} test rows."
        return " ".join([start, *(self._verdict(measure) for measure in self._values)])

    def _verdict(self, measure: str) -> str:
        each = [one for one in self.differences if one.measure == measure]
        told = f"{measure.capitalize()}: {', '.join(map(str, each))}"
        if len(self.seeds) == 1:
            return f"{told}; one seed allows no test. Use five: --seeds 5, in Python seeds=5."
        worse = [one.against for one in each if one.significant and one.gain < 0]
        if worse:
            return f"{told}; significantly worse than {' and '.join(_CHANGES[against] for against in worse)}."
        missing = [one for one in each if not one.gains]
        if not missing:
            return f"{told}; a significant gain."
        verdict = f"{told}; not distinguishable from {' or '.join(_CHANGES[one.against] for one in missing)}"
        if any(one.gain <= 0 for one in missing):
            return f"{verdict}. More seeds would not help, as there is no gain to confirm."
        if any(one.seeds_needed is None for one in missing):
            return f"{verdict}. More seeds would not help: a gain of this size needs more test rows."
        return f"{verdict}. A gain of this size would take about {max(one.seeds_needed or 0 for one in missing)} seeds."

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        table = {
            name: (values.mean(1), values.std(1, ddof=1) if len(self.seeds) > 1 else [None] * len(ARMS), values)
            for name, values in self._values.items()
        }
        return {
            "arms": {
                arm: {
                    name: {"mean": float(mean[at]), "sd": sd[at], "values": values[at].tolist()}
                    for name, (mean, sd, values) in table.items()
                }
                for at, arm in enumerate(ARMS)
            },
            "differences": [one.as_dict() for one in self.differences],
            "helps": {measure: self.helps(measure) for measure in self._values},
            "seeds": list(self.seeds),
            "removed": self.removed,
            "rows": self.rows,
            "test_rows": self.test_rows,
        }

    def table(self) -> "pandas.DataFrame":
        """Return one row per arm: mean and standard deviation (NaN for one seed) of accuracy and loss over seeds."""
        columns: dict[str, Any] = {"removed": ARMS}
        for name, values in self._values.items():
            sd = values.std(1, ddof=1) if len(self.seeds) > 1 else np.full(len(ARMS), np.nan)
            columns |= {name: values.mean(1), f"{name}_sd": sd}
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
    turn-over dropout, also where the recipe builds a wrapped one. Gains are judged by a paired test at 5 %, over seeds
    and test rows (`RetrainingCheck`).

    Args:
        train: how to train, classes or numbers; or a function (kept rows as bool [rows], seed) -> class probabilities
            [test rows, classes].
        dropped: places of the rows, or bool [rows], as `~cleansing.kept`.
        test: (inputs, labels) for a recipe; labels alone for a function.
        rows: how many training rows there are, for a function with places.
        seeds: how many, or which; with one seed there are gains, but no test.
        processes: worker processes of a recipe.
        cache: a folder; finished trainings of a recipe are kept there and not run again.
        progress: show a bar.

    Raises:
        ApplicationError: rows, seeds or labels that do not fit.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> from turnover.training import TrainingRecipe
        >>> x = torch.randn(80, 3)
        >>> y = (x[:, 0] > 0).long()
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x[:40], y[:40], epochs=3)
        >>> check = check_by_retraining(recipe, [0, 1], (x[40:], y[40:]), seeds=2)
        >>> check.accuracy.shape, check.removed
        ((3, 2), 2)
    """
    run_seeds = [_FIRST_SEED + place for place in range(seeds)] if isinstance(seeds, int) else list(map(int, seeds))
    if not run_seeds or len(set(run_seeds)) < len(run_seeds):
        raise ApplicationError(f"seeds must be one or more, all different, got {seeds!r}. Give seeds=5.")
    gone = _gone(dropped, len(train) if isinstance(train, TrainingRecipe) else rows)
    chance = np.ones((len(run_seeds), len(gone)), bool)
    for place, seed in enumerate(run_seeds):
        chance[place, np.random.default_rng(seed).choice(len(gone), int(gone.sum()), replace=False)] = False
    everything = np.ones_like(chance)
    kept = np.concatenate([everything, chance, everything & ~gone])  # [arms * seeds, rows]
    if isinstance(train, TrainingRecipe):
        plain, view = in_view(train, "plain")
        queries = plain.over(test)
        count = len(queries)
        measured = retrain(
            plain,
            kept,
            seeds=run_seeds * len(ARMS),
            measure=partial(_measured, queries),
            processes=processes,
            cache=cache,
            identity=identity_of(plain, test, view) if cache is not None else None,
            progress=progress,
        )
    else:
        labels = np.asarray(test.cpu() if isinstance(test, Tensor) else test)
        jobs, count = zip(kept, run_seeds * len(ARMS), strict=True), len(labels)
        measured = np.stack([_judged(train(rows_kept, seed), labels) for rows_kept, seed in jobs])
    values = measured.astype(np.float64).reshape(len(ARMS), len(run_seeds), -1, count).transpose(2, 0, 1, 3)
    *accuracy, loss = values.mean(3)
    sizes = int(gone.sum()), len(gone), count
    return RetrainingCheck(accuracy[0] if accuracy else None, loss, tuple(run_seeds), *sizes, _row_errors(values))


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


def _measured(queries: TrainingRecipe, model: nn.Module) -> NDArray[np.float64]:
    """Return whether each test row is predicted correctly, and its loss: [2, test rows]; of numbers the loss alone."""
    if queries.targets.is_floating_point():
        return query_losses(queries, model)[None]
    predicted, labels = query_predictions(queries, model), queries.targets.cpu().numpy()
    if predicted.shape != labels.shape:
        raise ApplicationError(
            f"the model predicts {list(predicted.shape)} for {list(labels.shape)} test labels. The check needs one "
            "class per row."
        )
    return np.stack([predicted == labels, query_losses(queries, model)])


def _judged(probs: ArrayLike, labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return whether each test row is predicted correctly, and its cross-entropy: [2, test rows]."""
    said = np.asarray(probs, np.float64)
    fits = said.ndim == 2 and len(said) == len(labels) and labels.dtype.kind in "iu" and len(labels) > 0
    if not fits or labels.min() < 0 or labels.max() >= said.shape[1]:
        raise ApplicationError(
            f"predictions have shape {list(said.shape)} for {len(labels)} test labels. Give class probabilities "
            "[test rows, classes], and labels from 0 to classes − 1."
        )
    own = said[np.arange(len(labels)), labels]
    return np.stack([said.argmax(1) == labels, -np.log(np.maximum(own, 1e-12))])


def _row_errors(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the standard errors over test rows [measures, against] of gains, from [measures, arms, seeds, rows].

    What differs from seed to seed on a single test row averages out with more seeds and is in the standard error over
    seeds already; it is taken off (variance components of a two-way layout).
    """
    gains = values[:, 2:] - values[:, :2]
    seeds, rows = gains.shape[2:]
    if seeds == 1 or rows == 1:
        return None
    by_row = gains.mean(2, keepdims=True)
    rest = gains - by_row - gains.mean(3, keepdims=True) + gains.mean((2, 3), keepdims=True)
    interaction = np.square(rest).sum((2, 3)) / ((seeds - 1) * (rows - 1))
    return np.sqrt(np.maximum(0, by_row.var((2, 3), ddof=1) - interaction / seeds) / rows)


def _tested(gains: NDArray[np.float64], row_error: float, test_rows: int) -> tuple[Any, ...]:
    """Return the numbers of a `Difference`, from the gain of every seed and its standard error over test rows."""
    gain, seeds = float(gains.mean()), len(gains)
    if seeds == 1:
        return (gain,)
    sd = float(gains.std(ddof=1))
    stderr, df = _noise(sd, seeds, row_error, test_rows)
    t = gain / stderr if stderr else math.copysign(math.inf, gain) if gain else 0.0
    reach = student_limit(_LEVEL, df) * stderr
    needed = _seeds_needed(gain, sd, row_error, test_rows)
    return gain, stderr, (gain - reach, gain + reach), float(student_tail(np.array(t), df)), needed


def _noise(sd: float, seeds: int, row_error: float, test_rows: int) -> tuple[float, int]:
    """Return the standard error of a mean over seeds and test rows, and its degrees of freedom.

    These are those of Satterthwaite (1946), as in Welch's test; seeds − 1 without test rows.
    """
    stderr = math.hypot(sd / math.sqrt(seeds), row_error)
    share = (row_error / stderr) ** 2 if row_error else 0.0
    return stderr, math.floor(1e-9 + 1 / ((1 - share) ** 2 / (seeds - 1) + share**2 / max(1, test_rows - 1)))


def _seeds_needed(gain: float, sd: float, row_error: float, test_rows: int) -> int | None:
    # Student's limits are larger than the normal ones, so the normal number of seeds is where the search begins.
    limit = NormalDist().inv_cdf(1 - _LEVEL / 2) + NormalDist().inv_cdf(1 - _MISSED)
    left = gain**2 - (limit * row_error) ** 2
    if gain <= 0 or left <= 0:
        return None
    seeds = max(2, math.ceil((limit * sd) ** 2 / left))
    for _ in range(_MOST_STEPS):
        stderr, df = _noise(sd, seeds, row_error, test_rows)
        df = min(df, 200)  # from there on limits change by less than 1 %, and cost the same each
        if gain >= (student_limit(_LEVEL, df) + student_limit(2 * _MISSED, df)) * stderr:
            return seeds
        seeds += 1 + seeds // 20
    return None  # few test rows have a larger limit, which no number of seeds lowers


def _signed(number: float) -> str:
    return f"{number:+.2g}".replace("-", "−")
