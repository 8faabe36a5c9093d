"""Tokens that a query and a training example share, as spans on both texts, to be marked in figures."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from turnover.errors import ApplicationError
from turnover.tables import STOP_WORDS, WORD

from .results import Result

_MARKS = ("##", "Ġ", "▁", "</w>")

Tokenizer = Callable[[str], Iterable[Any]]


@dataclass(frozen=True)
class Span:
    """A token in a text: text[start:end], and how much it weighs (1; less for stop words)."""

    start: int
    end: int
    token: str
    weight: float


@dataclass(frozen=True)
class SharedTokens(Result):
    """What two texts share.

    Attributes:
        query: spans on the query, in order; none overlaps another.
        example: spans on the example.
        tokens: the shared tokens, each once, in the order of the query.
    """

    query: tuple[Span, ...]
    example: tuple[Span, ...]
    tokens: tuple[str, ...]


def shared_tokens(
    query: str,
    example: str,
    *,
    tokenizer: Tokenizer | None = None,
    stop_words: Iterable[str] = STOP_WORDS,
    stop_weight: float = 0.0,
) -> SharedTokens:
    """Return the tokens that two texts share, with their places in both.

    Args:
        query: a text.
        example: another.
        tokenizer: text -> tokens, as strings in the order of the text (marks of subwords as ## or ▁ are taken off), or
            as (token, start, end); None: words, without case.
        stop_words: words that say little.
        stop_weight: what these weigh, from 0 to 1; 0 leaves them out.

    Raises:
        ApplicationError: a tokenizer returned something else, or a weight outside [0, 1].

    Example:
        >>> shared = shared_tokens("The plot is thin.", "A thin, thin plot")
        >>> shared.tokens, [(span.start, span.end) for span in shared.example]
        (('plot', 'thin'), [(2, 6), (8, 12), (13, 17)])
    """
    if not isinstance(query, str) or not isinstance(example, str):
        raise ApplicationError("shared_tokens compares two texts. Give strings.")
    if not 0 <= stop_weight <= 1:
        raise ApplicationError(f"stop_weight={stop_weight!r}: give a number from 0 (ignored) to 1 (like other words).")
    stops = {word.casefold() for word in stop_words}
    spans_of_both = [_spans(text, tokenizer, stops, stop_weight) for text in (query, example)]
    common = {span.token for span in spans_of_both[0]} & {span.token for span in spans_of_both[1]}
    ours, theirs = (tuple(span for span in spans if span.token in common) for spans in spans_of_both)
    return SharedTokens(ours, theirs, tuple(dict.fromkeys(span.token for span in ours)))


def _spans(text: str, tokenizer: Tokenizer | None, stops: set[str], stop_weight: float) -> list[Span]:
    if tokenizer is None:
        places = [(match.group(), match.start(), match.end()) for match in WORD.finditer(text)]
    else:
        places = _located(text, list(tokenizer(text)))
    spans: list[Span] = []
    for token, start, end in places:
        name = token.casefold()
        weight = stop_weight if name in stops else 1.0
        if weight > 0 and any(sign.isalnum() for sign in name):
            spans.append(Span(start, end, name, weight))
    return spans


def _located(text: str, tokens: Sequence[Any]) -> list[tuple[str, int, int]]:
    """Return (token, start, end) of what a tokenizer returned; strings are looked for one after the other."""
    lower, at = text.lower(), 0
    # Lower case may be longer than the text, by one sign in some alphabets; then places are looked for as written.
    searched = lower if len(lower) == len(text) else text
    result: list[tuple[str, int, int]] = []
    for token in tokens:
        if isinstance(token, str):
            bare = token
            for mark in _MARKS:
                bare = bare.replace(mark, "")
            start = searched.find(bare.lower() if searched is lower else bare, at) if bare else -1
            if start >= 0:  # marks of begin, end and unknown words are not in the text
                at = start + len(bare)
                result.append((token, start, at))
        elif isinstance(token, Sequence) and len(token) == 3 and isinstance(token[0], str):
            result.append((token[0], int(token[1]), int(token[2])))
        else:
            raise ApplicationError(
                f"the tokenizer returned {token!r}. It must return strings, or tuples (token, start, end)."
            )
    return result
