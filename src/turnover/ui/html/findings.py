"""Headlines: what a reader should know who reads nothing else."""

from collections.abc import Mapping

from turnover.ui.words import count, percent, shortened

from .data import Counts, Finding, Overview
from .data_measures import MEAN, Leaks, Trust
from .data_rows import DoubtfulLabel, GroupInfluence, HarmfulRow, ShownRow
from .overview import NGRAMS

_QUOTED = 70
# From this share on, a reader may take what is usual for an alarm.
_MOST_ROWS = 0.5


def findings_of(
    overview: Overview,
    counts: Counts,
    *,
    doubtful: tuple[DoubtfulLabel, ...],
    harmful: tuple[HarmfulRow, ...],
    groups: tuple[GroupInfluence, ...],
    leaks: Leaks | None,
    trust: Trust | None,
    rows: Mapping[int, ShownRow],
) -> tuple[Finding, ...]:
    """Return the headlines of a run that learned labels."""
    accuracy = 1 - counts.mistakes / counts.unseen if counts.unseen else None
    found = [
        _accuracy(overview, counts, accuracy),
        _doubtful(overview, counts, doubtful, rows),
        _groups(groups) if groups else _harmful(counts, harmful, rows),
        _memorized(overview, counts),
        _duplicates(counts, grouped=bool(groups)),
        _trusted(trust, leaks),
    ]
    return tuple(finding for finding in found if finding is not None)


def _accuracy(overview: Overview, counts: Counts, accuracy: float | None) -> Finding | None:
    if accuracy is None:
        return None
    sentence = f"of {count(counts.unseen, 'validation and test row')} are predicted rightly"
    if overview.baseline is None:
        return Finding(percent(accuracy), f"{sentence}.", "mistakes")
    better = accuracy > overview.baseline
    sentence += (
        f"; to beat: {percent(overview.baseline)}, the share of the most frequent label among the training rows."
    )
    return Finding(percent(accuracy), sentence, "classes", "plain" if better else "look")


def _doubtful(
    overview: Overview, counts: Counts, doubtful: tuple[DoubtfulLabel, ...], rows: Mapping[int, ShownRow]
) -> Finding:
    trained = max(overview.rows.get("train", 1), 1)
    if not counts.doubtful or not doubtful:
        return Finding(
            "0",
            "training labels are firmly doubted by the part of the network that never saw them.",
            "doubtful",
            "good",
        )
    first, are = doubtful[0], "label is" if counts.doubtful == 1 else "labels are"
    sentence = (
        f"training {are} doubtful ({percent(counts.doubtful / trained)}) to the part of the network that never saw the "
        f"row, {_called(rows[first.row])} first: labeled {first.given}, rather {first.suggested}."
    )
    return Finding(count(counts.doubtful), f"{sentence} {doubts_words(counts, trained)}".strip(), "doubtful", "look")


def doubts_words(counts: Counts, trained: int) -> str:
    """Return how many of the doubts one must expect of right labels; nothing where that is not known.

    The part of the network that never saw a row errs, too: it does not believe some validation and test labels either.
    It may err more on training rows, so that this is a least number.

    Args:
        counts: of the report.
        trained: training rows.
    """
    expected = counts.expected_disbelieved(trained)
    if expected is None or not counts.doubtful:
        return ""
    words = (
        f"It does not believe {percent(counts.asked_disbelieved / counts.asked)} of validation and test labels either, "
        f"which would be {count(expected)} of the training rows"
    )
    if counts.doubtful <= expected:
        return f"{words}: errors of its own may explain {'this' if counts.doubtful == 1 else 'all of these'}."
    if not expected:
        return f"{words}."
    return f"{words}: at least so many of the {count(counts.doubtful)} are to be expected of right labels."


def _harmful(counts: Counts, harmful: tuple[HarmfulRow, ...], rows: Mapping[int, ShownRow]) -> Finding | None:
    if not harmful:
        return None
    if not counts.harmful:
        return Finding(
            "0", "training rows harm validation rows so much that a single one stands out from noise.", "harmful"
        )
    verb = "row harms" if counts.harmful == 1 else "rows harm"
    also = sum(one.doubtful for one in harmful if one.stands_out)
    shown = sum(one.stands_out for one in harmful)
    sentence = f"training {verb} validation rows beyond noise, {_called(rows[harmful[0].row])} most"
    of_whom = "them" if shown == counts.harmful else f"the first {shown}"
    which = "all of them" if also == counts.harmful else f"{also} of {of_whom}"
    which = "it also has" if also == counts.harmful == 1 else f"{which} also {'has' if also == 1 else 'have'}"
    sentence += f"; {which} a doubtful label." if also else "."
    return Finding(count(counts.harmful), sentence, "harmful", "look")


def _groups(groups: tuple[GroupInfluence, ...]) -> Finding:
    worst, harmful = groups[0], [one for one in groups if one.stands_out and one.score < 0]
    if not harmful:
        return Finding(
            "0", f"of {count(len(groups), 'group')} harm validation rows beyond what noise explains.", "groups", "good"
        )
    verb = "harms" if len(harmful) == 1 else "harm"
    return Finding(
        count(len(harmful)),
        f"of {count(len(groups), 'group')} {verb} validation rows beyond noise, {worst.group} most.",
        "groups",
        "look",
    )


def _memorized(overview: Overview, counts: Counts) -> Finding:
    rows = max(overview.rows.get("train", 1), 1)
    sentence = (
        f"of the training rows ({count(counts.memorized)} of {count(rows)}) are known better for having been seen, by "
        "more than noise."
    )
    if counts.memorized > _MOST_ROWS * rows:
        words = dict(overview.facts).get("model", "").startswith(NGRAMS)
        why = " (here every word has weights of its own, and few other texts share the rare ones)" if words else ""
        sentence += (
            f" That so many are is usual for a network with many weights{why} and no fault; learned by heart in "
            "earnest are the first of the list."
        )
    return Finding(percent(counts.memorized / rows, 0), sentence, "memorized")


def _duplicates(counts: Counts, *, grouped: bool) -> Finding | None:
    if not counts.duplicates:
        return None
    clash, both = counts.contradictions, counts.across_splits
    sentence = f"{'set' if counts.duplicates == 1 else 'sets'} of rows that say nearly the same"
    sentence += f"; {clash} of them with labels that contradict each other" if clash else ", with the same labels"
    sentence += f"; {both} both in training and among the rows to test on." if both else "."
    if both:
        together = "" if grouped else ", or give a column by which they stay together (--group)"
        sentence += f" These make the accuracy look better than it is: remove one side of each{together}."
    return Finding(count(counts.duplicates), sentence, "duplicates", "look" if clash or both else "plain")


def _trusted(trust: Trust | None, leaks: Leaks | None) -> Finding | None:
    if trust is None:
        return None
    mean = next((kind for kind in trust.of if kind.scores == MEAN), None)
    if mean is None or mean.signal is None:
        return None
    leak = (
        "" if leaks is None else f" Leaks into what must not be known: {percent(leaks.gradient_share)} of the gradient."
    )
    sentence = f"of the differences between mean influences are signal, the rest is noise.{leak}"
    good = leaks is None or leaks.gradient_share < 0.25
    return Finding(percent(mean.signal, 0), sentence, "trust", "plain" if good else "look")


def _called(row: ShownRow) -> str:
    return f"“{shortened(row.text, _QUOTED)}” ({row.name})" if row.text else row.name
