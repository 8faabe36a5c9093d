"""Tokens that two texts share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnover.applications import shared_tokens
from turnover.errors import ApplicationError


def test_shared_words_are_found_whatever_their_case_and_stop_words_are_not():
    found = shared_tokens("The PLOT of the film is thin", "a film: the thin Plot, the film")
    assert found.tokens == ("plot", "film", "thin")
    assert [span.token for span in found.example] == ["film", "thin", "plot", "film"]


@given(st.text(alphabet="bcİß. ’1", max_size=40), st.text(alphabet="bcİß. ’1", max_size=40))
def test_spans_are_words_of_their_text_in_order_and_in_both(one, other):
    found = shared_tokens(one, other)
    for text, spans in ((one, found.query), (other, found.example)):
        ends = 0
        for span in spans:
            assert text[span.start : span.end].casefold() == span.token
            assert span.start >= ends
            ends = span.end
    assert {span.token for span in found.query} == {span.token for span in found.example} == set(found.tokens)


def test_subwords_of_a_tokenizer_are_located_as_in_the_papers_figure():
    def pieces(text):
        return ["[CLS]", *text.lower().replace("christ", "ch ##rist").split(), "[SEP]"]

    found = shared_tokens("Is Christmas near", "Christ was born", tokenizer=pieces)
    text = "Is Christmas near"
    assert [text[span.start : span.end] for span in found.query] == ["Ch"]  # ##ristmas is not ##rist
    assert found.tokens == ("ch",)


@pytest.mark.parametrize(
    ("query", "tokenizer", "message"),
    [("a", lambda text: [1, 2], "strings, or tuples"), (None, None, "Give strings")],
)
def test_what_does_not_fit_is_refused(query, tokenizer, message):
    with pytest.raises(ApplicationError, match=message):
        shared_tokens(query, "b", tokenizer=tokenizer)
