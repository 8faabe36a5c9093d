"""Self-influence of single tokens: what a row's score is the mean of."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.errors import ScoresError
from turnover.influence import TurnOver

WORDS, LENGTH, ROWS = 12, 5, 9


def tagger(seed=0, **options):
    torch.manual_seed(seed)
    layers = nn.Embedding(WORDS, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, WORDS, bias=False)
    return trained(turnover.wrap(nn.Sequential(*layers), at=["2"], seed=seed, **options), torch.zeros(2, 3).long())


def trained(model, x):
    """Return a model whose masks were in use once, which is all that these tests need."""
    with turnover.instances(range(len(x))):
        model(x)
    return model.eval()


def token_loss(outputs, targets):
    return functional.cross_entropy(outputs.movedim(-1, 1), targets, reduction="none")


@pytest.fixture
def rows():
    x, y = torch.randint(WORDS, (ROWS, LENGTH)), torch.randint(WORDS, (ROWS, LENGTH))
    y[1, 3:] = -100  # padding
    y[2, 1] = -100  # in the middle
    y[3] = -100  # nothing counts
    return x, y, torch.arange(ROWS)


def by_hand(model, x, y, ids):
    """Return loss(flip) - loss(keep) of every token."""
    losses = {}
    for view in ("flip", "keep"):
        with turnover.instances(ids, view=view), torch.no_grad():
            losses[view] = token_loss(model(x), y)
    return (losses["flip"] - losses["keep"]).numpy()


@pytest.mark.parametrize("loss", [None, token_loss], ids=["default", "given"])
def test_token_scores_are_the_flipped_minus_the_kept_loss_of_each_token(rows, loss):
    model = tagger()
    scores = turnover.Influence(model, loss=loss, estimator=TurnOver(center=False)).self_influence(rows, progress=False)
    wanted = by_hand(model, *rows)
    np.testing.assert_allclose(scores.tokens(0), wanted[0], atol=1e-6)
    np.testing.assert_allclose(scores.tokens(1), wanted[1, :3], atol=1e-6)
    assert np.isnan(scores.tokens(2)).tolist() == [False, True, False, False, False]
    assert scores.tokens(3).shape == (0,)
    assert scores.tokens(0).dtype == np.float32


@pytest.mark.parametrize("against", ["keep", "full"])
@pytest.mark.parametrize("replicas", [1, 3])
def test_the_mean_of_a_rows_tokens_is_its_score(rows, against, replicas):
    model = tagger(replicas=replicas)
    scores = turnover.Influence([model, tagger(seed=7)], estimator=TurnOver(against=against)).self_influence(
        rows, progress=False
    )
    counted = [row for row in range(ROWS) if row != 3]
    means = [np.nanmean(scores.tokens(row)) for row in counted]
    np.testing.assert_allclose(means, scores.values[counted], atol=1e-5)


@pytest.mark.parametrize("as_measure", [False, True], ids=["loss", "measure"])
def test_a_loss_or_measure_of_the_users_is_averaged_over_the_tokens_that_count(rows, as_measure):
    model = tagger()
    own = {"measure": lambda outputs, targets: -token_loss(outputs, targets)} if as_measure else {"loss": token_loss}
    given = turnover.Influence(model, **own, estimator=TurnOver(center=False))
    default = turnover.Influence(model, estimator=TurnOver(center=False))
    whole = given.self_influence(rows, progress=False)
    np.testing.assert_allclose(whole.values, default.self_influence(rows, progress=False).values, atol=1e-6)
    np.testing.assert_allclose(whole.values[1], by_hand(model, *rows)[1, :3].mean(), atol=1e-6)
    queries = rows[0][:3], rows[1][:3]
    np.testing.assert_allclose(
        given.pairwise(queries, ids=range(4), progress=False).values,
        default.pairwise(queries, ids=range(4), progress=False).values,
        atol=1e-6,
    )


def test_token_scores_do_not_depend_on_the_padding_of_a_batch(rows):
    x, y, ids = rows
    influence = turnover.Influence(tagger(), estimator=TurnOver(center=False))
    whole = influence.self_influence(rows, progress=False)
    short = influence.self_influence((x[1:2, :3], y[1:2, :3], ids[1:2]), progress=False)
    np.testing.assert_allclose(short.tokens(0), whole.tokens(1), atol=1e-6)


def test_a_single_row_can_be_asked_though_one_null_has_no_spread(rows):
    x, y, ids = rows
    scores = turnover.Influence(tagger()).self_influence((x[:1], y[:1], ids[:1]), progress=False)
    assert scores.values.shape == (1,)
    assert scores.stderr is None


@pytest.mark.parametrize("measure", ["margin", lambda outputs, targets: -token_loss(outputs, targets)])
def test_other_measures_have_token_scores_too(rows, measure):
    scores = turnover.Influence(tagger(), measure=measure).self_influence(rows, progress=False)
    assert scores.tokens(0).shape == (LENGTH,)


def test_rows_with_one_value_have_no_token_scores_and_the_error_says_how_to_get_them():
    model = turnover.wrap(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), at=["1"])
    model = trained(model, torch.randn(2, 4))
    rows = torch.randn(6, 4), torch.randint(3, (6,)), torch.arange(6)
    scores = turnover.Influence(model).self_influence(rows, progress=False)
    with pytest.raises(ScoresError, match=r"none of single tokens.*\[rows, tokens\]"):
        scores.tokens(0)


def test_tokens_follow_their_rows_through_loaders_and_selection(rows):
    model = tagger()
    data = turnover.with_instance_ids(TensorDataset(*rows[:2]))
    influence = turnover.Influence(model, estimator="tod", train=data)
    whole = influence.self_influence(progress=False)
    batched = influence.self_influence(DataLoader(data, batch_size=4), progress=False)
    np.testing.assert_allclose(batched.tokens(5), whole.tokens(5), atol=1e-5)
    assert np.array_equal(whole.select(ids=[5]).tokens(0), whole.tokens(5))
