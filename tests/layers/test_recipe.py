"""The recipe tensor: one uint8 key of the state dict, and who notices when weights and masks do not belong together."""

import copy

import pytest
import safetensors.torch
import torch
from torch import nn

import turnover
from tests.layers.models import mlp, run, wrapped_mlp
from turnover.errors import ModelError
from turnover.layers import RECIPE_KEY, Recipe, SiteRecipe, masking_of
from turnover.layers.recipe import from_tensor


def sequence_model(seed: int = 0) -> nn.Module:
    return turnover.wrap(nn.Sequential(nn.Linear(6, 8), nn.Identity()), at=["0", "1"], seed=seed)


def trained(model: nn.Module, passes: int = 3) -> nn.Module:
    for _ in range(passes):
        run(model.train(), torch.randn(5, 4, 6))
    return model


def test_the_state_dict_has_one_more_key_a_uint8_tensor():
    plain, model = mlp(), wrapped_mlp()
    assert set(model.state_dict()) - set(plain.state_dict()) == {RECIPE_KEY}
    assert model.state_dict()[RECIPE_KEY].dtype == torch.uint8
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]


def test_the_recipe_tensor_keeps_its_shape_and_place_when_the_model_learns():
    model = sequence_model()
    before = model.state_dict()[RECIPE_KEY]
    after = trained(model).state_dict()[RECIPE_KEY]
    assert after.shape == before.shape
    assert after.data_ptr() == before.data_ptr()


def test_safetensors_round_trip(tmp_path):
    model = trained(sequence_model())
    safetensors.torch.save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = sequence_model()
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    x = torch.randn(5, 4, 6)
    assert torch.equal(run(other, x), run(model, x))
    assert masking_of(other).learned == masking_of(model).learned


@pytest.mark.parametrize(
    ("other", "given", "needed"),
    [
        (lambda: wrapped_mlp(seed=1), "seed 1", "seed 0"),
        (lambda: wrapped_mlp(keep=0.25), r"keep 0\.25", r"keep 0\.5"),
        (lambda: wrapped_mlp(masks="volatile"), "volatile masks", "counter masks"),
        (lambda: turnover.wrap(mlp(), at=["relu1"]), r"sites: relu1 \(features, keep 0\.5\)\n", "relu1.*relu2"),
        (lambda: turnover.wrap(mlp(), at={"relu[12]": "channels"}), "channels", "features"),
    ],
    ids=["seed", "keep", "kind", "sites", "dim"],
)
@pytest.mark.parametrize("assign", [False, True])
def test_another_recipe_is_rejected_by_name_and_no_weight_is_changed(other, given, needed, assign):
    model = wrapped_mlp()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ModelError, match=rf"given: .*{given}(.|\n)*model: .*{needed}"):
        model.load_state_dict(other().state_dict(), assign=assign)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_state_dict_without_a_recipe_is_missing_a_key():
    with pytest.raises(RuntimeError, match=f"Missing key.*{RECIPE_KEY}"):
        wrapped_mlp().load_state_dict(mlp().state_dict())


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t.float(),
        lambda t: t.bfloat16(),
        lambda t: t[:5],
        lambda t: t[:30],
        lambda t: t[:-3],
        torch.zeros_like,
        lambda t: torch.cat([t[:8], torch.full((4,), 255, dtype=torch.uint8), t[12:]]),
    ],
    ids=["float", "bfloat16", "cut in the magic", "cut in the head", "cut at the end", "zeros", "site count"],
)
def test_a_damaged_recipe_is_rejected(damage):
    state = wrapped_mlp().state_dict()
    state[RECIPE_KEY] = damage(state[RECIPE_KEY])
    with pytest.raises(ModelError, match=rf"'{RECIPE_KEY}' .* must be a mask recipe of dtype torch\.uint8"):
        wrapped_mlp().load_state_dict(state)


