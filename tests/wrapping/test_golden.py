"""Models saved in the present format load, with the same masks and weights, and no flipped bit goes unnoticed."""

import shutil

import pytest
import torch
from safetensors.torch import save_file

import turnover
from tests.golden.models.write import FOLDER, MODELS, VIEWS, outputs
from turnover.errors import SavedModelError, TurnOverError
from turnover.layers import RECIPE_KEY, masking_of


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_format_1_loads_and_says_the_same(name):
    make, _, shape = MODELS[name]
    expected = torch.load(FOLDER / name / "expected.pt", weights_only=True)
    said = outputs(turnover.load(FOLDER / name, model=make()), shape)
    for view in VIEWS:
        torch.testing.assert_close(said[view], expected[view], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(said["keep"], said["flip"], atol=1e-3)


def flipped(content, bit):
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.parametrize("name", MODELS)
def test_any_flipped_bit_of_the_manifest_is_a_saved_model_error(name, tmp_path):
    folder = shutil.copytree(FOLDER / name, tmp_path / name)
    content, model = (folder / "turnover.json").read_bytes(), MODELS[name][0]()
    for bit in range(8 * len(content)):
        (folder / "turnover.json").write_bytes(flipped(content, bit))
        with pytest.raises(SavedModelError):
            turnover.load(folder, model=model)


@pytest.mark.parametrize("name", ["codebook", "replicas"])
def test_a_flipped_bit_of_a_recipe_beside_other_weights_is_an_error_of_ours_or_seen_in_the_recipe(name, tmp_path):
    make = MODELS[name][0]
    model = turnover.load(FOLDER / name, model=make())
    state, file = model.state_dict(), tmp_path / "model.safetensors"
    content = bytes(state[RECIPE_KEY].tolist())
    head = 20 + 5 * len(masking_of(model).recipe.sites)  # what the model has learned, which may be anything
    for bit in range(8 * head, 8 * len(content), 7):
        state[RECIPE_KEY] = torch.frombuffer(bytearray(flipped(content, bit)), dtype=torch.uint8)
        save_file(state, file)
        try:
            loaded = turnover.load(tmp_path, model=make())
        except TurnOverError:
            continue
        assert masking_of(loaded).recipe != masking_of(model).recipe
