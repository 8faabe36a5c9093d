"""Language model: a toy run trains, scores and trains again; the page says what its numbers say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from turnover_bench.experiments.lm.config import SIZES, Network
from turnover_bench.experiments.lm.model import FeedForwardLM, Vocabulary
from turnover_bench.experiments.lm.training import Corpus, Positions, load_corpus, perplexity, trained


def test_the_text_lies_around_the_passage_and_positions_are_its_words(toy):
    corpus = load_corpus(SIZES["toy"])
    words = [corpus.vocabulary.words[number] for number in corpus.train.words.tolist()]
    assert words[corpus.passage : corpus.passage + 6] == ["The", "cast", "was", ":", "<eos>", "John"]
    assert len(corpus.train) == 2_000 - SIZES["toy"].network.context
    assert corpus.train.contexts[10, -1] == corpus.train.words[9]
    assert corpus.counts.sum() == len(corpus.train)
    assert corpus.frequencies[0] == corpus.counts[corpus.train.words[0]]


def test_a_rate_without_plateaus_falls_in_a_straight_line_to_zero():
    words = Vocabulary(tuple(str(number) for number in range(10)))
    positions = Positions.of(torch.randint(10, (100,), generator=torch.Generator().manual_seed(0)), 4)
    corpus = Corpus(words, positions, np.ones(10), valid=positions, test=positions, passage=0, first=0)
    network = Network(size=8, batch=40, epochs=2, dropout=0.0, weight_decay=0.0, decay=None)
    _, curve = trained(corpus, network, rate=2.0, seed=5, masked=False)

    torch.manual_seed(5)
    twin = FeedForwardLM(10, context=4, embedding=8, hidden=8, dropout=0.0)
    expected, steps_left = [], 6
    for _ in range(2):
        for rows in torch.randperm(96).split(40):
            loss = functional.cross_entropy(twin(positions.contexts[rows]), positions.words[rows])
            gradients = torch.autograd.grad(loss, list(twin.parameters()))
            with torch.no_grad():
                for weight, gradient in zip(twin.parameters(), gradients, strict=True):
                    weight -= 2.0 * steps_left / 6 * gradient
            steps_left -= 1
        expected.append(perplexity(twin, positions))
    assert curve == pytest.approx(expected, rel=1e-5)


def _corpus(words):
    vocabulary = Vocabulary.of([" ".join(words)])
    train = Positions.of(vocabulary.encode([" ".join(words)]), 2)
    counts = np.bincount(train.words.numpy(), minlength=len(vocabulary))
    return Corpus(vocabulary, train, counts, train, train, passage=0, first=0)


def test_positions_around_the_passage_keep_their_ids_and_the_counts_of_the_whole_text():
    words = " ".join(f"w{number % 9} the" for number in range(30)).split()
    whole = replace(_corpus(words), passage=40)
    part = whole.around_passage(20)
    assert part.ids.tolist() == list(range(30, 50))
    assert torch.equal(part.train.words, whole.train.words[part.ids])
    assert torch.equal(part.train.contexts[part.passage], whole.train.contexts[whole.passage])
    assert np.array_equal(part.frequencies, whole.frequencies[part.ids])
    assert part.first == whole.first + 30
    assert whole.around_passage(None) is whole
    assert whole.around_passage(len(whole.train)).ids.tolist() == whole.ids.tolist()
