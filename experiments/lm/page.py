"""The results page: perplexity, the colored passage, the pattern, and the open question."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.findings import Finding, spread
from turnover.applications import colored_text

from .changes import change, mean_and_error
from .drawn_text import draw_text
from .pattern import RARE
from .plot import VARIANT_TITLES, plot
from .verdicts import (
    PAPER_NAMES,
    colored_names,
    frequency_verdict,
    names_verdict,
    perplexity_verdict,
    question_verdict,
)

_WORDS = {"all": "all", "known": "known", "rare": f"at most {RARE} times", "frequent": f"over {RARE} times"}


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figures into `folder`."""
    passage = result["passage"]
    text = colored_text(passage["words"], passage["values"], limits=tuple(passage["limits"]), unit="self-influence")
    draw_text(text, folder / "lm.svg", title=f"WikiText-2 by self-influence, mean of {passage['models']} models")
    plot(result, folder / "lm-pattern.svg")
    parts = (_head(result), _passage(result), _highest(result), _pattern(result), _question(result), _counted(result))
    return "\n".join(line for part in parts for line in part)


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's perplexity, its pattern and its open question beside what we found."""
    setting, corpus, pattern = _setting(result), result["corpus"], result["pattern"]
    tests = [one["test"]["all"] for one in result["masked"]]
    whole = result["setting"]["tokens"] is None
    names, rare = colored_names(result["passage"]), pattern["names"]
    return [
        Finding(
            "WikiText-2, test perplexity of the model with masks",
            "about 176 (App. self-influence)",
            spread(tests, ".0f"),
            setting,
            perplexity_verdict(sum(tests) / len(tests), whole=whole, unknown=corpus["unknown_in_test"]),
        ),
        Finding(
            "self-influence of rare words: rank correlation with log frequency",
            "shown in one figure, no number",
            _interval(pattern["frequency"], "spearman", ".2f"),
            setting,
            frequency_verdict(pattern["frequency"], pattern["frequency_never_trained"]),
        ),
        Finding(
            "self-influence of last names in the passage",
            f"{', '.join(PAPER_NAMES)} are large (App., figure)",
            f"{len(names['colored'])} of {len(names['all'])} above the 70th percentile",
            setting,
            names_verdict(names, rare),
        ),
        Finding(
            "does training without rows of high self-influence change perplexity?",
            "– (left open)",
            _answer_numbers(result["removal"]),
            setting,
            question_verdict(result["removal"]),
        ),
    ]


def _head(result: Mapping[str, Any]) -> Iterable[str]:
    corpus, network = result["corpus"], result["setting"]["network"]
    yield "# Language model: text colored by self-influence"
    yield ""
    yield (
        f"A feed-forward language model ({network['context']} words of context, embedding and hidden layer of "
        f"{network['size']}) on {corpus['positions']:,} positions of WikiText-2, {corpus['vocabulary']:,} words; "
        f"{network['epochs']} epochs. A position, its context and the next word, is an instance. Self-influence is the "
        f"mean of {len(result['masked'])} models with masks on the embedding and the hidden layer."
    )
    yield ""
    for one in findings(result):
        yield f"- {one.agreement}"
    yield ""
    yield from ["| test perplexity | all words | words of the vocabulary |", "| --- | --- | --- |"]
    rows = {"with masks": [one["test"] for one in result["masked"]], "without": result["removal"]["everything"]}
    for name, runs in rows.items():
        yield f"| {name} | {' | '.join(spread([one[what] for one in runs], '.1f') for what in ('all', 'known'))} |"
    yield ""


def _passage(result: Mapping[str, Any]) -> Iterable[str]:
    names, low_high = colored_names(result["passage"]), result["passage"]["limits"]
    yield "## The paper's passage"
    yield ""
    yield "![the passage of the paper's figure, words colored by self-influence](lm.svg)"
    yield ""
    yield (
        f"Values are clipped to the 70th and 95th percentile of all positions ({low_high[0]:.2f} and "
        f"{low_high[1]:.2f} nats). Of the last names that the paper mentions, {_list(names['all'])} are in the "
        f"passage; colored at their first place: {_list(names['colored'])}."
    )
    yield ""


def _highest(result: Mapping[str, Any]) -> Iterable[str]:
    yield "The positions of highest self-influence, of all the training text:"
    yield from ["", "| context | word | self-influence, nats | times in the text |", "| --- | --- | --- | --- |"]
    for one in result["highest"]:
        context = " ".join(one["context"]).replace("|", "\\|").replace("<", "\\<")
        word = one["word"].replace("|", "\\|").replace("<", "\\<")
        yield f"| {context} | **{word}** | {one['value']:.2f} | {one['frequency']:,} |"
    yield ""


