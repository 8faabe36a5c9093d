"""The results page: perplexity, the colored passage, the pattern, the open question, and sentences on agreement."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.colored_text import colored_text
from turnover_bench.experiments.findings import Finding, Verdict, agreements, counted, graded, paragraphs, spread

from .figures import VARIANT_TITLES, draw_text, plot
from .pattern import RARE, change, mean_and_error, verdict

PAPER_PERPLEXITY = 176.0
PAPER_NAMES = ("Worthing", "Moncrieff", "Vincent", "Kinsey", "Bracknell", "Fairfax")
"""The last names that the paper says have large self-influence, as the text spells them."""
_NEAR = 0.1
_FALLING = 0.02
"""In the last epoch: where perplexity falls by less, the training is at its end."""


def perplexity_verdict(found: float, *, whole: bool, unknown: float, training: str = "") -> str:
    """Return the perplexity beside the paper's; where it lies above, what sets our training apart."""
    if not whole:
        return (
            f"The test perplexity of {found:.0f} cannot be compared with the paper's 176: a part of the text was "
            f"trained, and {100 * unknown:.0f} % of the test words are outside its vocabulary and count as one word."
        )
    if abs(found / PAPER_PERPLEXITY - 1) <= _NEAR:
        return f"The test perplexity of {found:.0f} agrees with the paper's 176 within {100 * _NEAR:.0f} %."
    way = "above" if found > PAPER_PERPLEXITY else "below"
    text = f"The test perplexity of {found:.0f} does not agree with the paper's 176: it lies {way}."
    return text if found < PAPER_PERPLEXITY or not training else f"{text} {training}"


def training_words(network: Mapping[str, Any], curves: Sequence[Sequence[float]]) -> str:
    """Return what may keep perplexity above the paper's: a narrow network, or a training that was short."""
    if network["decay"] is None:  # at a rate of 0 perplexity falls no longer, however short the training
        return (
            f"The network has a width of {network['size']} (the paper: 650) and its rate fell to 0 within "
            f"{network['epochs']} epochs (the paper: 40)."
        )
    falls = [1 - curve[-1] / curve[-2] for curve in curves if len(curve) > 1]
    if not falls or min(falls) < _FALLING:
        return ""
    return (
        f"Training was short: in the last of {len(curves[0])} epochs (the paper: 40) the perplexity of the validation "
        f"text still fell by {100 * sum(falls) / len(falls):.0f} %."
    )


def frequency_verdict(found: Mapping[str, float], null: Mapping[str, float]) -> str:
    """Return one sentence on rare words, and on whether the masks alone would show the same."""
    if found["high"] < 0:
        text = "Agrees: the rarer a word, the higher its self-influence; the interval excludes 0"
    elif found["low"] > 0:
        text = "Does not agree: the more frequent a word, the higher its self-influence"
    else:
        text = "Does not agree: self-influence does not follow frequency, the interval includes 0"
    if null["low"] <= 0 <= null["high"]:
        return f"{text}, and for null ids there is no such correlation ({null['spearman']:.2f})."
    return f"{text}; but null ids show {null['spearman']:.2f} too, which is due to the masks alone."


def names_verdict(names: Mapping[str, Sequence[str]], rare: Mapping[str, float]) -> str:
    """Return one sentence on names: those of the paper, and rare names against words that are as rare."""
    few, many = len(names["colored"]), len(names["all"])
    words: dict[Verdict, str] = {"holds": "Agrees", "holds in part": "Agrees in part"}
    text = words.get(_names_grade(names, rare), "Does not agree")
    text += f": {few} of {many} of the paper's names are colored, where 3 of 10 of all words are"
    by = f"{abs(rare['difference']):.2f} nats"
    if rare["low"] > 0:
        return f"{text}; all rare names together score {by} above other words that are as rare."
    if rare["high"] < 0:
        return f"{text}; all rare names together score {by} below other words that are as rare."
    return f"{text}; all rare names together score like other words that are as rare."


