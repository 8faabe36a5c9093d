"""Tokens that a query and a training example share, as spans on both texts, to be marked in figures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from turnover.errors import ApplicationError
from turnover.tables import STOP_WORDS, WORD

from .results import Result

_MARKS = ("##", "Ġ", "▁", "</w>")

Tokenizer = Callable[[str], Iterable[Any]]


@dataclass(frozen=True)
class Span:
    """A token in a text: text[start:end]."""

    start: int
    end: int
    token: str


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


def shared_tokens(query: str, example: str, *, tokenizer: Tokenizer | None = None) -> SharedTokens:
    """Return the tokens that two texts share, without stop words, with their places in both.

    Args:
        query: a text.
        example: another.
        tokenizer: text -> tokens, as strings in the order of the text (marks of subwords as ## or ▁ are taken off), or
            as (token, start, end); None: words, without case.

    Raises:
        ApplicationError: a tokenizer returned something else.

    Example:
        >>> shared = shared_tokens("The plot is thin.", "A thin, thin plot")
        >>> shared.tokens, [(span.start, span.end) for span in shared.example]
        (('plot', 'thin'), [(2, 6), (8, 12), (13, 17)])
    """
    if not isinstance(query, str) or not isinstance(example, str):
        raise ApplicationError("shared_tokens compares two texts. Give strings.")
    ours, theirs = list(_spans(query, tokenizer)), list(_spans(example, tokenizer))
    common = {span.token for span in ours} & {span.token for span in theirs}
    ours, theirs = (tuple(span for span in spans if span.token in common) for spans in (ours, theirs))
    return SharedTokens(ours, theirs, tuple(dict.fromkeys(span.token for span in ours)))


def _spans(text: str, tokenizer: Tokenizer | None) -> Iterator[Span]:
    """Yield the tokens of a text that say something; strings of a tokenizer are looked for one after the other."""
    lower, at = text.lower(), 0
    # Lower case may be longer than the text, by one sign in some alphabets; then places are looked for as written.
    folds = len(lower) == len(text)
    found = [(match.group(), match.start(), match.end()) for match in WORD.finditer(text)]
    for token in found if tokenizer is None else tokenizer(text):
        if isinstance(token, str):
            bare = token
            for mark in _MARKS:
                bare = bare.replace(mark, "")
            start = (lower if folds else text).find(bare.lower() if folds else bare, at) if bare else -1
            if start < 0:  # marks of begin, end and unknown words are not in the text
                continue
            name, end = token, start + len(bare)
            at = end
        elif isinstance(token, Sequence) and len(token) == 3 and isinstance(token[0], str):
            name, start, end = token[0], int(token[1]), int(token[2])
        else:
            raise ApplicationError(
                f"the tokenizer returned {token!r}. It must return strings, or tuples (token, start, end)."
            )
        name = name.casefold()
        if name not in STOP_WORDS and any(sign.isalnum() for sign in name):
            yield Span(start, end, name)