def _pattern(result: Mapping[str, Any]) -> Iterable[str]:
    found = result["pattern"]
    yield "## Rare words and names"
    yield ""
    yield "![self-influence by frequency; perplexity without what scored highest](lm-pattern.svg)"
    yield from ["", "| Spearman correlation of self-influence and log frequency | 95 % interval |", "| --- | --- |"]
    several = f"mean of {len(result['masked'])} models"
    rows = {several: "frequency", "one model": "frequency_one_model", "never-trained ids": "frequency_never_trained"}
    for name, key in rows.items():
        yield f"| {name}: {found[key]['spearman']:.2f} | {found[key]['low']:.2f} to {found[key]['high']:.2f} |"
    yield ""
    yield (
        "Intervals are over stretches of 100 words, drawn anew as a whole. Of all positions "
        f"{100 * found['positive']:.0f} % have positive self-influence (mean {found['mean']:.2f} nats)"
        + ("." if found["between_models"] is None else f"; two models agree with {found['between_models']:.2f}.")
    )
    yield (
        f"Names, words with a capital within a sentence, that are in the text at most {RARE} times score "
        f"{_interval(found['names'], 'difference', '+.2f')} nats above other words of the same frequency."
    )
    yield ""


def _question(result: Mapping[str, Any]) -> Iterable[str]:
    removal, setting = result["removal"], result["setting"]
    yield "## The open question: training without rows of high self-influence"
    yield ""
    yield (
        "The paper asks whether such rows could be used to improve the training of language models. Trained anew "
        f"without masks, {len(setting['seeds'])} seeds; mean ± sd of test perplexity by how often the test word is in "
        "the training text."
    )
    yield from ["", f"| left out | {' | '.join(_WORDS.values())} |", f"| --- |{' --- |' * len(_WORDS)}"]
    yield _row("nothing", removal["everything"])
    for one in removal["shares"]:
        for name, title in VARIANT_TITLES.items():
            how = f" to {setting['weight']:g}" if name == "weighted" else ""
            words = title.replace("\n", " ")
            yield _row(f"{100 * one['share']:g} %: {words}{how}", one[name])
    yield ""
    yield "A difference is called clear where Student's 95 % interval over the seeds excludes 0."
    yield ""
    yield from ["| difference in perplexity, % ± standard error | all | known words | rare | frequent |"]
    yield "| --- | --- | --- | --- | --- |"
    for one in removal["shares"]:
        for name, other in (("removed", "random"), ("removed", "matched"), ("weighted", None)):
            base = removal["everything"] if other is None else one[other]
            cells = (_error(change(one[name], base, what)) for what in ("all", "known", "rare", "frequent"))
            title, against = (
                VARIANT_TITLES[key].replace("\n", " ") if key else "nothing left out" for key in (name, other)
            )
            yield f"| {100 * one['share']:g} %: {title} – {against} | {' | '.join(cells)} |"
    yield ""


def _counted(result: Mapping[str, Any]) -> Iterable[str]:
    rates, setting = result["rates"], result["setting"]
    yield "## How it is counted"
    yield ""
    for how, title in (("masked", "with masks"), ("plain", "without")):
        tried = ", ".join(f"{rate}: {value:.0f}" for rate, value in rates[how]["perplexity"].items())
        best = f"{rates[how]['best']:g}"
        after = f"by validation perplexity after {setting['network']['trial_epochs']} epochs ({tried})"
        yield f"- Rate {title}: {best}, {after if tried else 'the one that was given'}."
    yield (
        f"- The rate is multiplied by {setting['network']['decay']:g} after an epoch without a better validation "
        "perplexity, and the model of the best epoch counts. The test text is for the report alone. What is left out "
        "is chosen by the mean of the models with masks, the same for all seeds."
    )
    yield (
        "- Rows of the same frequency are drawn within powers of two, the highest themselves among those that may be "
        "drawn."
    )
    yield f"- All parts together took {result['spent']['seconds'] / 60:.1f} processor minutes."


def _row(title: str, runs: Sequence[Mapping[str, float]]) -> str:
    return f"| {title} | {' | '.join(spread([one[what] for one in runs], '.1f') for what in _WORDS)} |"


def _error(values: Sequence[float]) -> str:
    middle, error = mean_and_error(values)
    return f"{middle:+.1f} ± {error:.1f}".replace("-", "−")


def _answer_numbers(removal: Mapping[str, Any]) -> str:
    one = removal["shares"][-1]
    share = f"{100 * one['share']:g} %"
    against = _error(change(one["removed"], one["random"], "known"))
    matched = _error(change(one["removed"], one["matched"], "known"))
    return f"without the highest {share}: {against} % against random, {matched} % against random of the same frequency"


def _interval(found: Mapping[str, float], what: str, form: str) -> str:
    return f"{found[what]:{form}} ({found['low']:{form}} to {found['high']:{form}})".replace("-", "−")


def _setting(result: Mapping[str, Any]) -> str:
    corpus, network = result["corpus"], result["setting"]["network"]
    return (
        f"{corpus['positions']:,} positions, width {network['size']}, {network['epochs']} epochs, "
        f"{len(result['masked'])} models"
    )


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "none"
