"""Findings about a language model: what it memorized of its training text, and what made a span of a text probable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from turnover.errors import ApplicationError
from turnover.scores import Scores
from turnover.wrapping import AuditReport

from ._results import NoiseFrom, Result, entry, noise_from, significance
from .colored_text import ColoredText, colored_text
from .memorized import MemorizedSummary
from .trust import Trust, histogram, leak_audit, score_noise

PASSAGE = 80
"""Words of a passage."""

# Words to either side of a training position that are shown, and the percentiles between which they are colored.
_AROUND = 14
_SHADES_OF_A_SPAN = (98.0, 99.95)
_LEVEL = 0.05
_MOST_WORDS, _MOST_PASSAGES = 200, 6
_BANDS = ((1, 1), (2, 5), (6, 20), (21, 100), (101, 1000), (1001, None))
# Shades of colored words, percentiles of the self-influence of the whole text, so that passages can be compared.
_SHADES = (70, 95)


@dataclass(frozen=True)
class TrainingText:
    """The training text of a language model: position n predicts word n + context from the words before it.

    Attributes:
        words: of the text; a line break is a word, too.
        context: how many words the model reads before the one that it predicts.
    """

    words: tuple[str, ...]
    context: int


class ScoredText(Protocol):
    """A trained language model with its training text and scores. A run is one."""

    @property
    def text(self) -> TrainingText:
        """Return the training text."""
        ...

    @property
    def models(self) -> Any:
        """Return the trained models."""
        ...

    @property
    def train_data(self) -> Any:
        """Return contexts, words and ids of the training positions."""
        ...

    @property
    def self_influence(self) -> Scores:
        """Return the influence of each training position on itself."""
        ...

    @property
    def influence(self) -> Any:
        """Return the engine for questions about predictions."""
        ...

    def probabilities(self, x: Tensor) -> NDArray[np.float32]:
        """Return the probabilities [contexts, words] of the next word."""
        ...


@dataclass(frozen=True)
class Position(Result):
    """A training position: the word that was predicted there, in the words around it."""

    position: int
    before: str
    word: str
    after: str


@dataclass(frozen=True)
class MemorizedWord(Position):
    """A word of the training text with its self-influence.

    Attributes:
        frequency: how often the word occurs in the training text.
    """

    self_influence: float
    stderr: float | None
    significant: bool
    frequency: int


@dataclass(frozen=True)
class Passage(Result):
    """A passage of the training text, its words colored by self-influence."""

    start: int
    text: ColoredText


@dataclass(frozen=True)
class FrequencyBand(Result):
    """Positions whose words occur about equally often in the training text.

    Attributes:
        least: occurrences of their words, at least.
        most: and at most.
    """

    least: int
    most: int
    positions: int
    mean: float
    memorized: int


@dataclass(frozen=True)
class MemorizedWords(MemorizedSummary):
    """Words of the training text by self-influence, the largest first."""

    noun: ClassVar[str] = "word"

    items: tuple[MemorizedWord, ...]


@dataclass(frozen=True)
class InfluentialPosition(Position):
    """A training position that raised or lowered the probability of a span, with the passage around it.

    Attributes:
        score: its mean influence on the loss of the span's words; positive: it raised their probability.
        passage: the training text around it, each word colored by its own score.
    """

    score: float
    stderr: float | None
    significant: bool
    passage: ColoredText


@dataclass(frozen=True)
class SpanExplanation(Result):
    """Which places of the training text raised or lowered the probability of a span of a text.

    Attributes:
        words: of the whole text.
        span: places of the first word of the span, and of the one after its last.
        probabilities: of each word of the span, given those before it.
        supporting: training positions that raised the probability of the span, the strongest first.
        opposing: those that lowered it.
    """

    _also = ("text",)

    words: tuple[str, ...]
    span: tuple[int, int]
    probabilities: tuple[float, ...]
    supporting: tuple[InfluentialPosition, ...]
    opposing: tuple[InfluentialPosition, ...]
    unit: str
    method: str
    noise_from: NoiseFrom
    level: float
    replicas: int

    @property
    def text(self) -> str:
        """Return the words of the span."""
        return " ".join(self.words[slice(*self.span)])

    @property
    def significant(self) -> int:
        """Return how many of the supporting positions are significant."""
        return sum(one.significant for one in self.supporting)


def find_span(words: Sequence[str], asked: str, *, context: int) -> tuple[int, int]:
    """Return where a span lies in a text: its words, of which the last occurrence is taken, or "START:END" from 0.

    Raises:
        ApplicationError: the words do not occur one after the other, or too early: the model reads `context` words
            before the first of them.

    Example:
        >>> find_span("once upon a time there was a king".split(), "a king", context=4)
        (6, 8)
        >>> find_span("once upon a time there was a king".split(), "4:6", context=4)
        (4, 6)
    """
    start, colon, end = asked.strip().partition(":")
    sought = asked.split()
    places = [place for place in range(len(words)) if sought and list(words[place : place + len(sought)]) == sought]
    if colon and start.strip().isdecimal() and end.strip().isdecimal() and not places:
        span = int(start), int(end)
    elif not places:
        raise ApplicationError(
            f"the span {asked!r} does not occur in the text. Give words of it one after the other, or places from 0, "
            f"such as --span {max(len(words) - 1, 0)}:{len(words)}."
        )
    else:
        span = places[-1], places[-1] + len(sought)
    if not context <= span[0] < span[1] <= len(words):
        raise ApplicationError(
            f"the span {asked!r} must begin at word {context} or later and end by word {len(words)}, counted from 0, "
            f"got {span[0]}:{span[1]}: the model reads {context} words before it. Put more words before it."
        )
    return span


def explain_span(
    scored: ScoredText, numbers: Tensor, words: Sequence[str], span: tuple[int, int], *, k: int = 5
) -> SpanExplanation:
    """Return the places of the training text that raised or lowered the probability of a span of a text.

    Args:
        scored: the language model.
        numbers: token numbers of the whole text [words].
        words: of the whole text, as they are shown.
        span: places of its first word and of the one after its last, as `find_span` returns them.
        k: positions of each kind.
    """
    context = scored.text.context
    windows = numbers.unfold(0, context + 1, 1)[span[0] - context : span[1] - context]
    queries = windows[:, :-1], windows[:, -1]
    scores = scored.influence.mean(queries, progress=False)
    significant = significance(scores, _LEVEL)[0]
    probabilities = scored.probabilities(queries[0])[np.arange(len(windows)), queries[1].numpy()]
    values = np.nan_to_num(scores.values, nan=0.0)
    order = np.argsort(-values, kind="stable")
    sides = order[:k][values[order[:k]] > 0], order[::-1][:k][values[order[::-1][:k]] < 0]
    # What most places do is noise, and has no color.
    limits = [tuple(np.percentile(sign * values, _SHADES_OF_A_SPAN).tolist()) for sign in (1, -1)]

    def described(place: int, sign: int, limits: tuple[float, float]) -> InfluentialPosition:
        return InfluentialPosition(
            **vars(position_in(scored.text, place)),
            score=float(values[place]),
            stderr=entry(scores.stderr, place),
            significant=bool(significant[place]),
            passage=_passage_around(scored.text, place, sign * values, limits),
        )

    supporting, opposing = (
        tuple(described(int(place), sign, ends) for place in side)
        for side, sign, ends in zip(sides, (1, -1), limits, strict=True)
    )
    about = scores.unit, scores.method, noise_from(scores), _LEVEL, scores.replicas
    return SpanExplanation(tuple(words), span, tuple(probabilities.tolist()), supporting, opposing, *about)


def _passage_around(
    text: TrainingText, position: int, values: NDArray[np.floating], limits: tuple[float, float]
) -> ColoredText:
    """Return the training text around a position, each word colored by its value."""
    place = position + text.context
    first, last = max(0, place - _AROUND), min(len(text.words), place + _AROUND + 1)
    known = np.concatenate([np.full(text.context, np.nan), values.astype(np.float64)])
    words = ["↵" if word == "\n" else word for word in text.words[first:last]]
    return colored_text(words, known[first:last], limits=limits, unit="influence")


@dataclass(frozen=True)
class LanguageFindings(Result):
    """All findings about a language model.

    Attributes:
        passages: those of which most was memorized, none of them overlapping.
    """

    memorized: MemorizedWords
    passages: tuple[Passage, ...]
    frequencies: tuple[FrequencyBand, ...]
    trust: Trust
    leaks: AuditReport

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        return {**super().as_dict(), "leaks": self.leaks.to_dict()}


def find_in_text(scored: ScoredText) -> LanguageFindings:
    """Return all findings about a language model."""
    own = scored.self_influence
    return LanguageFindings(
        memorized=find_memorized_words(scored),
        passages=find_passages(scored),
        frequencies=_bands(scored),
        trust=Trust((score_noise("self_influence", own, _LEVEL),), own.replicas, _LEVEL),
        leaks=leak_audit(scored.models[0], scored.train_data),
    )


def find_memorized_words(scored: ScoredText, *, most: int = _MOST_WORDS) -> MemorizedWords:
    """Return the memorized words of a training text, at most so many of positive self-influence."""
    own, frequency = scored.self_influence, _frequency(scored)
    significant = significance(own, _LEVEL)[0]
    values = np.nan_to_num(own.values, nan=-np.inf)
    order = np.argsort(-values, kind="stable")[:most]
    items = tuple(
        MemorizedWord(
            **vars(position_in(scored.text, int(place))),
            self_influence=float(values[place]),
            stderr=entry(own.stderr, place),
            significant=bool(significant[place]),
            frequency=int(frequency[place]),
        )
        for place in order[values[order] > 0]
    )
    count = int((significant & (values > 0)).sum())
    about = own.unit, histogram(own, tails=0.05)
    return MemorizedWords(len(own), count, float((values > 0).mean()), _LEVEL, *about, items)


def position_in(text: TrainingText, position: int, *, before: int = 8, after: int = 3) -> Position:
    """Return a training position with the words around it."""
    place, words = position + text.context, text.words
    first = max(0, place - before)
    return Position(
        position=position,
        before=" ".join(words[first:place]),
        word=words[place],
        after=" ".join(words[place + 1 : place + 1 + after]),
    )


def find_passages(scored: ScoredText, *, most: int = _MOST_PASSAGES) -> tuple[Passage, ...]:
    """Return the passages of which most was memorized, none of them overlapping."""
    text = scored.text
    values = np.concatenate([np.full(text.context, np.nan), scored.self_influence.values])
    length = min(PASSAGE, len(values))
    sums = np.convolve(np.nan_to_num(values, nan=0.0), np.ones(length), mode="valid")
    starts: list[int] = []
    for start in np.argsort(-sums, kind="stable").tolist():
        if all(abs(start - other) >= length for other in starts):
            starts.append(start)
        if len(starts) == most:
            break
    low, high = np.percentile(scored.self_influence.values, _SHADES)
    return tuple(
        Passage(
            start,
            colored_text(
                ["↵\n" if word == "\n" else word for word in text.words[start : start + length]],
                values[start : start + length],
                limits=(float(low), float(high)),
                unit="self-influence",
            ),
        )
        for start in starts
    )


def _frequency(scored: ScoredText) -> NDArray[np.int64]:
    """Return how often the word of each training position occurs as one."""
    words = scored.train_data[1].numpy()
    return np.bincount(words)[words]


def _bands(scored: ScoredText) -> tuple[FrequencyBand, ...]:
    """Return self-influence by how often words occur; bands without words are left out."""
    values, frequency = scored.self_influence.values, _frequency(scored)
    memorized = significance(scored.self_influence, _LEVEL)[0] & (values > 0)
    bands: list[FrequencyBand] = []
    for least, most in _BANDS:
        top = most or int(frequency.max(initial=0))
        within = (frequency >= least) & (frequency <= top)
        if within.any():
            mean = float(np.nanmean(values[within]))
            bands.append(FrequencyBand(least, top, int(within.sum()), mean, int(memorized[within].sum())))
    return tuple(bands)
