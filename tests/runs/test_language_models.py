"""The feed-forward language model: nothing leaks unless it is tied, and positions are instances."""

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import turnover
from turnover.errors import TrainingError
from turnover.runs.language_models import ContextWindows, FeedForwardLM, language_model_sites

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
