"""Sentences on whether we agree with the paper, made of the numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from .changes import change, mean_and_error, verdict

PAPER_PERPLEXITY = 176.0
PAPER_NAMES = ("Worthing", "Moncrieff", "Vincent", "Kinsey", "Bracknell", "Fairfax")
"""The last names that the paper says have large self-influence, as the text spells them."""
_NEAR = 0.1


def perplexity_verdict(found: float, *, whole: bool, unknown: float) -> str:
    """Return one sentence on the perplexity beside the paper's."""
    if not whole:
        return (
            f"The test perplexity of {found:.0f} cannot be compared with the paper's 176: a part of the text was "
            f"trained, and {100 * unknown:.0f} % of the test words are outside its vocabulary and count as one word."
        )
    if abs(found / PAPER_PERPLEXITY - 1) <= _NEAR:
        return f"The test perplexity of {found:.0f} agrees with the paper's 176 within {100 * _NEAR:.0f} %."
    way = "above" if found > PAPER_PERPLEXITY else "below"
    return f"The test perplexity of {found:.0f} does not agree with the paper's 176: it lies {way}."


def frequency_verdict(found: Mapping[str, float], null: Mapping[str, float]) -> str:
    """Return one sentence on rare words, and on whether the masks alone would show the same."""
    if found["high"] < 0:
        text = "Agrees: the rarer a word, the higher its self-influence; the interval excludes 0"
    elif found["low"] > 0:
        text = "Does not agree: the more frequent a word, the higher its self-influence"
    else:
        text = "Does not agree: self-influence does not follow frequency, the interval includes 0"
    if null["low"] <= 0 <= null["high"]:
        return f"{text}, and for ids that were never trained there is no such correlation ({null['spearman']:.2f})."
    return f"{text}; but ids that were never trained show {null['spearman']:.2f} too, which is the masks' own doing."


def names_verdict(names: Mapping[str, Sequence[str]], rare: Mapping[str, float]) -> str:
    """Return one sentence on names: those of the paper, and rare names against words that are as rare."""
    few, many = len(names["colored"]), len(names["all"])
    text = "Agrees" if few > 0.6 * many else "Agrees in part" if few >= 0.5 * many else "Does not agree"
    text += f": {few} of {many} of the paper's names are colored, where 3 of 10 of all words are"
    by = f"{abs(rare['difference']):.2f} nats"
    if rare["low"] > 0:
        return f"{text}; all rare names together score {by} above other words that are as rare."
    if rare["high"] < 0:
        return f"{text}; all rare names together score {by} below other words that are as rare."
    return f"{text}; all rare names together score like other words that are as rare."


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
