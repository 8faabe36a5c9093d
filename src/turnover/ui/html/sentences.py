"""Findings as sentences and headlines, for report, terminal and live page: the same quantity has the same words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turnover.applications import (
    LIKELY_ERROR,
    Cleansing,
    Findings,
    HarmfulExamples,
    LabelErrors,
    MemorizedExamples,
    NearDuplicates,
    NoiseFrom,
    ScoreNoise,
    Trust,
)
from turnover.runs import Run
from turnover.scores import Scores
from turnover.ui.words import count, digits, label_words, percent, shortened

METHODS = {"curvature": "influence functions (K-FAC curvature)", "tod": "turn-over dropout"}
"""Estimators in the words of a reader."""

DISAGREE = "replicas disagree"
"""What stands at an example that is not significant: the next one may be."""

NONE_SIGNIFICANT = "None is significant: the replicas disagree, or are too few."
"""What stands above a list without significant examples."""

_OTHER_ROWS = "Only retraining tells whether other rows would be predicted better without them."
_FEWEST_REPLICAS = 3
_QUOTED = 70
_MOSTLY_SIGNAL = 0.5
# From this share on, a reader may take what is usual for an alarm.
_MOST_ROWS, _LARGE_LEAK = 0.5, 0.25
_RULES: dict[NoiseFrom, str] = {
    "replicas": "differs from 0 by more than the {replicas} disagree",
    "null_ids": "differs from the scores of null ids, which were never trained",
}


@dataclass(frozen=True)
class Headline:
    """A figure and a sentence about it."""

    figure: str
    sentence: str
    section: str  # id of the section that tells more
    tone: Literal["plain", "good", "look"] = "plain"


def nothing_learned(run: Run) -> str:
    """Return what to know before any list of a run is read; "": its network has learned something."""
    if not run.about.learned_nothing:
        return ""
    rows = count(sum(len(run.places(split)) for split in ("validation", "test")), "validation and test row")
    return (
        f"As far as {rows} can tell, the network has learned nothing: its predictions fit their labels no better than "
        f"shuffled labels (p-value {run.about.results['chance_p_value']:.2g}). So its lists of training rows mean "
        "nothing. Train longer (--epochs) or with more units (--hidden), and check that the inputs say something about "
        "the labels."
    )


# Headlines


def headlines_of(
    findings: Findings, rows: Mapping[int, Any], *, hashed: bool = False, warning: str = ""
) -> tuple[Headline, ...]:
    """Return the headlines of a report; `rows` as they are shown, by number."""
    headlines = [
        _fit_headline(findings, warning),
        label_errors_headline(findings.likely_label_errors, rows),
        _groups_headline(findings) if findings.groups.items else _harmful_headline(findings, rows),
        memorized_headline(findings.memorized, hashed=hashed),
        duplicates_headline(findings.near_duplicates, grouped=bool(findings.groups.items)),
        _signal_headline(findings),
    ]
    return tuple(headline for headline in headlines if headline is not None)


def _fit_headline(findings: Findings, warning: str) -> Headline | None:
    errors, baseline, fit = findings.errors, findings.majority_class_baseline, findings.fit
    rows = count(errors.unseen_rows, "validation and test row")
    if fit is not None:
        figure, section, better = digits(fit.rmse), "errors", fit.rmse < fit.baseline_rmse
        explained = "" if fit.r2 is None else f"; R² {fit.r2:.2f}".replace("-", "−")
        sentence = (
            f"RMSE on {rows} (predicting the mean of the training labels: {digits(fit.baseline_rmse)}); mean absolute "
            f"error {digits(fit.mae)}{explained}."
        )
    elif errors.accuracy is not None and baseline is not None:
        figure, section, better = percent(errors.accuracy), "classes", errors.accuracy > baseline
        sentence = f"accuracy on {rows} (majority-class baseline {percent(baseline)})."
    else:
        return None
    tone = "plain" if better and not warning else "look"
    return Headline(figure, f"{sentence} {warning}".strip(), section, tone)


def label_errors_headline(errors: LabelErrors, rows: Mapping[int, Any]) -> Headline:
    """Return the headline about likely label errors."""
    far = f"over {LIKELY_ERROR:g} times the usual distance"
    if not errors.items:
        why = "no label is more probably wrong than right"
        if errors.numeric:
            why = f"none lies {far} from its held-out prediction"
        elif errors.expected_errors is None:
            why = "every held-out prediction agrees with its label"
        return Headline("0", f"likely label errors: {why}.", "label-errors", "good")
    first = errors.items[0]
    sure = "" if errors.numeric else f"; {count(errors.confident)} confident"
    against = f"held-out prediction {label_words(first.held_out_label)}"
    if first.held_out_label == first.label:
        against = "held-out prediction the same, but predicted otherwise during training"
    sentence = (
        f"likely label {'error' if errors.count == 1 else 'errors'} ({percent(errors.count / errors.rows)} of the "
        f"training rows{sure}). {'It' if errors.count == 1 else 'The likeliest'} is {_called(rows[first.row])}: "
        f"labeled {label_words(first.label)}, {against}{f' ({far})' if errors.numeric else ''}."
    )
    return Headline(count(errors.count), f"{sentence} {label_errors_expected(errors)}".strip(), "label-errors", "look")


def _harmful_headline(findings: Findings, rows: Mapping[int, Any]) -> Headline | None:
    harmful = findings.harmful
    if not harmful.items or harmful.noise_from is None:
        return None
    if not harmful.count:
        return Headline("0", "training rows are significantly harmful to validation rows.", "harmful")
    shown = [one for one in harmful.items if one.significant]
    wrong = sum(one.likely_label_error for one in shown)
    also = f" Likely label errors among the first {len(shown)}: {wrong}." if wrong else ""
    sentence = (
        f"training {'row is' if harmful.count == 1 else 'rows are'} significantly harmful to validation rows (the "
        f"replicas agree), most of all {_called(rows[harmful.items[0].row])}.{also}"
    )
    return Headline(count(harmful.count), sentence, "harmful", "look")


def _groups_headline(findings: Findings) -> Headline | None:
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


def _signal_headline(findings: Findings) -> Headline | None:
    noise = findings.trust.noise_of("mean_influence")
    if noise is None or noise.signal is None:
        return None
    leaked = findings.leaks.gradient_share
    sentence = (
        f"of the variance of mean influence is common to all replicas; the rest is noise. {percent(leaked)} of a "
        "training row's squared gradient leaks into its flipped subnetwork."
    )
    return Headline(percent(noise.signal, 0), sentence, "trust", "plain" if leaked < _LARGE_LEAK else "look")


def _called(row: Any) -> str:
    return f"“{shortened(row.text, _QUOTED)}” ({row.name})" if row.text else row.name


# What scores are


def method_words(scored: Any) -> str:
    """Return how a score of an explanation is computed, as a sentence."""
    return (
        "It is computed by influence functions: the gradient of the training row times the inverse K-FAC curvature of "
        f"the network times the gradient of the prediction, averaged over {count(scored.replicas, 'replica')}."
    )


def score_meaning(explained: Any) -> str:
    """Return what a score of an explanation measures, as a part of a sentence after "Score: "."""
    what = "raises the predicted number" if explained.numeric else "lowers the loss at the predicted label"
    if explained.standardized:
        return (
            f"how much the example {what}; 1 is the usual (root-mean-square) effect of a training row on this "
            "prediction"
        )
    unit = "in standard deviations of the training labels" if explained.numeric else f"in units of {explained.unit}"
    return f"how much the example {what}, {unit}"


def explanation_words(explained: Any, things: str) -> str:
    """Return what the scores of explanations are, and what their significance means; of "rows" or "groups"."""
    if explained.noise_from is None:
        return f"Score: {score_meaning(explained)}. {no_interval_words(explained.replicas)}"
    return (
        f"Score ± standard error: {score_meaning(explained)}. It is significant if it "
        f"{_rule(explained.noise_from, explained.replicas)}, corrected for all training {things}."
    )


def unit_head(mean_influence: HarmfulExamples) -> str:
    """Return the unit of mean influence for the head of a column."""
    return " (RMS = 1)" if mean_influence.standardized else f" ({mean_influence.unit})"


def unit_sentence(mean_influence: HarmfulExamples | Scores) -> str:
    """Return the unit of mean influence, as a part of a sentence."""
    if not mean_influence.standardized:
        return f"in units of {mean_influence.unit}"
    return (
        "in units of the root-mean-square effect of a training row on the loss of each validation row, so that all "
        "validation rows count equally"
    )


def score_name(noise: ScoreNoise, *, grouped: bool = False) -> str:
    """Return the name of a kind of score."""
    names = {"self_influence": "self-influence", "mean_influence": "mean influence"}
    return names.get(noise.scores) or f"{'groups' if grouped else 'rows'} behind an error"


# The noise of scores, and what is significant


def no_interval_words(replicas: int, names: Sequence[str] = ("scores",)) -> str:
    """Return why scores, of these names, have no standard errors, and what to do about it."""
    named = " and ".join(names)
    return (
        f"{named[:1].upper()}{named[1:]} of {count(replicas, 'replica')} have no interval: nothing tells how far their "
        f"order is reliable. Train with --replicas {_FEWEST_REPLICAS} or more."
    )


def _rule(noise_from: NoiseFrom, replicas: int) -> str:
    """Return when a score is significant, as a part of a sentence after "if it"."""
    return _RULES[noise_from].format(replicas=count(replicas, "replica"))


def reading_words(findings: Findings) -> str:
    """Return what ± and significance mean, by what tells the noise of the scores."""
    trust = findings.trust
    names: dict[NoiseFrom, list[str]] = {}
    for one in trust.scores:
        names.setdefault(one.noise_from, []).append(score_name(one))
    without = names.pop(None, None)
    words = "± is one standard error."
    if names:
        level = percent(trust.level, 0)
        # The rule of most scores comes first; those with another are named.
        main, *others = sorted(names, key=lambda how: how != "replicas")
        beside = "".join(f" ({' and '.join(names[how])}: if it {_rule(how, trust.replicas)})" for how in others)
        which = "A score" if without is None else f"{' and '.join(names[main]).capitalize()}"
        words += (
            f" {which} is significant (FDR {level}) if it {_rule(main, trust.replicas)}{beside}; at most {level} of "
            "the significant ones are expected to be noise."
        )
    return words if without is None else f"{words} {no_interval_words(trust.replicas, without)}"


def label_errors_expected(errors: LabelErrors) -> str:
    """Return how many likely label errors are expected to be wrong, or right; nothing where that is not known.

    The record of the training says how many are wrong. Without one: the flipped subnetwork errs, too, and it
    disagrees with some validation and test labels. It may err more on training rows, so that this is a least number.
    """
    if errors.expected_errors is not None and errors.expected_errors_range is not None and errors.count:
        low, high = errors.expected_errors_range
        if errors.count == 1:
            return "Expect it to be a wrong label." if low else "It may be a wrong label, or a hard row."
        return (
            f"Expect about {count(errors.expected_errors)} of them to be wrong labels (90 % interval: {count(low)} to "
            f"{count(high)})."
        )
    if errors.expected is None or not errors.count:
        return ""
    share = percent(errors.unseen_disagreements / errors.unseen_rows)
    how = f"are as far off for {share}" if errors.numeric else f"also disagree with {share}"
    words = (
        f"Held-out predictions {how} of validation and test labels, which would be {count(errors.expected)} of the "
        "training rows"
    )
    if errors.count <= errors.expected:
        return f"{words}: errors of the network may explain {'this' if errors.count == 1 else 'all of these'}."
    if not errors.expected:
        return f"{words}."
    return f"{words}: expect about that many of the {count(errors.count)} to have correct labels."


def harmful_words(findings: Findings) -> str:
    """Return how many of the harmful rows are significant."""
    harmful = findings.harmful.count
    if findings.harmful.noise_from is None:
        return no_interval_words(findings.trust.replicas)
    if not harmful:
        return "None is significant, so the order is a hint at most."
    verb, harms = ("is", "it harms") if harmful == 1 else ("are", "they harm")
    return f"{count(harmful)} {verb} significant: the replicas agree that {harms} these validation rows. {_OTHER_ROWS}"


def significantly_harmful(cleansing: Cleansing, noun: str) -> str:
    """Return how many instances are significantly harmful, as a sentence."""
    if cleansing.noise_from is None:
        return no_interval_words(cleansing.mean.replicas)
    words = (
        f"Significantly harmful (FDR {percent(cleansing.level, 0)}): {count(cleansing.significant, noun)} of "
        f"{count(cleansing.instances)}"
    )
    return f"{words}; the replicas agree on them. {_OTHER_ROWS}" if cleansing.significant else f"{words}."


def significance_words(findings: Findings) -> str:
    """Return where standard errors come from, and what significance adds; "" without them."""
    trust, scored = findings.trust, findings.harmful.scored
    if findings.harmful.noise_from is None:
        return ""
    return (
        f"± is one standard error of the score, from how far the {count(trust.replicas, 'replica')} disagree. A score "
        "is significant if it differs from 0 by more than that (t-test over replicas, corrected for all "
        f"{count(scored)} by Benjamini and Hochberg, FDR {percent(trust.level, 0)}). So a small score may be "
        "significant, while a larger one on which the replicas disagree is not."
    )


def noise_words(noise: ScoreNoise, findings: Findings) -> str:
    """Return what follows from the noise of a kind of score."""
    errors, thing = findings.errors, "group" if findings.groups.items else "row"
    if noise.scores == "self_influence":
        if not noise.significant:
            return "Nothing is significant: training on one of the rows hardly improves its own prediction."
        share = percent(noise.significant / noise.count, 0)
        return f"{share} of the rows are significant; their order is mostly signal."
    if noise.noise_from is None:
        return no_interval_words(findings.trust.replicas)
    if noise.scores == "explanations" and not errors.with_significant:
        return f"No {thing} behind these errors is significant: read the lists as examples, not as evidence."
    if noise.scores == "explanations":
        leading = sorted(one.significant_supporting for one in errors)
        return (
            f"{errors.with_significant} of {count(len(errors), 'error')} have at least one significant {thing}; the "
            f"median error has {count(leading[len(leading) // 2], f'significant {thing}')}. On the others the replicas "
            "disagree."
        )
    if noise.significant:
        verb = "is" if noise.significant == 1 else "are"
        sides = f"{count(findings.harmful.count)} harmful, {count(findings.harmful.helpful)} helpful"
        return (
            f"{count(noise.significant, thing)} of {count(noise.count)} {verb} significant ({sides}): on the sign of "
            "these the replicas agree."
        )
    if (noise.signal or 0.0) > _MOSTLY_SIGNAL:
        return (
            f"No single {thing} of {count(noise.count)} is significant, yet the order as a whole is mostly signal: the "
            "head of the list is worth a look."
        )
    return f"No {thing} is significant. The order is a hint at best."


def trust_verdict(trust: Trust) -> str:
    """Return how much of the scores is signal, and where standard errors come from."""
    known = [noise for noise in trust.scores if noise.signal is not None]
    parts = [
        f"{score_name(noise)}{' is' if noise is known[0] else ''} {percent(noise.signal or 0.0, 0)} signal"
        for noise in known
    ]
    without = [score_name(noise) for noise in trust.scores if noise.noise_from is None]
    if trust.replicas >= _FEWEST_REPLICAS:
        errors = f"Standard errors come from {trust.replicas} replicas, trained side by side."
    elif without:
        errors = no_interval_words(trust.replicas, without)
    else:
        errors = "Standard errors come from null ids; from three replicas on (--replicas) they come from the scores."
    first = ", ".join(parts)
    return f"{first[:1].upper()}{first[1:]}; the rest is noise. {errors}" if first else errors


def compared_words(duplicates: NearDuplicates) -> str:
    """Return which rows were compared to find near-duplicates, and how."""
    pairs = "pairs that hashing finds, which may miss some" if duplicates.hashed else "all pairs"
    if duplicates.threshold == 1:
        pairs = "rows that are the same"
    return f"Compared: {count(duplicates.rows, 'row')}, {pairs}, from a similarity of {duplicates.threshold:g} on."
