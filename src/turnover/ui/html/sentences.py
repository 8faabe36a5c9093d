"""Findings as sentences, shared by the report and the terminal: the same quantity has the same words everywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from turnover.applications import (
    LIKELY_ERROR,
    Cleansing,
    Findings,
    FrequencyBand,
    HarmfulExamples,
    LabelErrors,
    LanguageFindings,
    MemorizedExamples,
    MemorizedWords,
    NearDuplicates,
    NoiseFrom,
    NumberFit,
    ScoreNoise,
    SpanExplanation,
    Trust,
)
from turnover.scores import Scores
from turnover.ui.words import count, digits, label_words, percent, shortened

from .shown_rows import ShownRow

_QUOTED = 70
# From this share on, a reader may take what is usual for an alarm.
_MOST_ROWS = 0.5
_MOSTLY_SIGNAL = 0.5
_LARGE_LEAK = 0.25
_FEWEST_REPLICAS = 3

SINGLE_WORD_SCORES = (
    "Self-influence compares the prediction of a word by its kept subnetwork with that by its flipped subnetwork; one "
    "such score is clear. Which other places of the text support a prediction is a far smaller effect: ask for the "
    "first few places only, and mind their standard errors."
)
"""How much single scores of a language model say."""


@dataclass(frozen=True)
class Headline:
    """A figure and a sentence about it."""

    figure: str
    sentence: str
    section: str  # id of the section that tells more
    tone: Literal["plain", "good", "look"] = "plain"


def headlines_of_rows(findings: Findings, rows: Sequence[ShownRow], *, hashed: bool = False) -> tuple[Headline, ...]:
    """Return the headlines about a classifier, or about a network that predicts numbers."""
    named = {row.row: row for row in rows}
    headlines = [
        _accuracy(findings) if findings.fit is None else _fit(findings.fit),
        label_errors_headline(findings.likely_label_errors, named),
        _groups(findings) if findings.groups.items else _harmful(findings, named),
        memorized_headline(findings.memorized, hashed=hashed),
        duplicates_headline(findings.near_duplicates, grouped=bool(findings.groups.items)),
        _signal(findings),
    ]
    return tuple(headline for headline in headlines if headline is not None)


def language_headlines(findings: LanguageFindings, results: Mapping[str, float]) -> tuple[Headline, ...]:
    """Return the headlines about a language model."""
    bands = findings.frequencies
    headlines = [_perplexity(results), memorized_headline(findings.memorized)]
    if len(bands) > 1 and bands[0].mean > bands[-1].mean > 0:
        ratio = digits(bands[0].mean / bands[-1].mean)
        sentence = (
            f"Words that occur {_times(bands[0])} have, on average, {ratio} times the self-influence of words that "
            f"occur {_times(bands[-1])}."
        )
        headlines.append(Headline(f"{ratio} ×", sentence, "memorized"))
    return tuple(headline for headline in headlines if headline is not None)


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


class ScoredList(Protocol):
    """Scores of examples behind predictions, as terminal, report and live page have them."""

    @property
    def unit(self) -> str:
        """Return what scores are differences of."""
        ...

    @property
    def standardized(self) -> bool:
        """Tell whether scores are in units of the usual effect of a training row on the prediction."""
        ...

    @property
    def method(self) -> str:
        """Return the estimator that made them."""
        ...

    @property
    def noise_from(self) -> NoiseFrom:
        """Return what significance is judged by."""
        ...

    @property
    def replicas(self) -> int:
        """Return over how many networks they are averaged."""
        ...

    @property
    def numeric(self) -> bool:
        """Tell whether predictions are numbers."""
        ...


METHODS = {
    "curvature": "influence functions (K-FAC curvature)",
    "ridge": "turn-over dropout, denoised",
    "tod": "turn-over dropout",
}
"""Estimators in the words of a reader."""

NOISE_BEGINS = "From here on the order is noise."
"""What stands between the significant examples of a list and the others, where null ids tell noise."""

DISAGREE = "replicas disagree"
"""What stands at an example that is not significant, where replicas tell noise: the next one may be."""

NONE_SIGNIFICANT = {
    "null_ids": "None is significant: the order is noise.",
    "replicas": "None is significant: the replicas disagree.",
}
"""What stands above a list without significant examples, by what tells noise."""


OTHER_ROWS = "Only retraining tells whether other rows would be predicted better without them."
"""What agreement of replicas about harmful rows leaves open."""


def no_interval_words(replicas: int, names: Sequence[str] = ("scores",)) -> str:
    """Return why scores, of these names, have no standard errors, and what to do about it."""
    named = " and ".join(names)
    return (
        f"{named[:1].upper()}{named[1:]} of {count(replicas, 'replica')} have no interval: nothing tells how far their "
        f"order is reliable. Train with --replicas {_FEWEST_REPLICAS} or more."
    )


def significant_words(noise_from: NoiseFrom, replicas: int) -> str:
    """Return when a score is significant, as a part of a sentence after "if it"."""
    if noise_from == "replicas":
        return f"differs from 0 by more than the {count(replicas, 'replica')} disagree"
    return "differs from the scores of null ids, which were never trained"


def reading_words(findings: Findings | LanguageFindings) -> str:
    """Return what ± and significance mean, by what tells the noise of the scores."""
    trust = findings.trust
    names: dict[NoiseFrom, list[str]] = {}
    for one in trust.scores:
        names.setdefault(one.noise_from, []).append(score_name(one))
    ways: tuple[NoiseFrom, ...] = ("replicas", "null_ids")
    rules: dict[NoiseFrom, str] = {how: significant_words(how, trust.replicas) for how in ways if how in names}
    words = "± is one standard error."
    if rules:
        level = percent(trust.level, 0)
        # The rule of most scores comes first; those with another are named.
        (main, rule), *others = rules.items()
        beside = "".join(f" ({' and '.join(names[how])}: if it {other})" for how, other in others)
        which = "A score" if None not in names else f"{' and '.join(names[main]).capitalize()}"
        words += (
            f" {which} is significant (FDR {level}) if it {rule}{beside}; at most {level} of the significant ones are "
            "expected to be noise."
        )
    return words if None not in names else f"{words} {no_interval_words(trust.replicas, names[None])}"


def method_words(scored: ScoredList) -> str:
    """Return how a score of an explanation is computed, as a sentence."""
    over = f"averaged over {count(scored.replicas, 'replica')}"
    if scored.method == "curvature":
        return (
            "It is computed by influence functions: the gradient of the training row times the inverse K-FAC curvature "
            f"of the network times the gradient of the prediction, {over}."
        )
    denoised = ", and denoised" if scored.method == "ridge" else ""
    if scored.numeric:
        return (
            "It is the prediction of the row’s kept subnetwork minus that of its flipped subnetwork, which was not "
            f"trained on it, {over}{denoised}."
        )
    return (
        f"It is the {scored.unit} at the predicted label in the row’s flipped subnetwork, which was not trained on it, "
        f"minus the {scored.unit} in its kept subnetwork, {over}{denoised}."
    )


def score_meaning(explained: ScoredList) -> str:
    """Return what a score of an explanation measures, as a part of a sentence after "Score: "."""
    what = "lowers the loss at the predicted label"
    if explained.numeric:
        what = "raises the predicted number"
    if explained.standardized:
        return (
            f"how much the example {what}; 1 is the usual (root-mean-square) effect of a training row on this "
            "prediction"
        )
    if explained.numeric:
        return f"how much the example {what}, in standard deviations of the training labels"
    return f"how much the example lowers the {explained.unit} at the predicted label"


def explanation_words(explained: ScoredList, things: str) -> str:
    """Return what the scores of explanations are, and what their significance means; of "rows" or "groups"."""
    error = "" if explained.noise_from is None else " ± standard error"
    words = f"Score{error}: {score_meaning(explained)}."
    if not explained.standardized and not explained.numeric:
        words += " The more confident a prediction, the smaller are its scores."
    if explained.noise_from is None:
        return f"{words} {no_interval_words(explained.replicas)}"
    if explained.noise_from == "replicas":
        rule = significant_words("replicas", explained.replicas)
        return f"{words} It is significant if it {rule}, corrected for all training {things}."
    return (
        f"{words} Significance is corrected for all training {things}: the largest of so many scores lie several "
        "standard errors from 0 by chance alone."
    )


def span_words(explained: SpanExplanation) -> str:
    """Return what scores of training positions on a span are, and how far to trust them."""
    words = (
        "Score ± standard error: how much training on this position lowers the mean loss of the span's words, so that "
        f"their probability rises ({METHODS[explained.method]}, {count(explained.replicas, 'model')}). Words around it "
        "are colored by their own scores, from the 98th percentile of the training text (no color) up."
    )
    if not explained.significant:
        return f"{words} No position is significant: read the list as examples, not as evidence."
    verb = "is" if explained.significant == 1 else "are"
    return f"{words} {count(explained.significant)} of the raising positions listed {verb} significant (FDR 5 %)."


def harmful_words(findings: Findings) -> str:
    """Return how many of the harmful rows are significant."""
    harmful, noise_from = findings.harmful.count, findings.harmful.noise_from
    if noise_from is None:
        return no_interval_words(findings.trust.replicas)
    if not harmful:
        return "None is significant, so the order is a hint at most."
    verb = "is" if harmful == 1 else "are"
    if noise_from == "replicas":
        harms = "it harms" if harmful == 1 else "they harm"
        return (
            f"{count(harmful)} {verb} significant: the replicas agree that {harms} these validation rows. {OTHER_ROWS}"
        )
    return f"The first {count(harmful)} {verb} significant; below, the order is mostly noise."


def significantly_harmful(cleansing: Cleansing, noun: str) -> str:
    """Return how many instances are significantly harmful, as a sentence."""
    if cleansing.noise_from is None:
        return no_interval_words(cleansing.mean.replicas)
    words = (
        f"Significantly harmful (FDR {percent(cleansing.level, 0)}): {count(cleansing.significant, noun)} of "
        f"{count(cleansing.instances)}"
    )
    if cleansing.noise_from == "null_ids" or not cleansing.significant:
        return f"{words}."
    return f"{words}; the replicas agree on them. {OTHER_ROWS}"


def unit_head(findings: Findings) -> str:
    """Return the unit of mean influence for the head of a column."""
    return " (RMS = 1)" if findings.harmful.standardized else f" ({findings.harmful.unit})"


def unit_sentence(mean_influence: HarmfulExamples | Scores) -> str:
    """Return the unit of mean influence, as a part of a sentence."""
    if not mean_influence.standardized:
        return f"in units of {mean_influence.unit}"
    return (
        "in units of the root-mean-square effect of a training row on the loss of each validation row, so that all "
        "validation rows count equally"
    )


def significance_words(findings: Findings) -> str:
    """Return where standard errors and p-values come from, and why they may seem to disagree; "" without both."""
    trust, scored = findings.trust, findings.harmful.scored
    if findings.harmful.noise_from is None:
        return ""
    if findings.harmful.noise_from == "replicas":
        return (
            f"± is one standard error of the score, from how far the {count(trust.replicas, 'replica')} disagree. A "
            "score is significant if it differs from 0 by more than that (t-test over replicas, corrected for all "
            f"{count(scored)} by Benjamini and Hochberg, FDR {percent(trust.level, 0)}). So a small score may be "
            "significant, while a larger one on which the replicas disagree is not."
        )
    if trust.replicas >= _FEWEST_REPLICAS:
        source = (
            f"± is one standard error of the score, from how far the {count(trust.replicas, 'replica')} disagree. The "
            "p-value answers another question, whether there is any influence at all: how often a null id scores as "
            "far out. So a score may be significant although its size is uncertain."
        )
    else:
        source = "± and the p-value both come from null ids: how far out they score by chance."
    limit = digits(trust.level / max(scored, 1))
    return (
        f"{source} Significance is judged among all {count(scored)}: the smallest p-value must lie below "
        f"{digits(trust.level)} / {count(scored)} = {limit}, the second smallest below twice that, and so on, so that "
        "of two small p-values one may be significant and the next not."
    )


def score_name(noise: ScoreNoise, *, grouped: bool = False) -> str:
    """Return the name of a kind of score."""
    names = {"self_influence": "self-influence", "mean_influence": "mean influence"}
    return names.get(noise.scores) or f"{'groups' if grouped else 'rows'} behind an error"


def self_influence_words(noise: ScoreNoise, things: str) -> str:
    """Return what follows from the noise of self-influence, of "rows" or "words"."""
    if not noise.significant:
        return f"Nothing is significant: training on one of the {things} hardly improves its own prediction."
    return (
        f"{percent(noise.significant / noise.count, 0)} of the {things} are significant; their order is mostly signal."
    )


def noise_words(noise: ScoreNoise, findings: Findings) -> str:
    """Return what follows from the noise of a kind of score."""
    if noise.scores == "self_influence":
        return self_influence_words(noise, "rows")
    thing = "group" if findings.groups.items else "row"
    if noise.scores == "explanations":
        return _explanation_noise(findings, thing)
    if noise.noise_from is None:
        return no_interval_words(findings.trust.replicas)
    if noise.noise_from == "replicas" and noise.significant:
        verb = "is" if noise.significant == 1 else "are"
        sides = f"{count(findings.harmful.count)} harmful, {count(findings.harmful.helpful)} helpful"
        return (
            f"{count(noise.significant, thing)} of {count(noise.count)} {verb} significant ({sides}): on the sign of "
            "these the replicas agree."
        )
    if not noise.significant and (noise.signal or 0.0) > _MOSTLY_SIGNAL:
        return (
            f"No single {thing} of {count(noise.count)} is significant, yet the order as a whole is mostly signal: the "
            "head of the list is worth a look."
        )
    if not noise.significant:
        return f"No {thing} is significant. The order is a hint at best."
    if noise.significant == 1:
        return f"One {thing} is significant; the order of the others is mostly noise."
    trusted = count(noise.significant, f"significant {thing}")
    return f"Trust the order of the {trusted}; that of the others is mostly noise."


def trust_verdict(trust: Trust, *, task: str) -> str:
    """Return how much of the scores is signal, and where standard errors come from."""
    known = [noise for noise in trust.scores if noise.signal is not None]
    parts = [
        f"{score_name(noise)}{' is' if noise is known[0] else ''} {percent(noise.signal or 0.0, 0)} signal"
        for noise in known
    ]
    how = "models, trained one after the other" if task == "lm" else "replicas, trained side by side"
    without = [score_name(noise) for noise in trust.scores if noise.noise_from is None]
    if trust.replicas >= _FEWEST_REPLICAS:
        errors = f"Standard errors come from {trust.replicas} {how}."
    elif without:
        errors = no_interval_words(trust.replicas, without)
    else:
        errors = "Standard errors come from null ids; from three replicas on (--replicas) they come from the scores."
    first = ", ".join(parts)
    return f"{first[:1].upper()}{first[1:]}; the rest is noise. {errors}" if first else errors


def single_score_words(findings: Findings) -> str:
    """Return how much single scores say: by rule of thumb, and by how many errors have a significant row."""
    expected, thing = findings.trust.expected, "group" if findings.groups.items else "row"
    words: list[str] = []
    if expected is not None:
        ratio = expected.signal_to_noise
        times = f"{digits(ratio)} times" if ratio >= 1 else f"{digits(ratio)} of"
        words.append(
            f"By rule of thumb the signal of one score is about {times} its noise with {expected.rows:,} rows, a "
            f"masked layer of {expected.width:,} units and {count(expected.replicas, 'replica')}"
            f"{_expected_meaning(ratio) if not findings.errors.items else ''}."
        )
    shown, significant = len(findings.errors), findings.errors.with_significant
    if shown and findings.errors.noise_from is None:
        words.append(no_interval_words(findings.errors.replicas))
    elif shown and not significant:
        words.append(
            f"No {thing} behind the {count(shown, 'error')} shown is significant: single scores say little here."
        )
    elif shown and 2 * significant < shown:
        words.append(
            f"Behind {significant} of the {count(shown, 'error')} shown a {thing} is significant, behind most of them "
            "none: single scores say something for a few predictions only."
        )
    elif shown:
        meaning = (
            "the replicas agree on the strongest"
            if findings.errors.noise_from == "replicas"
            else "the strongest are more than noise"
        )
        words.append(
            f"Behind {significant} of the {count(shown, 'error')} shown at least one {thing} is significant: there "
            f"{meaning}."
        )
    return " ".join(words)


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


_NONE_WRONG = "no label is more probably wrong than right"
_DISTANCE = f" (over {LIKELY_ERROR:g} times the usual distance)"
_NONE_FAR = f"none lies over {LIKELY_ERROR:g} times the usual distance from its held-out prediction"


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
        f"training rows{sure}), {_called(rows[first.row])} first: labeled {label_words(first.label)}, held-out "
        f"prediction {label_words(first.held_out_label)}{_DISTANCE if errors.numeric else ''}."
    )
    return Headline(count(errors.count), f"{sentence} {label_errors_expected(errors)}".strip(), "label-errors", "look")


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
    by_replicas = " (the replicas agree on it)" if harmful.noise_from == "replicas" else ""
    first = _called(rows[harmful.items[0].row])
    sentence = f"training {verb} significantly harmful to validation rows{by_replicas}, {first} most"
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
    sentence = f"{of_groups} {verb} significantly harmful to validation rows, {groups[0].group} most."
    return Headline(count(len(harmful)), sentence, "groups", "look")


def memorized_headline(memorized: MemorizedExamples | MemorizedWords, *, hashed: bool = False) -> Headline:
    """Return the headline about memorized rows, or words of a language model."""
    sentence = (
        f"of the training {memorized.noun}s ({count(memorized.count)} of {count(memorized.rows)}) are memorized: their "
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


def compared_words(duplicates: NearDuplicates) -> str:
    """Return which rows were compared to find near-duplicates, and how."""
    pairs = "pairs that hashing finds, which may miss some" if duplicates.hashed else "all pairs"
    if duplicates.threshold == 1:
        pairs = "rows that are the same"
    return f"Compared: {count(duplicates.rows, 'row')}, {pairs}, from a similarity of {duplicates.threshold:g} on."


def _signal(findings: Findings) -> Headline | None:
    noise = findings.trust.noise_of("mean_influence")
    if noise is None or noise.signal is None:
        return None
    leaked = findings.leaks.gradient_share
    rest = "is common to all replicas" if noise.noise_from == "replicas" else "is signal"
    sentence = (
        f"of the variance of mean influence {rest}, the rest is noise. Leaked into flipped subnetworks: "
        f"{percent(leaked)} of the gradient."
    )
    return Headline(percent(noise.signal, 0), sentence, "trust", "plain" if leaked < _LARGE_LEAK else "look")


def _perplexity(results: Mapping[str, float]) -> Headline | None:
    """Return how good the model is on every text that was not trained on; None: there is none."""
    known = {split: results.get(f"{split}_perplexity") for split in ("validation", "test")}
    known = {split: digits(value) for split, value in known.items() if value is not None}
    if not known:
        return None
    sentence = (
        f"{'perplexity' if len(known) == 1 else 'perplexities'} on {' and on '.join(known)} text: the model is as "
        "uncertain as if it chose among that many equally likely words."
    )
    return Headline(" and ".join(known.values()), sentence, "data-and-model")


def _explanation_noise(findings: Findings, thing: str) -> str:
    errors = findings.errors
    if errors.noise_from is None:
        return no_interval_words(errors.replicas)
    if not errors.with_significant:
        return f"No {thing} behind these errors is significant: read the lists as examples, not as evidence."
    leading, by_replicas = sorted(one.significant_supporting for one in errors), errors.noise_from == "replicas"
    return (
        f"For {errors.with_significant} of {count(len(errors), 'error')} at least one {thing} is significant, for the "
        f"median error {count(leading[len(leading) // 2], thing)}; "
        f"{'on the others the replicas disagree' if by_replicas else 'below the dashed line the order is noise'}."
    )


def _expected_meaning(ratio: float) -> str:
    if ratio >= 1:
        return ", so that single scores may be readable"
    if ratio >= 0.2:
        return ", so that at most the strongest rows of a prediction are significant"
    return ", so that a single score says little; lists, means and likely label errors say more"


def _times(band: FrequencyBand) -> str:
    if band.least == band.most:
        return "once" if band.least == 1 else f"{band.least:,} times"
    return f"{band.least:,} to {band.most:,} times"


def _called(row: ShownRow) -> str:
    return f"“{shortened(row.text, _QUOTED)}” ({row.name})" if row.text else row.name