def _names_grade(names: Mapping[str, Sequence[str]], rare: Mapping[str, float]) -> Verdict:
    few, many = len(names["colored"]), len(names["all"])
    return graded(few > 0.6 * many and rare["high"] >= 0, in_part=few >= 0.5 * many)


def question_verdict(removal: Mapping[str, Any]) -> str:
    """Return one sentence on the paper's open question, for the largest share."""
    one = removal["shares"][-1]
    titles = {"random": "as many at random", "matched": "as many at random whose words are as frequent"}
    sides: list[str] = []
    told: list[str] = []
    for other, title in titles.items():
        cells: list[str] = []
        for words in ("all", "known"):
            values = change(one["removed"], one[other], words)
            middle, error = mean_and_error(values)
            sides.append(verdict(values))
            clear = " (clear)" if sides[-1] else ""
            cells.append(f"{words} words {middle:+.1f} ± {error:.1f} %{clear}".replace("-", "−"))
        told.append(f"against leaving out {title}: {', '.join(cells)}")
    return (
        f"{_answer(sides)}. Test perplexity without the {100 * one['share']:g} % of highest "
        f"self-influence, {len(one['removed'])} seeds, {'; '.join(told)}."
    )


def _answer(sides: Sequence[str]) -> str:
    """Return what the comparisons that are clear say of rows of high self-influence."""
    clear = [side for side in sides if side]
    many = f"{len(clear)} of {len(sides)} comparisons"
    if not clear:
        return "No clear difference"
    if len(set(clear)) > 1:
        return f"No single answer: {many} are clear, and they differ"
    worth = "more" if clear[0] == "higher" else "less"
    verb = "is" if len(clear) == 1 else "are"
    return f"{many} {verb} clear, where such rows are worth {worth} than others"


