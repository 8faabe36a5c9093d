"""Labels as a mixture: a share of them, the rate, was changed to another class, each to any of them equally likely.

With probabilities p of the classes, a given label y has the probability (1 − rate) p_y + rate (1 − p_y) / (classes −
1). Weights of several predictions and the rate are those of the highest likelihood of the given labels. A calibrated
prediction may become as certain as it likes; labels that still disagree with certain predictions are what the rate
explains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Doubles = NDArray[np.float64]

# Three numbers need no more rows than this.
_MOST_ROWS = 10_000
_STARTS = (-3.0, -1.0)
# Twice the gain of log-likelihood above which a rate differs from 0 (one-sided, 5 %).
_CRITICAL = 2.71
# How far above the likeliest rate the width of its likelihood is read, at how many widths from it the likelihood is
# computed, and the rates between, where it is interpolated.
_RATE_STEP = 0.02
_WIDTHS = np.array([-4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4])
_RATES = np.linspace(0, 0.5, 2001)
# Standard deviation of the logarithm of a scale, before any label is seen.
_SCALE_SPREAD = 0.3


@dataclass(frozen=True)
class Mixture:
    """Weights of predictions, and the share of wrong labels beside them.

    Attributes:
        weights: of each prediction, at least 0.
        rate: share of wrong labels.
        loss: mean negative log-likelihood of the labels.
        stderr: standard deviation of what the rate may be; None: not estimated.
    """

    weights: tuple[float, ...]
    rate: float
    loss: float
    stderr: float | None = None


def centered(values: Any) -> Doubles:
    """Return class scores less their mean over the classes."""
    array = np.asarray(values, np.float64)
    return array - array.mean(-1, keepdims=True)


def bent(scores: Doubles) -> list[Doubles]:
    """Return class scores, in units of their standard deviation, and the same bent down where they are low.

    Scores of ridge regression are nearly probabilities: those of impossible classes end at 0, and their logarithms
    are lower than a line through the others has them.
    """
    return [centered(scores), centered(-np.logaddexp(0.0, -scores))]


def some_of(rows: int) -> NDArray[np.int64]:
    """Return places of rows, evenly spread, as many as a fit needs at most."""
    return np.linspace(0, rows - 1, min(_MOST_ROWS, rows)).astype(np.int64)


def fit_weights(
    parts: Sequence[Doubles],
    labels: NDArray[np.int64],
    *,
    rates: Sequence[float] | None = None,
    noisy: NDArray[np.bool_] | None = None,
    tested: bool = True,
) -> Mixture:
    """Return the weights of class scores [rows, classes] and the rate that make given labels likeliest.

    Args:
        parts: the class scores.
        labels: given labels [rows].
        rates: the rate is one of these; None: any.
        noisy: which rows have that rate, all others none [rows]; None: all.
        tested: whether a rate that the labels do not tell from 0 is 0.
    """
    chosen = some_of(len(labels))
    labels = labels[chosen]
    scores = torch.from_numpy(np.stack([np.asarray(one, np.float64)[chosen] for one in parts]))
    share = torch.ones(len(labels)) if noisy is None else torch.from_numpy(noisy[chosen])
    share = share.to(scores)
    spread = scores.std(dim=(1, 2)).clamp_min(1e-12)
    scores, given = scores / spread[:, None, None], torch.from_numpy(np.asarray(labels, np.int64))[:, None]
    starts = [(start, None) for start in _STARTS] if rates is None else [(0.0, rate) for rate in rates]
    fits = [_maximize(scores, given, share, *start) for start in starts]
    weights, rate, loss = min(fits, key=lambda fit: fit[2])
    if rates is None and tested and 2 * len(labels) * (_maximize(scores, given, share, 0.0, 0.0)[2] - loss) < _CRITICAL:
        rate = 0.0
    return Mixture(tuple((weights / spread).tolist()), rate, loss)


def _maximize(
    scores: Tensor, given: Tensor, share: Tensor, start: float, fixed: float | None
) -> tuple[Tensor, float, float]:
    """Return weights, rate and loss, the rate being fixed or found from a start."""
    parameters = torch.tensor([0.0] * len(scores) + [start], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], max_iter=60, line_search_fn="strong_wolfe")

    def weights_and_rate() -> tuple[Tensor, Any]:
        return parameters[:-1].clamp(-8, 5).exp(), parameters[-1].sigmoid() / 2 if fixed is None else fixed

    def loss() -> Tensor:
        weights, rate = weights_and_rate()
        logs = torch.log_softmax((weights[:, None, None] * scores).sum(0), 1).gather(1, given)[:, 0]
        return -likelihood(logs.exp(), rate * share, scores.shape[2]).log().mean()

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        weights, rate = weights_and_rate()
        return weights, float(rate), float(loss())


def fit_rate(parts: Sequence[Doubles], labels: NDArray[np.int64], *, noisy: NDArray[np.bool_] | None = None) -> Mixture:
    """Return the likeliest fit with the mean and the standard deviation of what its rate may be.

    Every rate up to one half is as probable before any label is seen. The likeliest one alone misleads where labels
    hardly tell: a weak prediction looks like wrong labels, and then nearly all lower rates are as likely.
    """
    rows = min(_MOST_ROWS, len(labels))

    def loss(rate: float) -> float:
        return rows * fit_weights(parts, labels, rates=(rate,), noisy=noisy).loss

    best = fit_weights(parts, labels, noisy=noisy, tested=False)
    gain = 2 * (loss(best.rate + _RATE_STEP) - rows * best.loss)
    width = _RATE_STEP / np.sqrt(max(gain, _RATE_STEP**2))
    tried = np.concatenate([best.rate * np.linspace(0, 0.75, 4), best.rate + width * _WIDTHS, [0.5]])
    tried = np.unique(np.clip(tried, 0.0, 0.5))
    losses = np.interp(_RATES, tried, [loss(float(rate)) for rate in tried])
    mass = np.exp(losses.min() - losses)
    mean = float(np.average(_RATES, weights=mass))
    return replace(best, rate=mean, stderr=float(np.sqrt(np.average(np.square(_RATES - mean), weights=mass))))


def expected_error(parts: Sequence[Doubles], weights: Sequence[float]) -> float:
    """Return how many of the likeliest classes are not the true one, by weighted class scores themselves."""
    scores = np.asarray(sum(weight * np.asarray(part) for weight, part in zip(weights, parts, strict=True)))
    return 1 - float(right_at(odds_against(scores, np.argmax(scores, 1))).mean())


def fit_scale(scores: Doubles, labels: NDArray[np.int64], rate: float, *, count: int = 1) -> tuple[Doubles, float]:
    """Return factors of class scores that make given labels likely: some of equal probability, and the likeliest.

    It is near 1 where labels do not tell. Some hundred rows do not where nearly all are predicted, or where the rate
    explains those that are not: without a prior the factor would grow without bound.
    """
    chosen = some_of(len(labels))
    scores, labels = scores[chosen], labels[chosen]
    logs = _SCALE_SPREAD * np.linspace(-5, 5, 101)
    rights = (right_at(odds_against(np.exp(log) * scores, labels)) for log in logs)
    fits = [np.log(likelihood(right, rate, scores.shape[1])).sum() for right in rights]
    losses = np.square(logs / _SCALE_SPREAD) / 2 - np.array(fits)
    mass = np.exp(losses.min() - losses)
    below = (mass.cumsum() - mass / 2) / mass.sum()
    return np.exp(np.interp(_middles(count), below, logs)), float(np.exp(logs[losses.argmin()]))


def normal_values(mean: float, deviation: float, *, count: int) -> Doubles:
    """Return values that stand for equal shares of a normal distribution."""
    return mean + deviation * np.array([NormalDist().inv_cdf(share) for share in _middles(count)])


def _middles(count: int) -> Doubles:
    return (np.arange(count) + 0.5) / count


def odds_against(scores: Doubles, labels: NDArray[np.int64]) -> Doubles:
    """Return the log-odds of all other classes against the given label."""
    rows, others = np.arange(len(labels)), scores.copy()
    others[rows, labels] = -np.inf
    return np.logaddexp.reduce(others, axis=1) - scores[rows, labels]


def right_at(odds: Doubles) -> Doubles:
    """Return the probability of labels as the true ones, from log-odds against them."""
    return np.exp(-np.logaddexp(0.0, odds))


def likelihood(right: Any, rate: Any, classes: int) -> Any:
    """Return the probability of given labels, the probability of each as the true one being given."""
    return (1 - rate) * right + rate * (1 - right) / (classes - 1) + 1e-300


def rate_is_higher(right: Doubles, rate: float, classes: int) -> bool:
    """Tell whether the rate that makes given labels likeliest is above one; the likelihood has one maximum."""
    slope = (1 - right) / (classes - 1) - right
    return bool((slope / likelihood(right, rate, classes)).sum() > 0)


def wrong_probability(right: Doubles, rate: float, classes: int) -> Doubles:
    """Return how probably each given label is wrong."""
    if not rate:
        return np.zeros(len(right))
    return 1 - (1 - rate) * right / likelihood(right, rate, classes)
