"""The paper's language model: nothing leaks unless it is tied; frequent words come first; colors of a text."""

import pytest
import torch

import turnover
from turnover_bench.experiments.lm.model import FeedForwardLM, Vocabulary, language_model_sites

WORDS, CONTEXT = 30, 3


def small(**options):
    options = {"context": CONTEXT, "embedding": 32, "hidden": 32, **options}
    return FeedForwardLM(WORDS, **options)


@pytest.fixture
def batch():
    return torch.randint(WORDS, (8, CONTEXT)), torch.randint(WORDS, (8,)), torch.arange(8)


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


def test_a_vocabulary_numbers_frequent_words_first_and_marks_ends_and_unknown_words():
    vocabulary = Vocabulary.of(["b a b <unk>"], most=1)
    assert vocabulary.words == ("<eos>", "<unk>", "b")
    assert vocabulary.encode(["b a", ""]).tolist() == [2, 1, 0, 0]
