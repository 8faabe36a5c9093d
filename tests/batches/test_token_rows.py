"""Texts of language models as rows of tokens: sequences, documents, padding."""

import pytest
import torch
from torch.utils.data import DataLoader

import turnover
from turnover.batches import Documents, Sequences, padded
from turnover.errors import BatchError


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


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: Sequences(torch.arange(3), length=3), "3 tokens, too few for 3"),
        (lambda: Sequences(torch.zeros(2, 5), length=2), "whole numbers"),
        (lambda: Sequences(torch.arange(3), length=0), "got 0"),
        (lambda: Documents([[1]], length=2), "no next word"),
    ],
)
def test_a_text_that_is_too_short_or_no_row_of_numbers_is_rejected(read, message):
    with pytest.raises(BatchError, match=message):
        read()
