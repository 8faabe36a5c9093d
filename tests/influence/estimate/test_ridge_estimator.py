"""Denoised scores equal their definition, in every form and for every answer, and keep a true null."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import turnover
from tests.influence.models import mlp, trained
from tests.reference.ridge_twin import twin_influence_functions, twin_kernel, twin_smoother
from turnover.batches import FIRST_RESERVED_ID
from turnover.influence import Ridge

ROWS = 70
X, Y = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1)), torch.arange(ROWS) % 3
DATA = turnover.with_instance_ids(TensorDataset(X, Y))


def models(count: int, width: int = 32) -> list[nn.Module]:
    members = []
    for seed in range(count):
        torch.manual_seed(seed)
        members.append(trained(mlp(width), at=["1", "3"], seed=seed))
    return members


def asked(count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(2)), torch.arange(count) % 3


def cross_entropy(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, target[None])


TWIN_ROWS = [(x[None], y) for x, y in zip(X, Y, strict=True)]


def kernel_of(members: list[nn.Module], view: str = "full") -> np.ndarray:
    return twin_kernel(members, "4.weight", TWIN_ROWS, cross_entropy, view)


@pytest.mark.parametrize("how", ["gcv", "likelihood", "sure"])
@pytest.mark.parametrize("count", [1, 3])
def test_scores_and_errors_are_those_of_the_slow_twin(how, count):
    members = models(count)
    raw = turnover.Influence(members, estimator="tod", train=DATA).pairwise(asked())
    each = [turnover.Influence(one, estimator="tod", train=DATA).pairwise(asked()).values for one in members]
    found = turnover.Influence(members, train=DATA, estimator=Ridge(choose=how)).pairwise(asked())
    kernel = kernel_of(members)
    for query in range(5):
        noise = float(raw.null[:, query].std(ddof=1))
        smoother = twin_smoother(kernel, raw.values[:, query].astype(float), how, noise)
        assert np.allclose(found.values[:, query], smoother @ raw.values[:, query], atol=1e-4)
        if count == 1:
            errors = noise * np.sqrt(np.square(smoother).sum(1))
        else:
            errors = np.std([smoother @ one[:, query] for one in each], axis=0, ddof=1) / np.sqrt(count)
        assert np.allclose(found.stderr[:, query], errors, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("view", ["flip", "full"])
@pytest.mark.parametrize("count", [1, 3])
def test_influence_functions_are_mixed_in_as_the_slow_twin_does(view, count):
    members, weight = models(count), 0.5
    raw = turnover.Influence(members, estimator="tod", train=DATA).pairwise(asked())
    each = [turnover.Influence(one, estimator="tod", train=DATA).pairwise(asked()).values for one in members]
    found = turnover.Influence(members, train=DATA, estimator=Ridge(view=view, gradients=weight)).pairwise(asked())
    (x, y), kernel = asked(), kernel_of(members, view)
    for query in range(3):
        noise = float(raw.null[:, query].std(ddof=1))
        smoother = twin_smoother(kernel, raw.values[:, query].astype(float), "sure", noise)
        size = np.sqrt(np.square(smoother @ raw.values[:, query]).mean())
        whole = members, "4.weight", TWIN_ROWS, (x[query : query + 1], y[query]), cross_entropy
        functions = np.mean([twin_influence_functions(*whole, seen) for seen in ("flip", "full")], axis=0)
        by_member = [
            (smoother @ one[:, query] + weight * size * function) / (1 + weight)
            for one, function in zip(each, functions, strict=True)
        ]
        assert np.allclose(found.values[:, query], np.mean(by_member, axis=0), atol=1e-4)
        if count == 1:
            errors = noise * np.sqrt(np.square(smoother).sum(1)) / (1 + weight)
        else:
            errors = np.std(by_member, axis=0, ddof=1) / np.sqrt(count)
        assert np.allclose(found.stderr[:, query], errors, rtol=1e-3, atol=1e-4)


def test_influence_functions_of_several_layers_are_the_same_in_both_forms():
    members = models(2, width=16)
    kernel, primal = (
        turnover.Influence(members, train=DATA, estimator=denoise).pairwise(asked())
        for denoise in (
            Ridge(form=form, gradients=1, layers=("2", "4"), projection=4096) for form in ("kernel", "primal")
        )
    )
    assert "kernel form" in kernel.path
    assert "projected" not in primal.path
    assert np.abs(kernel.values - primal.values).max() < 1e-4


def test_scaling_by_query_divides_everything_by_the_root_mean_square_of_the_fit():
    fit = turnover.Influence(models(1), train=DATA, estimator="ridge").pairwise(asked()).values
    plain = turnover.Influence(models(1), train=DATA, estimator=Ridge(gradients=1)).pairwise(asked())
    scaled = turnover.Influence(models(1), train=DATA, estimator=Ridge(gradients=1, scale="query"))
    found, size = scaled.pairwise(asked()), np.sqrt(np.square(fit).mean(0))
    assert np.allclose(found.values, plain.values / size, rtol=1e-3, atol=1e-3)
    assert np.allclose(found.stderr, plain.stderr / size, rtol=1e-3, atol=1e-3)
    assert np.allclose(found.null, plain.null / size, rtol=1e-3, atol=1e-3)
    assert np.allclose(found.offset, plain.offset / size, rtol=1e-3, atol=1e-3)
    assert found.unit == "the usual effect on the loss of each query"
    assert "in units of the usual effect on the loss of each query (positive:" in str(found)
    assert np.allclose(scaled.mean(asked()).values, found.values.mean(1), atol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("count", [1, 3])
def test_the_primal_form_equals_the_kernel_form(count, weight):
    members = models(count)
    kernel, primal, again = (
        turnover.Influence(members, train=DATA, estimator=Ridge(form=form, gradients=weight), memory=memory).pairwise(
            asked()
        )
        for form, memory in [("kernel", None), ("primal", None), ("primal", 26_000)]
    )
    assert "kernel form" in kernel.path
    assert np.abs(kernel.values - primal.values).max() < 1e-4
    assert np.abs(kernel.stderr - primal.stderr).max() < 1e-4
    assert np.abs(kernel.null - primal.null).max() < 1e-4
    # features that do not fit into the memory are computed again; nothing else changes
    assert "primal form" in again.path
    assert np.abs(kernel.values - again.values).max() < 1e-4
    assert np.abs(kernel.null - again.null).max() < 1e-4


@pytest.mark.parametrize("denoise", [Ridge(), Ridge(gradients=1, scale="query")], ids=["fit", "gradients"])
def test_all_answers_agree(tmp_path, denoise):
    pytest.importorskip("zarr", reason="needs the extra store")
    inf = turnover.Influence(models(1), train=DATA, estimator=denoise)
    pairs, mean, top = inf.pairwise(asked()), inf.mean(asked()), inf.top(asked(), k=3)
    assert np.allclose(pairs.values.mean(1), mean.values, atol=1e-6)
    assert np.allclose(pairs.null.mean(1), mean.null, atol=1e-6)
    assert np.array_equal(top.helpful_ids, pairs.top(3).helpful_ids)
    assert np.allclose(top.harmful_scores, pairs.top(3).harmful_scores, atol=1e-6)
    assert np.allclose(top.harmful_stderr, pairs.top(3).harmful_stderr, atol=1e-6)
    assert top.path == pairs.path == mean.path
    stored = inf.pairwise(asked(), out=tmp_path / "scores")
    assert np.allclose(stored.values, pairs.values, atol=1e-6)
    assert np.allclose(stored.stderr, pairs.stderr, atol=1e-6)
    assert np.allclose(stored.null, pairs.null, atol=1e-6)
    assert stored.path == pairs.path
    some = inf.pairwise(asked(), ids=[40, 3, 3])
    assert np.allclose(some.values, pairs.values[[40, 3, 3]], atol=1e-6)
    assert np.allclose(inf.null(asked()).values, pairs.null, atol=1e-6)
    assert inf.null(asked(), n=30).values.shape == (30, 5)


def test_blocks_of_queries_change_nothing(monkeypatch):
    inf = turnover.Influence(models(1), train=DATA, estimator="ridge")
    whole, mean = inf.pairwise(asked()), inf.mean(asked())
    monkeypatch.setattr("turnover.influence.estimate.ridge.Denoising.queries_per_block", 2)
    monkeypatch.setattr("turnover.influence._question._IDS_PER_TILE", 16)
    parts, mean_of_parts = inf.pairwise(asked()), inf.mean(asked())
    assert np.allclose(whole.values, parts.values, atol=1e-6)
    assert np.allclose(whole.null, parts.null, atol=1e-6)
    assert np.allclose(mean.stderr, mean_of_parts.stderr, rtol=1e-4)
    assert whole.path == parts.path
    assert inf.top(asked(), k=3).path == whole.path


def test_the_error_of_a_mean_is_that_of_the_smoothed_noise():
    (one,) = models(1)
    raw = turnover.Influence(one, estimator="tod", train=DATA).pairwise(asked())
    found = turnover.Influence(one, train=DATA, estimator=Ridge(choose="gcv")).mean(asked())
    smoothers = [twin_smoother(kernel_of([one]), raw.values[:, q].astype(float), "gcv", 0.0) for q in range(5)]
    rng = np.random.default_rng(0)
    noise = raw.null[rng.integers(len(raw.null), size=(2000, ROWS))]  # [draws, rows, queries]
    means = np.mean([noise[:, :, q] @ smoothers[q].T for q in range(5)], axis=0)
    assert np.allclose(found.stderr, means.std(0), rtol=0.15)


@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("how", ["gcv", "likelihood", "sure"])
def test_rows_that_were_never_trained_are_within_the_null(how, weight):
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(400, 6, generator=drawn), torch.randint(3, (400,), generator=drawn)
    ids = torch.arange(FIRST_RESERVED_ID + 5000, FIRST_RESERVED_ID + 5400)
    denoise = Ridge(choose=how, gradients=weight)
    found = turnover.Influence(models(2), train=(x, y, ids), estimator=denoise).pairwise(asked(40))
    raw = turnover.Influence(models(2), estimator="tod", train=(x, y, ids)).pairwise(asked(40))
    assert found.values.std() < 0.3 * raw.values.std()
    assert 0.4 < found.values.std() / found.null.std() < 1.15
    assert abs(found.values.mean()) < 0.5 * found.null.std()


@pytest.mark.filterwarnings("ignore:the self-influence of these")
def test_self_influence_is_never_denoised():
    inf = turnover.Influence(models(1), train=DATA, estimator="ridge")
    plain = turnover.Influence(models(1), estimator="tod", train=DATA)
    assert inf.self_influence().equals(plain.self_influence())


def test_scores_say_how_they_were_denoised():
    scores = turnover.Influence(models(1), train=DATA, estimator="ridge").pairwise(asked())
    assert "ridge on 96 features, kernel form" in scores.path
    assert "degrees of freedom" in scores.path
    assert scores.provenance["options"]["denoise"]["choose"] == Ridge().choose


def test_too_many_rows_for_the_kernel_form_switch_and_say_so(monkeypatch):
    monkeypatch.setattr("turnover.influence.estimate._basis._MOST_KERNEL_ROWS", 50)
    monkeypatch.setattr("turnover.influence.estimate._ridge_options.FEATURES", 60)
    scores = turnover.Influence(models(1), train=DATA, estimator=Ridge(form="kernel")).pairwise(asked())
    assert "70 rows are too many for the kernel form" in scores.path
    assert "primal form" in scores.path


def test_new_weights_are_fitted_anew():
    (one,) = models(1)
    inf = turnover.Influence(one, train=DATA, estimator="ridge")
    before = inf.pairwise(asked())
    with torch.no_grad():
        one[4].weight.mul_(2.0)
    after = inf.pairwise(asked())
    assert np.allclose(
        after.values, turnover.Influence(one, train=DATA, estimator="ridge").pairwise(asked()).values, atol=1e-6
    )
    assert not np.allclose(after.values, before.values, atol=1e-2)


def test_a_pair_that_failed_stays_failed_and_the_others_are_fitted():
    (one,) = models(1)
    x, y = asked(3)
    losses = torch.empty(3, 2, ROWS)
    for query in range(3):
        for place, view in enumerate(("keep", "flip")):
            with turnover.instances(range(ROWS), view=view), torch.no_grad():
                outputs = one(x[query : query + 1])
            losses[query, place] = nn.functional.cross_entropy(outputs, y[query].expand(ROWS), reduction="none")
    highest = losses.amax(1).sort(1).values
    # Queries have the targets 0, 1, 2: 20 instances fail on the first, 2 on the second, none on the third.
    limits = torch.stack([highest[0, -21:-19].mean(), highest[1, -3:-1].mean(), torch.tensor(torch.inf)])

    def measure(outputs, targets):
        found = nn.functional.cross_entropy(outputs, targets, reduction="none")
        return torch.where(found > limits[targets], torch.nan, -found)

    with pytest.warns(turnover.errors.TurnOverWarning, match="not finite"):
        raw = turnover.Influence(one, estimator="tod", train=DATA, measure=measure).pairwise((x, y))
    failed = ~np.isfinite(raw.values)
    assert failed.sum(0).tolist() == [20, 2, 0]
    inf = turnover.Influence(one, train=DATA, measure=measure, estimator="ridge")
    with pytest.warns(turnover.errors.TurnOverWarning, match="not finite"):
        found = inf.pairwise((x, y))
    assert np.isnan(found.values[:, 0]).all()
    assert np.array_equal(np.isnan(found.values[:, 1:]), failed[:, 1:])
    assert np.isfinite(inf.mean((x, y)).values).all()


def test_a_folder_of_another_denoising_or_training_set_is_refused(tmp_path):
    pytest.importorskip("zarr", reason="needs the extra store")
    (one,) = models(1)
    folder = tmp_path / "scores"
    turnover.Influence(one, train=DATA, estimator="ridge").pairwise(asked(), out=folder)
    for other in ("tod", Ridge(choose="gcv"), Ridge(view="flip"), Ridge(gradients=1), Ridge(scale="query")):
        with pytest.raises(turnover.errors.StoreMismatchError, match="options"):
            turnover.Influence(one, train=DATA, estimator=other).pairwise(asked(), out=folder)
    relabeled = turnover.with_instance_ids(TensorDataset(X, (Y + 1) % 3))
    with pytest.raises(turnover.errors.StoreMismatchError, match="train"):
        turnover.Influence(one, train=relabeled, estimator="ridge").pairwise(asked(), out=folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"estimator": "lasso"}, "estimator='lasso' is unknown"),
        ({"estimator": "ridge", "train": None}, "there is no train"),
        ({"estimator": "ridge", "train": (X, torch.arange(ROWS))}, "labels"),
        ({"estimator": lambda: Ridge(view="half")}, "view='half'"),
        ({"estimator": lambda: Ridge(choose="aic")}, "choose='aic'"),
        ({"estimator": lambda: Ridge(form="dual")}, "form='dual'"),
        ({"estimator": lambda: Ridge(projection=0)}, "integer >= 1, got 0"),
        ({"estimator": lambda: Ridge(seed=-1)}, "integer >= 0, got -1"),
        ({"estimator": lambda: Ridge(gradients=-1)}, "number >= 0, got -1"),
        ({"estimator": lambda: Ridge(gradients="all")}, "number >= 0, got 'all'"),
        ({"estimator": lambda: Ridge(scale="loss")}, "scale='loss'"),
        ({"estimator": lambda: Ridge(features=3)}, "must be a function, got 3"),
        ({"estimator": lambda: Ridge(features=max, layers=("4",))}, "Leave one out"),
        ({"estimator": Ridge(layers=("9",))}, "must be Linear layers of this model, got '9'"),
        ({"estimator": Ridge(features=lambda model, inputs, targets: inputs[0])}, r"Return a tensor \[rows, d\]"),
        ({"estimator": "ridge", "loss": lambda o, t: o.detach()[:, 0]}, "gradient"),
        ({"estimator": "ridge", "loss": lambda o, t: 0 * o.sum(1)}, r"Give estimator='tod', or .*: estimator=turnover"),
        ({"estimator": "ridge", "train": (X, torch.arange(ROWS))}, r"Or give .*: estimator=turnover.influence.Ridge"),
    ],
)
def test_what_cannot_be_denoised_is_said(options, said):
    def ask(estimator, train=DATA, **given):
        how = estimator if isinstance(estimator, str | Ridge) else estimator()
        turnover.Influence(models(1), train=train, estimator=how, **given).pairwise(asked())

    with pytest.raises(turnover.errors.InfluenceError, match=said):
        ask(**options)


def test_ids_that_are_not_in_train_are_refused():
    with pytest.raises(turnover.errors.InfluenceError, match="not in train"):
        turnover.Influence(models(1), train=DATA, estimator="ridge").pairwise(asked(), ids=[3, 99])
