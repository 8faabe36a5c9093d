"""The noise of scores: standard errors, significance, expected signal; and the leak audit."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor, nn

from turnover.errors import ScoresError
from turnover.scores import Scores
from turnover.wrapping import MOST_ROWS, AuditReport, ExpectedSignal, audit, expected_signal

from .explain import Explanations
from .results import Noise, NoiseFrom, Result, noise_from

ScoreKind = Literal["self_influence", "mean_influence", "explanations"]


@dataclass(frozen=True)
class Histogram(Result):
    """How many values lie between edges.

    Attributes:
        edges: one more than counts; the first and last bin hold what lies beyond, too.
        null: the distribution of null ids, scaled to as many values; empty: not asked for, or not known.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    null: tuple[float, ...] = ()


@dataclass(frozen=True)
class ScoreNoise(Result):
    """The noise of one kind of score.

    Attributes:
        noise_ratio: standard deviation of noise, that of null ids or the standard error of replicas, over that of the
            scores; 1: nothing but noise; None: not known.
        signal: share of the variance that noise does not explain; None: not known.
        stderr: median standard error; None: not known.
        method: the estimator that made the scores; "": not known.
        noise_from: what noise is known from.
    """

    scores: ScoreKind
    count: int
    noise_ratio: float | None
    signal: float | None
    stderr: float | None
    significant: int
    unit: str
    method: str = ""
    noise_from: NoiseFrom = None


@dataclass(frozen=True)
class Trust(Result):
    """The noise of a model's scores, by kind.

    Attributes:
        expected: signal over noise of one pair, expected from rows, width and replicas; None: cannot be said.
        mean_influence: mean influence of training rows beside that of null ids; None: there is none.
    """

    scores: tuple[ScoreNoise, ...]
    replicas: int
    level: float
    expected: ExpectedSignal | None = None
    mean_influence: Histogram | None = None

    def noise_of(self, scores: ScoreKind) -> ScoreNoise | None:
        """Return the noise of one kind of score."""
        return next((one for one in self.scores if one.scores == scores), None)


def histogram(scores: Scores, *, bins: int = 40, tails: float = 0.5, null: bool = False) -> Histogram | None:
    """Return how finite scores are distributed; None: there are none.

    The outermost bins hold `tails` percent of the scores on either side. With `null`, null ids stand beside them,
    scaled to as many.
    """
    values = scores.values[np.isfinite(scores.values)].astype(np.float64)
    beside = scores.null.astype(np.float64) if null and scores.null is not None else np.empty(0)
    if not len(values):
        return None
    low, high = np.percentile(np.concatenate([values, beside]), [tails, 100 - tails])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(values, low, high), bins, (low, high))
    scaled = np.histogram(np.clip(beside, low, high), bins, (low, high))[0] * (len(values) / max(len(beside), 1))
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), tuple(scaled.tolist()) if len(beside) else ())


def score_noise(kind: ScoreKind, scores: Scores, level: float) -> ScoreNoise:
    """Return the noise of all scores of a kind."""
    try:
        ratio, signal = float(np.median(scores.noise.ratio)), float(np.median(scores.noise.signal))
    except ScoresError:
        ratio = signal = None
    stderr = None if scores.stderr is None else float(np.nanmedian(scores.stderr))
    significant = int(Noise.of(scores, level).significant.sum())
    return ScoreNoise(
        kind, len(scores), ratio, signal, stderr, significant, scores.unit, scores.method, noise_from(scores)
    )


def find_trust(self_influence: Scores, mean: Scores, errors: Explanations, *, rows: int, width: int | None) -> Trust:
    """Return the noise of all scores about a trained network.

    Args:
        self_influence: of the training rows.
        mean: mean influence of the training instances.
        errors: explanations of errors.
        rows: how many rows were trained.
        width: of the masked layer; None: not known.
    """
    kinds = [
        score_noise("self_influence", self_influence, errors.level),
        score_noise("mean_influence", mean, errors.level),
    ]
    if len(errors):
        supporting = [example for one in errors for example in one.supporting]
        stderrs = [example.stderr for example in supporting if example.stderr is not None]
        stderr = float(np.median(stderrs)) if stderrs else None
        significant = sum(one.significant_supporting for one in errors)
        about = errors.unit, errors.method, errors.noise_from
        kinds.append(ScoreNoise("explanations", len(supporting), None, None, stderr, significant, *about))
    # The rule of thumb is that of raw scores, whose noise is that of masks.
    by_masks = not len(errors) or errors.noise_from == "null_ids"
    expected = expected_signal(rows, [width], mean.replicas) if by_masks else None
    return Trust(
        scores=tuple(kinds),
        replicas=mean.replicas,
        level=errors.level,
        expected=expected if isinstance(expected, ExpectedSignal) else None,
        mean_influence=histogram(mean, null=True),
    )


def leak_audit(model: nn.Module, train: tuple[Tensor, Tensor, Tensor]) -> AuditReport:
    """Return the leak audit of a model on a few of its training rows (inputs, labels, ids), spread over all of them."""
    places = np.linspace(0, len(train[1]) - 1, min(MOST_ROWS, len(train[1]))).astype(int)
    x, y, ids = (part[places] for part in train)
    return audit(model, (x, y, ids))
