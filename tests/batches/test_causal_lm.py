"""Causal transformers of Hugging Face: sequences or documents as instances, scores of each and of each token."""

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import turnover
from turnover.batches import Documents, Sequences, padded
from turnover.errors import InfluenceError
from turnover.influence import TurnOver

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

WORDS = 40
SITES = {
    "gpt2": ["transformer.h.*.mlp.act", "transformer.ln_f"],
    "llama": ["model.layers.*.mlp.act_fn", "model.norm"],
}


def tiny(kind):
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2":
        off = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        config = transformers.GPT2Config(
            vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2, **off, **ends
        )
        return transformers.GPT2LMHeadModel(config)
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16,
        **ends,
    )
    return transformers.LlamaForCausalLM(config)


def trained(kind, loader, epochs):
    model = turnover.wrap(tiny(kind), at=SITES[kind])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in loader:
            ids, labels = batch.pop("instance_id"), batch.pop("labels")
            with turnover.instances(ids):
                loss = functional.cross_entropy(model(**batch).logits.flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


@pytest.mark.parametrize("kind", SITES)
def test_no_site_of_a_causal_transformer_is_warned_of(kind):
    plan = turnover.plan(tiny(kind), at=SITES[kind], example=torch.zeros(2, 5, dtype=torch.long))
    assert len(plan.sites) == 3
    assert not plan.warnings


@pytest.mark.parametrize("kind", SITES)
def test_every_sequence_has_a_score_and_so_has_every_token(kind):
    data = turnover.with_instance_ids(Sequences(torch.randint(WORDS, (16 * 8 + 1,)), length=8))
    model = trained(kind, DataLoader(data, batch_size=8, shuffle=True), epochs=12)
    scores = turnover.Influence(model, train=data).self_influence(progress=False)
    assert scores.values.shape == (16,)
    assert all(scores.tokens(row).shape == (8,) for row in range(16))
    assert scores.null is not None
    # Random text can only be memorized.
    assert scores.values.mean() > 3 * scores.null.std() / len(scores) ** 0.5


def test_rows_of_a_document_share_their_instance_and_padding_has_no_score():
    lengths = [5, 12, 9, 3]
    documents = [torch.randint(1, WORDS, (length,)) for length in lengths]
    data = turnover.with_instance_ids(Documents(documents, length=6), groups="document")
    loader = DataLoader(data, batch_size=4, collate_fn=padded)
    scores = turnover.Influence(trained("llama", loader, epochs=2), train=loader).self_influence(progress=False)
    assert len(np.unique(scores.ids)) == 4
    assert sum(len(scores.tokens(row)) for row in range(len(scores))) == sum(length - 1 for length in lengths)
    assert all(np.isfinite(scores.tokens(row)).all() for row in range(len(scores)))


def test_queries_are_sequences_whose_score_is_the_mean_of_their_tokens():
    data = turnover.with_instance_ids(Sequences(torch.randint(WORDS, (6 * 5 + 1,)), length=5))
    model = trained("gpt2", DataLoader(data, batch_size=6), epochs=1)
    query = {"input_ids": torch.randint(WORDS, (1, 5)), "labels": torch.randint(WORDS, (1, 5))}
    scores = turnover.Influence(model, estimator=TurnOver(center=False)).pairwise(query, ids=[3], progress=False)
    losses = {}
    for view in ("keep", "flip"):
        with turnover.instances([3], view=view), torch.no_grad():
            losses[view] = functional.cross_entropy(model.eval()(query["input_ids"]).logits[0], query["labels"][0])
    assert scores.values[0, 0] == pytest.approx(float(losses["flip"] - losses["keep"]), abs=1e-5)


@pytest.mark.parametrize("ask", ["pairwise", "self_influence"])
def test_labels_that_are_not_shifted_are_refused_unless_the_loss_shifts_them(ask):
    model = turnover.wrap(tiny("gpt2"), at=SITES["gpt2"])
    tokens = torch.randint(WORDS, (2, 6))
    rows = {"input_ids": tokens, "labels": tokens.clone(), "instance_id": torch.arange(2)}
    with turnover.instances([0, 1]):
        model(tokens)
    if ask == "pairwise":
        rows.pop("instance_id")

    def asked(**options):
        influence = turnover.Influence(model, **options)
        if ask == "pairwise":
            return influence.pairwise(rows, ids=[0, 1], progress=False)
        each = [{name: values[place] for name, values in rows.items()} for place in range(2)]
        return influence.self_influence(DataLoader(each, batch_size=2), progress=False)

    with pytest.raises(InfluenceError, match=r"labels are the input_ids themselves.*next token"):
        asked()

    def shifting(outputs, labels):
        return functional.cross_entropy(outputs[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")

    assert np.isfinite(asked(loss=shifting).values).all()
