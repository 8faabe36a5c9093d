"""Findings as sentences, shared by the report and the terminal: the same quantity has the same words everywhere."""

from collections.abc import Sequence
from typing import Any, Protocol

from turnover.applications import (
    Cleansing,
    Findings,
    HarmfulExamples,
    LabelErrors,
    NearDuplicates,
    NoiseFrom,
    ScoreNoise,
    Trust,
)
from turnover.runs import Run
from turnover.scores import Scores
from turnover.ui.words import count, digits, percent

_MOSTLY_SIGNAL = 0.5
_FEWEST_REPLICAS = 3


def nothing_learned(run: Run[Any]) -> str:
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
    "tod": "turn-over dropout",
}
"""Estimators in the words of a reader."""

NOISE_BEGINS = "From here on the order is noise."
"""What stands between the significant examples of a list and the others, where null ids tell noise."""

DISAGREE = "replicas disagree"
"""What stands at an example that is not significant, where replicas tell noise: the next one may be."""

NONE_SIGNIFICANT = {
    "null_ids": "None is significant: the order is noise.",
    "replicas": "None is significant: the replicas disagree, or are too few.",
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


def reading_words(findings: Findings) -> str:
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
    if scored.numeric:
        return (
            "It is the prediction of the row’s kept subnetwork minus that of its flipped subnetwork, which was not "
            f"trained on it, {over}."
        )
    return (
        f"It is the {scored.unit} at the predicted label in the row’s flipped subnetwork, which was not trained on it, "
        f"minus the {scored.unit} in its kept subnetwork, {over}."
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


def compared_words(duplicates: NearDuplicates) -> str:
    """Return which rows were compared to find near-duplicates, and how."""
    pairs = "pairs that hashing finds, which may miss some" if duplicates.hashed else "all pairs"
    if duplicates.threshold == 1:
        pairs = "rows that are the same"
    return f"Compared: {count(duplicates.rows, 'row')}, {pairs}, from a similarity of {duplicates.threshold:g} on."


def _explanation_noise(findings: Findings, thing: str) -> str:
    errors = findings.errors
    if errors.noise_from is None:
        return no_interval_words(errors.replicas)
    if not errors.with_significant:
        return f"No {thing} behind these errors is significant: read the lists as examples, not as evidence."
    leading, by_replicas = sorted(one.significant_supporting for one in errors), errors.noise_from == "replicas"
    return (
        f"{errors.with_significant} of {count(len(errors), 'error')} have at least one significant {thing}; the median "
        f"error has {count(leading[len(leading) // 2], f'significant {thing}')}. "
        f"{'On the others the replicas disagree' if by_replicas else 'Below the dashed line the order is noise'}."
    )


def _expected_meaning(ratio: float) -> str:
    if ratio >= 1:
        return ", so that single scores may be readable"
    if ratio >= 0.2:
        return ", so that at most the strongest rows of a prediction are significant"
    return ", so that a single score says little; lists, means and likely label errors say more"
