"""Which training documents raised the probability of a token or span of a text, and which of their tokens did."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import turnover
from tests.reference.span_twin import span_scores
from turnover.batches import Documents, Sequences, padded
from turnover.errors import InfluenceError
from turnover.influence import Curvature, TurnOver, span_queries

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

WORDS, LENGTH, ROWS = 40, 8, 24
SITES = ["transformer.h.*.mlp.act", "transformer.ln_f"]


def gpt2(words=WORDS, seed=0, **sizes):
    torch.manual_seed(seed)
    off = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    sizes = {"n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2, **sizes}
    config = transformers.GPT2Config(vocab_size=words, **sizes, **off, bos_token_id=0, eos_token_id=0)
    config.tie_word_embeddings = False
    model = transformers.GPT2LMHeadModel(config)
    model.transformer.wpe.requires_grad_(False)  # rows share its positions, and curvature does not cover it
    return model


def trained(model, loader, epochs, lr=5e-3):
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=lr)
    for _ in range(epochs):
        for batch in loader:
            ids, labels = batch.pop("instance_id"), batch.pop("labels")
            with turnover.instances(ids):
                loss = functional.cross_entropy(model(**batch).logits.flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def corpus():
    """Random text, which can only be memorized: who was trained on a stretch of it is who knows it."""
    tokens = torch.randint(WORDS, (ROWS * LENGTH + 1,), generator=torch.Generator().manual_seed(1))
    return tokens, turnover.with_instance_ids(Sequences(tokens, length=LENGTH))


@pytest.fixture(scope="module")
def model(corpus):
    return trained(turnover.wrap(gpt2(), at=SITES), DataLoader(corpus[1], batch_size=8, shuffle=True), epochs=60)


SPANS = [(3, 4), (1, 9), (5, 8)]


def test_scores_of_spans_are_those_of_the_slow_twin(model, corpus):
    tokens, ids = corpus[0][8:17], [0, 1, 7, 23]
    found = turnover.Influence(model, estimator=TurnOver(center=False)).pairwise(
        span_queries(tokens, SPANS), ids=ids, progress=False
    )
    np.testing.assert_allclose(found.values, span_scores(model, tokens, SPANS, ids), atol=2e-5)


def test_a_span_is_the_mean_of_its_tokens(model, corpus):
    tokens = corpus[0][8:17]
    influence = turnover.Influence(model, estimator=TurnOver(center=False))
    each = influence.pairwise(span_queries(tokens), ids=range(ROWS), progress=False).values
    span = influence.pairwise(span_queries(tokens, [(5, 8)]), ids=range(ROWS), progress=False).values[:, 0]
    np.testing.assert_allclose(each[:, 4:7].mean(1), span, atol=2e-5)


@pytest.mark.parametrize("estimator", ["tod", "curvature"])
def test_every_estimator_finds_the_document_that_a_span_was_memorized_from(model, corpus, estimator):
    tokens, data = corpus
    influence = turnover.Influence(model, train=data, estimator=estimator)
    places = [2, 9, 16]
    firsts = []
    for place in places:
        text = tokens[place * LENGTH : (place + 1) * LENGTH + 1]
        firsts.append(influence.top(span_queries(text, [(4, 9)]), k=3, progress=False).helpful_ids[0].tolist())
    assert sum(place in first for place, first in zip(places, firsts, strict=True)) == len(places)


def test_the_tokens_of_a_document_add_up_to_its_score_and_the_same_tokens_carry_it(model, corpus):
    tokens, data = corpus
    influence = turnover.Influence(model, train=data, estimator="curvature")
    text = tokens[9 * LENGTH : 10 * LENGTH + 1]
    queries = span_queries(text, [(5, 7), (8, 9)])
    scores = influence.pairwise(queries, progress=False).values
    (carried,) = influence.training_tokens(queries, 9)
    assert carried.shape == (LENGTH, 2)
    np.testing.assert_allclose(carried.sum(0), scores[9], rtol=1e-3)
    # A label stands at the position that predicts it: tokens 5 and 6 at 4 and 5, token 8 at 7.
    assert set(np.argsort(-carried[:, 0])[:2].tolist()) == {4, 5}
    assert carried[:, 1].argmax() == 7


@dataclass(frozen=True)
class Kept(Curvature):
    """Curvature as it was fitted before, whatever rows it is asked about."""

    arrays: Any = None

    def as_data(self, train):
        return {"estimator": {"name": "kept"}}

    def fit(self, ensemble, train, *, kept=None):
        return super().fit(ensemble, train, kept=self.arrays)


def test_what_a_token_adds_is_what_the_row_loses_without_its_label(model, corpus):
    tokens, data = corpus
    queries = span_queries(tokens[9 * LENGTH : 10 * LENGTH + 1], [(5, 7)])
    rows = [data[place] for place in range(ROWS)]
    fitted = turnover.Influence(model, train=rows, estimator=Curvature())
    scores = fitted.pairwise(queries, progress=False).values[:, 0]
    (carried,) = fitted.training_tokens(queries, 9)
    without = dict(rows[9], labels=torch.as_tensor(rows[9]["labels"]).clone())
    without["labels"][4] = -100
    changed = [*rows[:9], without, *rows[10:]]
    again = turnover.Influence(model, train=changed, estimator=Kept(arrays=fitted._fit[2].arrays()))
    # The mean is then over seven tokens.
    less = again.pairwise(queries, progress=False).values[9, 0] * (LENGTH - 1) / LENGTH
    np.testing.assert_allclose(scores[9] - less, carried[4, 0], rtol=1e-3)


def test_documents_of_several_rows_and_with_padding_have_tokens_of_each_row(corpus):
    lengths = [5, 12, 9, 3]
    documents = [torch.randint(1, WORDS, (length,)) for length in lengths]
    data = turnover.with_instance_ids(Documents(documents, length=6), groups="document")
    loader = DataLoader(data, batch_size=4, collate_fn=padded)
    model = trained(turnover.wrap(gpt2(), at=SITES), loader, epochs=5)
    influence = turnover.Influence(model, train=loader, estimator="curvature")
    queries, id = span_queries(documents[1], [(2, 5)]), int(influence.train_ids[1])
    parts = influence.training_tokens(queries, id)
    assert [int(np.isfinite(part).sum()) for part in parts] == [6, 5]
    whole = influence.pairwise(queries, ids=[id], progress=False).values[0, 0]
    assert sum(np.nansum(part) for part in parts) == pytest.approx(whole, rel=1e-3)


def test_masks_do_not_tell_tokens_of_one_instance_apart(model, corpus):
    queries = span_queries(corpus[0][:9], [(5, 7)])
    with pytest.raises(InfluenceError, match="estimator='curvature'"):
        turnover.Influence(model, train=corpus[1], estimator="tod").training_tokens(queries, 0)


BAD = {
    "the first token": ([1, 2, 3], [(0, 2)], r"1 <= start < end <= 3, got \(0, 2\)"),
    "an empty span": ([1, 2, 3], [(2, 2)], r"got \(2, 2\)"),
    "beyond the end": ([1, 2, 3], [(2, 4)], r"got \(2, 4\)"),
    "no span": ([1, 2, 3], [], "got none"),
    "numbers with fractions": ([1.5, 2.0], None, "token numbers"),
    "one token": ([1], None, "two token numbers or more"),
    "a batch": ([[1, 2], [3, 4]], None, r"\[2, 2\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_spans_that_cannot_be_asked_about_are_rejected(case):
    tokens, spans, message = BAD[case]
    with pytest.raises(InfluenceError, match=message):
        span_queries(tokens, spans)
