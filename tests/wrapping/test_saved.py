"""save and load: the same model in another process, or a clear rejection."""

import hashlib
import json
import os
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import turnover
from turnover.errors import ModelError, SavedModelError
from turnover.layers import RECIPE_KEY, masking_of
from turnover.layers.recipe import to_tensor
from turnover.storage import from_record, to_record


def base(width: int = 32) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 3))


def outputs(model, view="keep"):
    model.eval()
    with turnover.instances([5, 2**62 - 1, 7], view=view):
        return model(torch.linspace(-1, 1, 18).view(3, 6))


@pytest.mark.parametrize(
    "options", [{"at": ["1"]}, {}, {"at": ["1"], "masks": "codebook", "keep": 0.7, "seed": 9}], ids=str
)
def test_a_saved_model_comes_back_with_the_same_masks_and_weights(tmp_path, options):
    model = turnover.wrap(base(), **options)
    with torch.no_grad():
        model[0].weight.mul_(2)
    with turnover.instances([1, 2]):
        model(torch.zeros(2, 6))
    again = turnover.load(turnover.save(model, tmp_path / "run" / "model"), model=base())
    for view in ("keep", "flip"):
        assert torch.equal(outputs(model, view), outputs(again, view))
    assert masking_of(again).learned == masking_of(model).learned
    assert masking_of(again).learned.passes == 1


