"""The feed-forward language model leaks nothing unless it is tied; a corpus as positions, sequences and documents."""

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import turnover
from turnover.errors import BatchError, TrainingError
from turnover.runs.language_models import (
    ContextWindows,
    Documents,
    FeedForwardLM,
    Sequences,
    Vocabulary,
    language_model_sites,
    padded,
)

WORDS, CONTEXT = 30, 3


def small(**options):
    options = {"context": CONTEXT, "embedding": 32, "hidden": 32, **options}
    return FeedForwardLM(WORDS, **options)


@pytest.fixture
def batch():
    return torch.randint(WORDS, (8, CONTEXT)), torch.randint(WORDS, (8,)), torch.arange(8)


def test_its_sizes_and_dropout_are_those_of_the_paper():
    with torch.device("meta"):
        model = FeedForwardLM(33_278)
    assert model.embedding.embedding_dim == model.hidden.out_features == model.output.in_features == 650
    assert model.embedding_dropout.p == model.hidden_dropout.p == 0.3


def test_nothing_leaks_in_the_untied_model(batch):
    plan = turnover.plan(small(), at=language_model_sites(), example=batch[0])
    assert not plan.warnings
    assert all(site.zero.keeps for site in plan.sites)
    report = turnover.audit(turnover.wrap(small(), at=language_model_sites()), batch)
    assert not report.leaks


def test_tied_weights_and_an_output_bias_leak_and_the_audit_names_them(batch):
    model = turnover.wrap(small(tied=True, bias=True), at=language_model_sites())
    assert model.get_parameter("output.weight") is model.get_parameter("embedding.weight")
    assert {leak.name for leak in turnover.audit(model, batch).leaks} == {"embedding.weight", "output.bias"}


def test_tied_weights_of_two_sizes_are_refused():
    with pytest.raises(TrainingError, match=r"embedding=32 and hidden=16 differ"):
        small(tied=True, hidden=16)


def test_a_position_that_breaks_the_pattern_has_the_largest_self_influence():
    # A text that repeats itself, but for three words in the middle.
    tokens = torch.arange(10).repeat(30)
    odd = [105, 150, 204]
    tokens[odd] = torch.tensor([25, 26, 27])
    data = turnover.with_instance_ids(ContextWindows(tokens, context=CONTEXT))
    model = turnover.wrap(small(dropout=0.0, embedding=64, hidden=64), at=language_model_sites())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(12):
        for x, y, ids in DataLoader(data, batch_size=32, shuffle=True):
            with turnover.instances(ids):
                loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    scores = turnover.Influence(model, train=data).self_influence(progress=False)
    near = {place - shift for place in odd for shift in range(CONTEXT + 1)}  # ids count from the first full context
    assert len({place - CONTEXT for place in odd} & set(scores.top(6).helpful_ids[0].tolist())) >= 2
    assert set(scores.top(3).helpful_ids[0].tolist()) <= near


def test_every_position_with_a_full_context_is_one_instance():
    windows = ContextWindows(torch.arange(10), context=3)
    assert len(windows) == 7
    assert [int(word) for _, word in windows] == [3, 4, 5, 6, 7, 8, 9]
    assert windows[-1][0].tolist() == [6, 7, 8]
    with pytest.raises(IndexError):
        windows[7]


def test_sequences_cover_the_corpus_and_their_labels_are_the_next_words():
    data = Sequences(torch.arange(10), length=3)
    rows = [data[place] for place in range(len(data))]
    assert [row["input_ids"].tolist() for row in rows] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert all(torch.equal(row["labels"], row["input_ids"] + 1) for row in rows)


def test_every_word_of_a_document_but_the_first_is_predicted_once():
    documents = [list(range(100 * n, 100 * n + length)) for n, length in enumerate([7, 2, 1, 6])]
    rows = Documents(documents, length=3)
    for number, document in enumerate(documents):
        labels = [label for row in rows if row["document"] == number for label in row["labels"].tolist()]
        assert labels == document[1:]


def test_rows_of_one_document_share_an_id_and_its_number_does_not_reach_the_model():
    data = turnover.with_instance_ids(Documents([[1, 2, 3, 4, 5], [6, 7]], length=2), groups="document")
    batch = next(iter(DataLoader(data, batch_size=3, collate_fn=padded)))
    ids = batch["instance_id"].tolist()
    assert ids[0] == ids[1] != ids[2]
    assert set(batch) == {"input_ids", "attention_mask", "labels", "instance_id"}


def test_padding_is_masked_and_does_not_count():
    data = Documents([[1, 2, 3], [4, 5]], length=8)
    batch = padded([data[0], data[1]])
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["labels"].tolist() == [[2, 3], [5, -100]]


def test_a_vocabulary_numbers_frequent_words_first_and_marks_ends_and_unknown_words():
    vocabulary = Vocabulary.of(["b a b <unk>"], most=1)
    assert vocabulary.words == ("<eos>", "<unk>", "b")
    assert vocabulary.encode(["b a", ""]).tolist() == [2, 1, 0, 0]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: ContextWindows(torch.arange(3), context=3), "3 tokens, too few for 3"),
        (lambda: Sequences(torch.zeros(2, 5), length=2), "whole numbers"),
        (lambda: Documents([[1]], length=2), "no next word"),
        (lambda: ContextWindows(torch.arange(3), context=0), "0 was given"),
    ],
)
def test_a_corpus_that_is_too_short_or_no_row_of_numbers_is_refused(read, message):
    with pytest.raises(BatchError, match=message):
        read()
