"""Keep, flip, full and mixed views, expansion of a batch of one, and what happens without ids."""

import pytest
import torch
from torch import nn

import turnover
from tests.layers.models import IDS, both_kinds, dropout_mlp, mlp, run, seen_at, wrapped_mlp
from tests.reference import forward_twin
from turnover.errors import BatchSizeError, InstancesError
from turnover.layers import masking_of
from turnover.masks import Codebook, Counter, Volatile

VIEWS = ["keep", "flip", "full", ["keep", "flip", "full", "flip", "keep"]]


def cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 33, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(33, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(20, 3)
    )


FEATURES, CHANNELS = dict.fromkeys(["relu1", "relu2"], "features"), dict.fromkeys(["1", "4"], "channels")


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("make", "at", "shape", "keep"),
    [(mlp, FEATURES, (6,), keep) for keep in (0.5, 0.1, 0.75, 0.9)]
    + [(cnn, CHANNELS, (2, 8, 8), keep) for keep in (0.5, 0.8)],
)
def test_masks_equal_the_slow_twin(make, at, shape, keep, dtype, view):
    plain, x = make().to(dtype), torch.randn(5, *shape, dtype=dtype)
    outputs = run(turnover.wrap(plain, at=at, keep=keep), x, view=view)
    sites = {path: (dim, keep) for path, dim in at.items()}
    small = 1e-12 if dtype == torch.float64 else 1e-5
    expected = forward_twin.forward(plain, x, ids=IDS, views=view, sites=sites)
    torch.testing.assert_close(outputs, expected, rtol=small, atol=small)


@pytest.mark.parametrize("source", [Counter(3), Volatile(3, block=16), Codebook(3, rows=64, picks=2)], ids=str)
def test_every_mask_source_equals_the_slow_twin(source):
    plain, x, views = mlp(), torch.randn(5, 6), VIEWS[-1]
    model = turnover.wrap(plain, at=FEATURES, masks=source, keep=0.6)
    sites = dict.fromkeys(FEATURES, ("features", 0.6))
    expected = forward_twin.forward(plain, x, ids=IDS, views=views, sites=sites, source=source)
    torch.testing.assert_close(run(model, x, view=views), expected)
    assert masking_of(model).recipe.kind == source.kind


@pytest.mark.parametrize("keep", [0.5, 0.25, 0.9])
def test_keep_and_flip_are_exact_complements_with_the_right_scale(keep):
    model = wrapped_mlp(keep).eval()
    x = torch.randn(5, 6).abs() + 0.1
    parts = {}
    for view in ("keep", "flip", "full"):
        seen = seen_at(model, ["relu1"], x, view=view)
        parts[view] = seen["relu1"]
    on, off = parts["keep"] != 0, parts["flip"] != 0
    alive = parts["full"] != 0
    assert torch.equal(on ^ off, alive)
    scaled = torch.where(on, parts["full"] / keep, parts["full"] / (1 - keep)) * alive
    torch.testing.assert_close(parts["keep"] + parts["flip"], scaled)


def test_mixed_views_equal_the_rows_of_single_views():
    model = wrapped_mlp().eval()
    x = torch.randn(5, 6)
    rows = {view: run(model, x, view=view) for view in ("keep", "flip", "full")}
    mixed = VIEWS[-1]
    found = run(model, x, view=mixed)
    torch.testing.assert_close(found, torch.stack([rows[view][i] for i, view in enumerate(mixed)]))


def test_all_positions_of_an_instance_have_one_mask():
    model = turnover.wrap(nn.Sequential(nn.Linear(6, 50), nn.Identity()), at=["0", "1"])
    seen = seen_at(model, ["0"], torch.randn(5, 9, 6))
    on = seen["0"] != 0
    assert torch.equal(on, on[:, :1].expand_as(on))
    assert len({tuple(row.tolist()) for row in on[:, 0]}) == len(IDS)


@pytest.mark.parametrize("make", [wrapped_mlp, dropout_mlp, both_kinds])
def test_eval_without_ids_is_the_plain_model_exactly(make):
    model = make().eval()
    x = torch.randn(5, 6)
    assert torch.equal(model(x), turnover.unwrap(model)(x))


@pytest.mark.parametrize(("make", "site"), [(wrapped_mlp, "relu1"), (dropout_mlp, "2"), (both_kinds, "2")])
def test_training_without_ids_raises_and_names_the_site(make, site):
    model = make().train()
    with pytest.raises(InstancesError, match=rf"site '{site}' ran in training mode without instance ids.*with"):
        model(torch.randn(5, 6))


def test_a_layer_that_was_never_wrapped_raises_in_training_and_passes_in_eval():
    layer = turnover.TurnOverDropout()
    x = torch.randn(2, 3)
    with pytest.raises(InstancesError, match=r"belongs to no wrapped model.*turnover\.wrap"):
        layer(x)
    assert layer.eval()(x) is x


def test_masks_do_not_depend_on_the_random_state():
    model = wrapped_mlp().train()
    x = torch.randn(5, 6)
    outputs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        outputs.append(run(model, x))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*outputs)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("make", [wrapped_mlp, dropout_mlp])
def test_a_batch_of_one_is_expanded_in_eval_mode_and_equals_the_repeated_batch(make, view):
    model, x = make().eval(), torch.randn(1, 6)
    repeated = run(model, x.expand(5, 6).contiguous(), view=view)
    torch.testing.assert_close(run(model, x, view=view), repeated, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_batch_of_one_is_not_expanded_in_training_mode(view):
    model = wrapped_mlp().train()
    with pytest.raises(BatchSizeError, match=r"5 instance ids.*site 'relu1'.*1 rows.*one id for every row\."):
        run(model, torch.randn(1, 6), view=view)


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_batch_of_another_size_raises_in_eval_mode(view):
    model = wrapped_mlp().eval()
    with pytest.raises(BatchSizeError, match=r"5 instance ids.*4 rows.*or 1, which is expanded"):
        run(model, torch.randn(4, 6), view=view)