def test_saving_again_replaces_the_model_and_leaves_nothing_else(tmp_path):
    model = turnover.wrap(base(), at=["1"])
    turnover.save(model, tmp_path)
    with torch.no_grad():
        model[0].weight.zero_()
    turnover.save(model, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["README.md", "turnover.json", "weights.pt"]
    assert not turnover.load(tmp_path, model=base())[0].weight.any()


def test_a_save_that_fails_leaves_the_model_that_was_there(tmp_path, monkeypatch):
    model = turnover.wrap(base(), at=["1"])
    turnover.save(model, tmp_path)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(SavedModelError, match="No space left on device"):
        turnover.save(model, tmp_path)
    assert torch.equal(outputs(turnover.load(tmp_path, model=base())), outputs(model))


def test_the_wrapped_part_of_a_larger_model_is_saved(tmp_path):
    model = turnover.wrap(base(), at=["1"])
    turnover.save(nn.Sequential(model), tmp_path)
    assert torch.equal(outputs(turnover.load(tmp_path, model=base())), outputs(model))


def test_a_damaged_or_half_written_folder_is_rejected(tmp_path):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    weights = tmp_path / "weights.pt"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(SavedModelError, match="missing or damaged"):
        turnover.load(tmp_path, model=base())
    (tmp_path / "turnover.json").unlink()
    with pytest.raises(SavedModelError, match=r"must be a folder written by turnover\.save"):
        turnover.load(tmp_path, model=base())


@pytest.mark.parametrize("folder", [None, b"folder", 3, ["folder"], "", "a\0b", "\ud800"], ids=repr)
def test_what_is_no_path_is_rejected_with_what_to_type(folder):
    with pytest.raises(SavedModelError, match=r"folder must be a path, got .*turnover\.load\('folder', model=model\)"):
        turnover.load(folder, model=base())
    with pytest.raises(SavedModelError, match=r"folder must be a path, got .*turnover\.save\(model, 'folder'\)"):
        turnover.save(turnover.wrap(base(), at=["1"]), folder)


def test_a_name_that_no_folder_can_have_is_rejected(tmp_path):
    for call in (partial(turnover.save, turnover.wrap(base(), at=["1"])), partial(turnover.load, model=base())):
        with pytest.raises(SavedModelError, match="cannot be opened: File name too long"):
            call(tmp_path / ("x" * 300))


@pytest.mark.parametrize("model", [None, 3, "model.pt", base().state_dict(), nn.Linear], ids=lambda m: str(m)[:12])
def test_what_is_no_model_is_rejected(tmp_path, model):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    with pytest.raises(SavedModelError, match=r"model must be a torch\.nn\.Module, got"):
        turnover.load(tmp_path, model=model)


def test_lazy_modules_must_have_run_before_weights_are_loaded(tmp_path):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    lazy = nn.Sequential(nn.LazyLinear(32), nn.ReLU(), nn.Dropout(0.2), nn.LazyLinear(3))
    with pytest.raises(SavedModelError, match=r"'0', '3': lazy modules.*model\(x\)"):
        turnover.load(tmp_path, model=lazy)
    lazy(torch.zeros(1, 6))
    turnover.load(tmp_path, model=lazy)


def _rewrite(folder, weights=None, **recipe):
    manifest = from_record((folder / "turnover.json").read_bytes())
    if weights is not None:
        torch.save(weights, folder / "weights.pt")
        manifest["weights_sha256"] = hashlib.sha256((folder / "weights.pt").read_bytes()).hexdigest()
    manifest["recipe"].update(recipe)
    (folder / "turnover.json").write_bytes(to_record(manifest))


@pytest.mark.parametrize("weights", [[1, 2], 3, {"0.weight": "x"}], ids=str)
def test_a_file_that_holds_no_tensors_by_name_is_no_saved_model(tmp_path, weights):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    _rewrite(tmp_path, weights)
    with pytest.raises(SavedModelError, match="cannot be read as weights"):
        turnover.load(tmp_path, model=base())


def test_replicas_that_a_folder_only_declares_take_no_memory(tmp_path):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    _rewrite(tmp_path, replicas=10**9)
    with pytest.raises(SavedModelError, match=r"declares more weights than 'weights\.pt' has"):
        turnover.load(tmp_path, model=base())


def test_replicas_that_a_folder_of_hugging_face_only_declares_take_no_memory(tmp_path):
    model = turnover.wrap(base(), at=["1"])
    recipe = to_tensor(replace(masking_of(model).recipe, replicas=10**9), masking_of(model).learned)
    save_file({**model.state_dict(), RECIPE_KEY: recipe}, tmp_path / "model.safetensors")
    with pytest.raises(SavedModelError, match=r"declares more weights than 'model\.safetensors' has"):
        turnover.load(tmp_path, model=base())


def test_weights_of_others_are_not_overwritten_and_those_of_an_interrupted_save_are(tmp_path):
    model = turnover.wrap(base(), at=["1"])
    torch.save(base().state_dict(), tmp_path / "weights.pt")
    before = (tmp_path / "weights.pt").read_bytes()
    with pytest.raises(SavedModelError, match=r"would be overwritten, which turnover\.save did not write"):
        turnover.save(model, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["weights.pt"]
    assert (tmp_path / "weights.pt").read_bytes() == before
    turnover.save(model, tmp_path / "own")
    (tmp_path / "own" / "turnover.json").unlink()
    turnover.load(turnover.save(model, tmp_path / "own"), model=base())


def test_another_format_is_rejected_by_its_number(tmp_path):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    manifest = tmp_path / "turnover.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(SavedModelError, match="format 99"):
        turnover.load(tmp_path, model=base())


def test_another_architecture_or_recipe_is_rejected(tmp_path):
    turnover.save(turnover.wrap(base(), at=["1"]), tmp_path)
    with pytest.raises(SavedModelError, match="has no modules '1'"):
        turnover.load(tmp_path, model=nn.Linear(6, 3))
    with pytest.raises(ModelError, match=r"(?s)saved: counter masks, seed 0.*model: counter masks, seed 4"):
        turnover.load(tmp_path, model=turnover.wrap(base(), at=["1"], seed=4))
    assert torch.equal(
        outputs(turnover.load(tmp_path, model=turnover.wrap(base(), at=["1"]))),
        outputs(turnover.load(tmp_path, model=base())),
    )


def test_a_plain_model_cannot_be_saved(tmp_path):
    with pytest.raises(ModelError, match="has no masks"):
        turnover.save(base(), tmp_path)
    assert not os.listdir(tmp_path)


def test_a_folder_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SavedModelError, match="cannot write to"):
        turnover.save(turnover.wrap(base(), at=["1"]), tmp_path / "file")


def test_a_wider_network_is_rejected_with_the_weights_that_do_not_fit(tmp_path):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    turnover.save(turnover.wrap(net, at=["1"]), tmp_path)
    wider = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2))
    with pytest.raises(SavedModelError, match=r"do not fit the model.*0\.weight.*Give the architecture that was saved"):
        turnover.load(tmp_path, model=wider)
