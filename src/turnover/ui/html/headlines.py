"""The headlines of a report: a figure, a sentence about it, and where to read more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turnover.applications import (
    LIKELY_ERROR,
    Findings,
    LabelError,
    LabelErrors,
    MemorizedExamples,
    NearDuplicates,
    NumberFit,
)
from turnover.ui.words import count, digits, label_words, percent, shortened

from .sentences import label_errors_expected
from .shown_rows import ShownRow

_QUOTED = 70
# From this share on, a reader may take what is usual for an alarm.
_MOST_ROWS = 0.5
_LARGE_LEAK = 0.25
_NONE_WRONG = "no label is more probably wrong than right"
_DISTANCE = f" (over {LIKELY_ERROR:g} times the usual distance)"
_NONE_FAR = f"none lies over {LIKELY_ERROR:g} times the usual distance from its held-out prediction"


@dataclass(frozen=True)
class Headline:
    """A figure and a sentence about it."""

    figure: str
    sentence: str
    section: str  # id of the section that tells more
    tone: Literal["plain", "good", "look"] = "plain"


def headlines_of_rows(
    findings: Findings, rows: Sequence[ShownRow], *, hashed: bool = False, nothing_learned: str = ""
) -> tuple[Headline, ...]:
    """Return the headlines about a classifier, or about a network that predicts numbers."""
    named = {row.row: row for row in rows}
    fit = _accuracy(findings) if findings.fit is None else _fit(findings.fit)
    if nothing_learned and fit is not None:
        fit = replace(fit, sentence=f"{fit.sentence} {nothing_learned}", tone="look")
    headlines = [
        fit,
        label_errors_headline(findings.likely_label_errors, named),
        _groups(findings) if findings.groups.items else _harmful(findings, named),
        memorized_headline(findings.memorized, hashed=hashed),
        duplicates_headline(findings.near_duplicates, grouped=bool(findings.groups.items)),
        _signal(findings),
    ]
    return tuple(headline for headline in headlines if headline is not None)


def _accuracy(findings: Findings) -> Headline | None:
    errors, baseline = findings.errors, findings.majority_class_baseline
    if errors.accuracy is None or baseline is None:
        return None
    rows = count(errors.unseen_rows, "validation and test row")
    sentence = f"accuracy on {rows} (majority-class baseline {percent(baseline)})."
    return Headline(percent(errors.accuracy), sentence, "classes", "plain" if errors.accuracy > baseline else "look")


def _fit(fit: NumberFit) -> Headline:
    explained = "" if fit.r2 is None else f"; R² {fit.r2:.2f}"
    sentence = (
        f"RMSE on {count(fit.rows, 'validation and test row')} (predicting the mean of the training labels: "
        f"{digits(fit.baseline_rmse)}); mean absolute error {digits(fit.mae)}{explained}."
    )
    tone = "plain" if fit.rmse < fit.baseline_rmse else "look"
    return Headline(digits(fit.rmse), sentence.replace("-", "−"), "errors", tone)


def label_errors_headline(errors: LabelErrors, rows: Mapping[int, ShownRow]) -> Headline:
    """Return the headline about likely label errors."""
    if not errors.items:
        why = "every held-out prediction agrees with its label" if errors.expected_errors is None else _NONE_WRONG
        why = why if not errors.numeric else _NONE_FAR
        return Headline("0", f"likely label errors: {why}.", "label-errors", "good")
    first = errors.items[0]
    sure = "" if errors.numeric else f"; {count(errors.confident)} confident"
    sentence = (
        f"likely label {'error' if errors.count == 1 else 'errors'} ({percent(errors.count / errors.rows)} of the "
        f"training rows{sure}). {'It' if errors.count == 1 else 'The likeliest'} is {_called(rows[first.row])}: "
        f"labeled {label_words(first.label)}, {_other_label(first)}{_DISTANCE if errors.numeric else ''}."
    )
    return Headline(count(errors.count), f"{sentence} {label_errors_expected(errors)}".strip(), "label-errors", "look")


def _other_label(error: LabelError) -> str:
    """Return what speaks against a label; a label may be a likely error though its held-out prediction agrees."""
    if error.held_out_label == error.label:
        return "held-out prediction the same, but predicted otherwise during training"
    return f"held-out prediction {label_words(error.held_out_label)}"


def _harmful(findings: Findings, rows: Mapping[int, ShownRow]) -> Headline | None:
    harmful = findings.harmful
    if not harmful.items:
        return None
    if harmful.noise_from is None:
        return None
    if not harmful.count:
        return Headline("0", "training rows are significantly harmful to validation rows.", "harmful")
    verb = "row is" if harmful.count == 1 else "rows are"
    shown = [one for one in harmful.items if one.significant]
    wrong = sum(one.likely_label_error for one in shown)
    by_replicas = " (the replicas agree)" if harmful.noise_from == "replicas" else ""
    first = _called(rows[harmful.items[0].row])
    sentence = f"training {verb} significantly harmful to validation rows{by_replicas}, most of all {first}"
    of_which = "them" if len(shown) == harmful.count else f"the first {len(shown)}"
    which = "all of them" if wrong == harmful.count > 1 else "it" if harmful.count == 1 else f"{wrong} of {of_which}"
    sentence += f"; {which} {'is' if wrong == 1 else 'are'} also among the likely label errors." if wrong else "."
    return Headline(count(harmful.count), sentence, "harmful", "look")


def _groups(findings: Findings) -> Headline | None:
    groups = findings.groups.items
    if findings.groups.noise_from is None:
        return None
    harmful = [one for one in groups if one.significant and one.score < 0]
    of_groups = f"of {count(len(groups), 'group')}"
    if not harmful:
        return Headline("0", f"{of_groups} are significantly harmful to validation rows.", "groups", "good")
    verb = "is" if len(harmful) == 1 else "are"
    sentence = f"{of_groups} {verb} significantly harmful to validation rows, most of all {groups[0].group}."
    return Headline(count(len(harmful)), sentence, "groups", "look")


def memorized_headline(memorized: MemorizedExamples, *, hashed: bool = False) -> Headline:
    """Return the headline about memorized rows."""
    sentence = (
        f"of the training rows ({count(memorized.count)} of {count(memorized.rows)}) are memorized: their "
        f"self-influence is positive and significant (FDR {percent(memorized.level, 0)})."
    )
    if memorized.share > _MOST_ROWS:
        why = " (here every word has weights of its own, and few other texts share the rare ones)" if hashed else ""
        sentence += (
            f" That is usual for a network with many weights{why}, and not a fault; what matters is the top of the "
            "list."
        )
    return Headline(percent(memorized.share, 0), sentence, "memorized")


def duplicates_headline(duplicates: NearDuplicates, *, grouped: bool) -> Headline | None:
    """Return the headline about near-duplicates; None: there are none."""
    if not duplicates.count:
        return None
    clash, across = duplicates.contradictions, duplicates.across_splits
    sentence = f"{'group' if duplicates.count == 1 else 'groups'} of near-duplicates"
    sentence += f"; {clash} with labels that disagree" if clash else ", whose labels agree"
    sentence += f"; {across} with both training rows and validation or test rows." if across else "."
    if across:
        together = "" if grouped else ", or give a column by which they stay together (--group)"
        sentence += f" These make results look better: remove one side of each{together}."
    return Headline(count(duplicates.count), sentence, "duplicates", "look" if clash or across else "plain")


def _signal(findings: Findings) -> Headline | None:
    noise = findings.trust.noise_of("mean_influence")
    if noise is None or noise.signal is None:
        return None
    leaked = findings.leaks.gradient_share
    rest = "is common to all replicas" if noise.noise_from == "replicas" else "is signal"
    sentence = (
        f"of the variance of mean influence {rest}; the rest is noise. {percent(leaked)} of a training row's squared "
        "gradient leaks into its flipped subnetwork."
    )
    return Headline(percent(noise.signal, 0), sentence, "trust", "plain" if leaked < _LARGE_LEAK else "look")


def _called(row: ShownRow) -> str:
    return f"“{shortened(row.text, _QUOTED)}” ({row.name})" if row.text else row.name
