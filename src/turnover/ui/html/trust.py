"""How far the scores of a run can be trusted: noise, standard errors, what stands out, what leaks."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

import turnover
from turnover.errors import ScoresError
from turnover.scores import Scores
from turnover.ui.words import count, digits, percent
from turnover.wrapping import MOST_ROWS, ExpectedSignal, expected_signal

from .data_measures import MEAN, Histogram, LeakedPart, Leaks, Trust, TrustOf
from .data_rows import Mistake
from .row_lists import Standing

if TYPE_CHECKING:
    from turnover.runs import Run

_BINS = 40
_MOSTLY_SIGNAL = 0.5


def histogram_of(scores: Scores, *, noise: bool = False, tails: float = 0.5, bins: int = _BINS) -> Histogram | None:
    """Return how scores are distributed; None: there is nothing to see.

    Args:
        scores: [rows].
        noise: put never-trained ids beside them, as if there were as many.
        tails: percent of the scores on either side that the outermost bars hold; 0: bars go to the last score.
        bins: how many bars.
    """
    values = scores.values[np.isfinite(scores.values)].astype(np.float64)
    null = scores.null if noise else None
    if not len(values):
        return None
    together = values if null is None else np.concatenate([values, null.astype(np.float64)])
    low, high = np.percentile(together, [tails, 100 - tails])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(values, low, high), bins, (low, high))
    beside: tuple[float, ...] = ()
    if null is not None:
        among = np.histogram(np.clip(null, low, high), bins, (low, high))[0]
        beside = tuple((among * (len(values) / len(null))).tolist())
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), beside)


def leaks_of(model: nn.Module, train: tuple[Tensor, Tensor, Tensor]) -> Leaks:
    """Return the leak audit of a model on some training rows: inputs, labels and ids."""
    places = np.linspace(0, len(train[1]) - 1, min(MOST_ROWS, len(train[1]))).astype(int)
    x, y, ids = (part[places] for part in train)
    found = turnover.audit(model, (x, y, ids))
    parts = sorted(found.leaks, key=lambda leak: -(leak.gradient_share or 0.0))
    return Leaks(
        verdict=found.verdict,
        share=found.share,
        gradient_share=found.gradient_share,
        rows=found.rows,
        parameters=found.parameters,
        parts=tuple(LeakedPart(leak.name, leak.cause, leak.share, leak.gradient_share, leak.cure) for leak in parts),
    )


def trust_of(
    run: "Run", mistakes: tuple[Mistake, ...], stands_self: Standing, stands_mean: Standing, *, level: float
) -> Trust:
    """Return how far each kind of score can be trusted.

    Args:
        run: whose scores they are.
        mistakes: explained predictions.
        stands_self: which self-influences stand out.
        stands_mean: which mean influences stand out.
        level: share of what stands out that may be noise.
    """
    mean, own = run.mean_influence, run.self_influence
    thing = "group" if run.rows.groups else "row"
    kinds = [
        trust_in("self-influence", own, stands_self, partial(self_reading, "rows")),
        trust_in(MEAN, mean, stands_mean, partial(_mean_reading, thing)),
    ]
    if mistakes:
        kinds.append(_of_mistakes(mistakes, thing))
    expected = expected_signal(len(run.places("train")), [run.width], mean.replicas)
    return Trust(
        of=tuple(kinds),
        replicas=mean.replicas,
        expected=expected.signal_to_noise if isinstance(expected, ExpectedSignal) else None,
        expected_reading=(
            f"{_expected_words(expected, told=not mistakes)} {_found_words(mistakes, thing)}".strip()
            if isinstance(expected, ExpectedSignal)
            else expected
        ),
        verdict=verdict_of(
            kinds,
            f"{mean.replicas} replicas, masked parts that were trained side by side" if mean.replicas > 2 else None,
        ),
        level=level,
        mean_influence=histogram_of(mean, noise=True),
    )


def trust_in(
    name: str, scores: Scores, stands: Standing, reading: Callable[[int, float | None, int | None], str]
) -> TrustOf:
    """Return how far one kind of score can be trusted.

    Args:
        name: of the kind.
        scores: all of them.
        stands: which stand out.
        reading: says what follows from their number, the share of signal, and how many stand out.
    """
    try:
        ratio, signal = float(np.median(scores.noise.ratio)), float(np.median(scores.noise.signal))
    except ScoresError:
        ratio = signal = None
    stderr = None if scores.stderr is None else float(np.nanmedian(scores.stderr))
    out = None if stands.marked is None else int(stands.marked.sum())
    return TrustOf(name, len(scores), ratio, signal, stderr, out, reading(len(scores), signal, out), scores.unit)


def self_reading(things: str, rows: int, signal: float | None, out: int | None) -> str:
    """Return what follows for self-influence."""
    if not out:
        return f"Nothing stands out: having been seen hardly helps any of the {things}."
    return (
        f"{percent(out / rows, 0)} of the {things} are known better for having been seen, beyond noise; their order "
        "can be believed."
    )


def _mean_reading(thing: str, rows: int, signal: float | None, out: int | None) -> str:
    if not out and signal is not None and signal > _MOSTLY_SIGNAL:
        return (
            f"No {thing} stands out alone among {count(rows)}, yet the order as a whole is mostly signal: the head of "
            "the list is worth a look."
        )
    if not out:
        return f"No {thing} stands out. The order is a hint at best."
    if out == 1:
        return f"One {thing} stands out; the order of the others is mostly noise."
    return f"Believe the order of the {count(out, thing)} that stand out; that of the others is mostly noise."


def _of_mistakes(mistakes: tuple[Mistake, ...], thing: str) -> TrustOf:
    """Return how far the rows or groups behind single predictions can be trusted."""
    leading = np.array([one.meaningful for one in mistakes])
    errors = [entry.stderr for one in mistakes for entry in one.pushed if entry.stderr is not None]
    some = int((leading > 0).sum())
    if not some:
        reading = f"No {thing} behind these errors stands out alone: read the lists as examples, not as proof."
    else:
        reading = (
            f"For {some} of {count(len(mistakes), 'error')} at least one {thing} stands out, for the middle one "
            f"{count(int(np.median(leading)), thing)}; below the dashed line the order is noise."
        )
    return TrustOf(
        f"{thing}s behind an error",
        sum(len(one.pushed) for one in mistakes),
        None,
        None,
        float(np.median(errors)) if errors else None,
        int(leading.sum()),
        reading,
    )


def _expected_words(expected: ExpectedSignal, *, told: bool) -> str:
    """Return the rule of thumb; what it lets expect is told only where nothing was measured."""
    ratio = expected.signal_to_noise
    if not told:
        meaning = ""
    elif ratio >= 1:
        meaning = ", so that single scores may be readable"
    elif ratio >= 0.2:
        meaning = ", so that at most the strongest rows of a prediction stand out"
    else:
        meaning = ", so that a single score says little; lists, means and doubtful labels say more"
    times = f"{digits(ratio)} times" if ratio >= 1 else f"{digits(ratio)} of"
    return (
        f"By rule of thumb the signal of one score as it is computed is about {times} its noise with {expected.rows:,} "
        f"rows, a masked layer of {expected.width:,} units and {count(expected.replicas, 'replica')}{meaning}."
    )


def _found_words(mistakes: tuple[Mistake, ...], thing: str) -> str:
    """Return what was found behind the errors of this report, which counts more than a rule."""
    if not mistakes:
        return ""
    some, errors = sum(one.meaningful > 0 for one in mistakes), count(len(mistakes), "error")
    if not some:
        return f"Behind none of the {errors} shown does a {thing} stand out: single scores say little here."
    if 2 * some < len(mistakes):
        return (
            f"Behind {some} of the {errors} shown a {thing} stands out, behind most of them none: single scores say "
            "something for a few predictions only."
        )
    return f"Behind {some} of the {errors} shown at least one {thing} stands out: there the strongest can be believed."


def verdict_of(kinds: Sequence[TrustOf], trained: str | None) -> str:
    """Return all of it in a sentence or two.

    Args:
        kinds: of scores.
        trained: the networks that standard errors come from; None: there are too few.
    """
    known = [kind for kind in kinds if kind.signal is not None]
    said = [
        f"{kind.scores}{' is' if kind is known[0] else ''} {percent(kind.signal or 0.0, 0)} signal" for kind in known
    ]
    errors = (
        f"Standard errors come from {trained}."
        if trained
        else (
            "Standard errors come from ids that were never trained; from three replicas on (--replicas) they would "
            "come from the scores themselves."
        )
    )
    first = ", ".join(said)
    return f"{first[:1].upper()}{first[1:]}; the rest is noise. {errors}" if first else errors