def test_a_recipe_of_a_later_format_is_rejected():
    state = wrapped_mlp().state_dict()
    text = bytes(state[RECIPE_KEY].tolist()).replace(b'"format":1', b'"format":2')
    state[RECIPE_KEY] = torch.tensor(list(text), dtype=torch.uint8)
    with pytest.raises(ModelError, match="has format 2; this version of turnover reads format 1"):
        wrapped_mlp().load_state_dict(state)


@pytest.mark.parametrize("assign", [False, True])
def test_loading_gives_the_same_masks(assign):
    model, other = trained(sequence_model()), sequence_model()
    other.load_state_dict(copy.deepcopy(model.state_dict()), assign=assign)
    x = torch.randn(5, 4, 6)
    assert torch.equal(run(other, x, view="flip"), run(model, x, view="flip"))
    assert masking_of(other).learned == masking_of(model).learned


@pytest.fixture
def empty() -> nn.Module:
    with torch.device("meta"):
        return sequence_model()


@pytest.mark.parametrize("assign", [False, True])
def test_a_model_from_the_meta_device_has_the_right_bits_after_loading(empty, assign):
    model, x = trained(sequence_model()), torch.randn(5, 4, 6)
    assert next(empty.parameters()).is_meta
    if not assign:
        empty.to_empty(device="cpu")
    empty.load_state_dict(model.state_dict(), assign=assign)
    assert torch.equal(run(empty, x), run(model, x))
    assert masking_of(empty).learned.batch_dims == [0, 0]


def test_a_model_from_the_meta_device_may_get_new_weights_by_hand(empty):
    empty.to_empty(device="cpu")
    empty.get_buffer(RECIPE_KEY).fill_(7)  # whatever memory was there
    torch.nn.init.normal_(empty[0].weight)
    torch.nn.init.zeros_(empty[0].bias)
    trained(empty, passes=1)
    assert from_tensor(empty.get_buffer(RECIPE_KEY))[0] == masking_of(empty).recipe


@pytest.mark.parametrize("how", ["replaced", "written", "replaced after deletion"])
def test_weights_put_in_without_load_state_dict_are_noticed_at_the_next_pass(how):
    model = wrapped_mlp(seed=1).eval()
    x = torch.randn(5, 6)
    run(model, x)
    other = wrapped_mlp(seed=2).state_dict()[RECIPE_KEY]
    if how == "written":
        model.get_buffer(RECIPE_KEY).copy_(other)
    elif how == "replaced":
        model._buffers[RECIPE_KEY] = other.clone()
    else:
        del model._buffers[RECIPE_KEY]
        model._buffers[RECIPE_KEY] = other.clone()
    with pytest.raises(ModelError, match=r"weights in this model were trained with other masks(.|\n)*seed 2"):
        run(model, x)
    assert model(x).shape == (5, 3)  # the full network needs no masks


def test_weights_of_the_same_recipe_put_in_by_hand_bring_what_they_have_learned():
    source, model = trained(sequence_model()), sequence_model()
    model._buffers[RECIPE_KEY] = source.state_dict()[RECIPE_KEY].clone()
    run(model.eval(), torch.randn(5, 4, 6))
    assert masking_of(model).learned == masking_of(source).learned


def test_a_state_dict_may_be_taken_in_inference_mode():
    model = trained(sequence_model())
    with torch.inference_mode():
        state = {name: value.clone() for name, value in model.state_dict().items()}
    other = sequence_model()
    other.load_state_dict(state)
    trained(model, passes=1)
    assert masking_of(other).learned.passes == 3


def test_the_seed_of_a_replica_is_the_documented_one():
    from turnover.layers.recipe import replica_seed

    assert replica_seed(7, 0) == 7
    assert replica_seed(7, 1) == 3217803268499332082
    assert len({replica_seed(0, number) for number in range(1000)}) == 1000


def test_a_recipe_with_replicas_comes_back():
    site = SiteRecipe("fc", "output", "features", 0.5, replicated=True)
    recipe = Recipe("counter", 3, (site,), {}, 4, ("fc", "head"))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert recipe.of_replica(2).replicas == 1