def colored_names(passage: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paper's names in the passage, and those that lie above the lower limit where they first stand."""
    found: dict[str, float] = {}
    for word, value in zip(passage["words"], passage["values"], strict=True):
        if word in PAPER_NAMES:
            found.setdefault(word, value)
    return {"all": list(found), "colored": [word for word in found if found[word] > passage["limits"][0]]}


_WORDS = {"all": "all", "known": "known", "rare": f"at most {RARE} times", "frequent": f"over {RARE} times"}


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figures into `folder`."""
    passage = result["passage"]
    text = colored_text(passage["words"], passage["values"], limits=tuple(passage["limits"]), unit="self-influence")
    draw_text(text, folder / "lm.svg", title=f"WikiText-2 by self-influence, {_averaged(passage['models'])}")
    plot(result, folder / "lm-pattern.svg")
    parts = (_head, _passage, _highest, _pattern, *([_question] if result["removal"]["shares"] else []), _counted)
    return paragraphs(*(part(result) for part in parts))


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's perplexity, its pattern and its open question beside what we found."""
    setting, corpus, pattern = _setting(result), result["corpus"], result["pattern"]
    tests = [one["test"]["all"] for one in result["masked"]]
    plain = [one["all"] for one in result["removal"]["everything"]]
    whole = result["setting"]["tokens"] is None
    names, rare, null = colored_names(result["passage"]), pattern["names"], pattern["frequency_null"]
    return [
        Finding(
            "WikiText-2, test perplexity of the model with masks",
            "about 176 (App. self-influence)",
            f"{spread(tests, '.0f')} (without masks {spread(plain, '.0f')})",
            setting,
            perplexity_verdict(
                sum(tests) / len(tests),
                whole=whole,
                unknown=corpus["unknown_in_test"],
                training=training_words(result["setting"]["network"], [one["curve"] for one in result["masked"]]),
            ),
            "a feed-forward language model with masks reaches a perplexity of about 176",
            graded(abs(sum(tests) / len(tests) / PAPER_PERPLEXITY - 1) <= _NEAR) if whole else "not comparable here",
            f"within {_NEAR:.0%} of it, on all of WikiText-2",
        ),
        Finding(
            "self-influence of words and their log frequency",
            "shown in one figure, no number",
            f"rank correlation {_interval(pattern['frequency'], 'spearman', '.2f')}",
            setting,
            frequency_verdict(pattern["frequency"], pattern["frequency_null"]),
            "rare words have high self-influence",
            graded(
                pattern["frequency"]["high"] < 0 and null["low"] <= 0 <= null["high"],
                in_part=pattern["frequency"]["high"] < 0,
            ),
            "interval below 0, that of null ids around 0; in part: the first",
        ),
        Finding(
            "self-influence of last names in the passage",
            f"{', '.join(PAPER_NAMES)} are large (App., figure)",
            f"{len(names['colored'])} of {len(names['all'])} above the 70th percentile",
            setting,
            names_verdict(names, rare),
            "last names have high self-influence",
            _names_grade(names, rare),
            "more than 60 % of the names colored, and all rare names not below words that are as rare; in part: half "
            "of the names colored",
        ),
        *(_open_question(result["removal"], setting) if result["removal"]["shares"] else []),
    ]


def _open_question(removal: Mapping[str, Any], setting: str) -> list[Finding]:
    return [
        Finding(
            "does training without rows of high self-influence change perplexity?",
            "– (left open)",
            _answer_numbers(removal),
            setting,
            question_verdict(removal),
        )
    ]


def _head(result: Mapping[str, Any]) -> Iterable[str]:
    corpus, network = result["corpus"], result["setting"]["network"]
    yield "# Language model: text colored by self-influence"
    yield (
        f"A feed-forward language model ({network['context']} words of context, embedding and hidden layer of "
        f"{network['size']}) on {corpus['positions']:,} positions of WikiText-2, {corpus['vocabulary']:,} words; "
        f"{network['epochs']} epochs. A position, its context and the next word, is an instance. Self-influence is "
        f"{'that of' if len(result['masked']) == 1 else 'the'} {_averaged(len(result['masked']))} with masks on the "
        f"embedding and the hidden layer{_which_scores(corpus)}."
    )
    yield from agreements(findings(result))
    runs = {"with masks": [one["test"] for one in result["masked"]], "without": result["removal"]["everything"]}
    rows = [_row(name, seeds, ("all", "known")) for name, seeds in runs.items()]
    if result["setting"]["tokens"] is None and result["setting"]["held_out"] is None:
        yield (
            "Training text, vocabulary and test words are all of WikiText-2, as in the paper, so the first column can "
            "be compared with its 176."
        )
    yield markdown_table(["test perplexity", "all words", "without &lt;unk&gt;"], rows)


def _passage(result: Mapping[str, Any]) -> Iterable[str]:
    names, low_high = colored_names(result["passage"]), result["passage"]["limits"]
    yield "## The paper's passage"
    yield "![the passage of the paper's figure, words colored by self-influence](lm.svg)"
    yield (
        f"Values are clipped to the 70th and 95th percentile of positions ({low_high[0]:.2f} and "
        f"{low_high[1]:.2f} nats). Of the last names that the paper mentions, {_list(names['all'])} are in the "
        f"passage; colored at their first place: {_list(names['colored'])}."
    )


def _highest(result: Mapping[str, Any]) -> Iterable[str]:
    yield "The positions of highest self-influence:"
    rows = [
        [
            " ".join(one["context"]).replace("<", "\\<"),
            f"**{one['word']}**".replace("<", "\\<"),
            f"{one['value']:.2f}",
            f"{one['frequency']:,}",
        ]
        for one in result["highest"]
    ]
    yield markdown_table(["context", "word", "self-influence, nats", "frequency in the text"], rows)


def _pattern(result: Mapping[str, Any]) -> Iterable[str]:
    found = result["pattern"]
    yield "## Rare words and names"
    removed = "; perplexity without what scored highest" if result["removal"]["shares"] else ""
    yield f"![self-influence by frequency{removed}](lm-pattern.svg)"
    # Of one model, the first is the second.
    keys = {_averaged(len(result["masked"])): "frequency", _averaged(1): "frequency_one_model"}
    keys["null ids"] = "frequency_null"
    rows = [
        [name, f"{found[key]['spearman']:.2f}", f"{found[key]['low']:.2f} to {found[key]['high']:.2f}"]
        for name, key in keys.items()
    ]
    head = ["Spearman correlation of self-influence and log frequency", "correlation", "95 % interval"]
    yield markdown_table(head, rows)
    yield (
        "Intervals are by bootstrap over stretches of 100 words. Of the positions "
        f"{100 * found['positive']:.0f} % have positive self-influence (mean {found['mean']:.2f} nats)"
        + ("." if found["between_models"] is None else f"; two models agree with {found['between_models']:.2f}.")
        + f"\nNames (words with a capital within a sentence) of frequency {RARE} or less, beside other words of the "
        f"same frequency: {_interval(found['names'], 'difference', '+.2f')} nats of self-influence."
    )


def _question(result: Mapping[str, Any]) -> Iterable[str]:
    removal, setting = result["removal"], result["setting"]
    yield "## The open question: training without rows of high self-influence"
    yield (
        "The paper asks whether such rows could be used to improve the training of language models. Retrained "
        f"without masks, {len(setting['seeds'])} seeds; mean ± sd of test perplexity by the frequency of the test word "
        "in the training text."
    )
    rows = [_row("nothing", removal["everything"])]
    for one in removal["shares"]:
        for name, title in VARIANT_TITLES.items():
            how = f" to {setting['weight']:g}" if name == "weighted" else ""
            words = title.replace("\n", " ")
            rows.append(_row(f"{100 * one['share']:g} %: {words}{how}", one[name]))
    yield markdown_table(["removed words", *_WORDS.values()], rows)
    yield "A difference is called clear where Student's 95 % interval over the seeds excludes 0."
    rows = []
    for one in removal["shares"]:
        for name, other in (("removed", "random"), ("removed", "matched"), ("weighted", None)):
            base = removal["everything"] if other is None else one[other]
            cells = (_error(change(one[name], base, what)) for what in ("all", "known", "rare", "frequent"))
            title, against = (
                VARIANT_TITLES[key].replace("\n", " ") if key else "nothing removed" for key in (name, other)
            )
            rows.append([f"{100 * one['share']:g} %: {title} – {against}", *cells])
    head = ["difference in perplexity, % ± standard error", "all", "known words", "rare", "frequent"]
    yield markdown_table(head, rows)


def _counted(result: Mapping[str, Any]) -> Iterable[str]:
    rates, setting = result["rates"], result["setting"]
    yield "## How it is counted"
    for how, title in (("masked", "with masks"), ("plain", "without")):
        tried = ", ".join(f"{rate}: {value:.0f}" for rate, value in rates[how]["perplexity"].items())
        best = f"{rates[how]['best']:g}"
        after = f"by validation perplexity after {setting['network']['trial_epochs']} epochs ({tried})"
        yield f"- Learning rate {title}: {best}, {after if tried else 'no other was tried'}."
    decay = setting["network"]["decay"]
    falls = (
        "falls in a straight line over all steps, to 0"
        if decay is None
        else f"is multiplied by {decay:g} after an epoch without a better validation perplexity"
    )
    yield f"- The rate {falls}, and the model of the best epoch counts. The test text is for the report alone."
    if setting["network"].get("bfloat16"):
        yield "- Trained with products in bfloat16; perplexity and self-influence are computed in float32."
    if result["removal"]["shares"]:
        yield "- What is removed is chosen by the mean of the models with masks, the same for all seeds."
        yield (
            "- Rows of the same frequency are drawn within powers of two, the highest themselves among those that may "
            "be drawn."
        )


def _row(title: str, runs: Sequence[Mapping[str, float]], words: Iterable[str] = _WORDS) -> list[str]:
    return [title, *(spread([one[what] for one in runs], ".1f") for what in words)]


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
        f"{counted(len(result['masked']), 'model')}"
    )


def _which_scores(corpus: Mapping[str, Any]) -> str:
    scored = corpus.get("scored", corpus["positions"])
    return "" if scored == corpus["positions"] else f", of the {scored:,} positions around the paper's passage"


def _averaged(models: int) -> str:
    return "one model" if models == 1 else f"mean of {models} models"


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "none"
