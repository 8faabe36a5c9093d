"""Adapters on disk: without the base, onto the same base, and never onto another."""

import os

import pytest
import torch

import turnover
from tests.wrapping.adapter_models import FAMILIES, inputs_of, logits, make, moved
from tests.wrapping.models import run
from turnover.errors import ModelError, SavedModelError
from turnover.layers import masking_of
from turnover.storage import from_record
from turnover.wrapping import Adapters, read_tensors


def outputs(model, family, view="keep"):
    return run(model.eval(), inputs_of(family), range(5), view)


def trained(family, **options):
    """A wrapped model whose every learning weight has moved."""
    model = moved(turnover.wrap(make(family), adapters=Adapters(size=8, **options)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.01)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_come_back_onto_the_same_base(family, tmp_path):
    model = trained(family)
    with turnover.instances(range(5)):
        logits(model.train(), inputs_of(family))
    folder = turnover.save(model, tmp_path / "adapters")
    again = turnover.load(folder, model=make(family))
    for view in ("keep", "flip", "full"):
        assert torch.equal(outputs(again, family, view), outputs(model, family, view))
    assert masking_of(again).recipe == masking_of(model).recipe
    assert masking_of(again).learned == masking_of(model).learned
    learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in again.named_parameters() if parameter.requires_grad} == learns


def test_the_folder_holds_what_learned_and_not_the_base(tmp_path):
    model = trained("bert", norms=True)
    turnover.save(model, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["README.md", "turnover.json", "weights.pt"]
    names = set(torch.load(tmp_path / "weights.pt", weights_only=True))
    learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert names == {*learns, "classifier.bias", "turnover_recipe"}
    again = turnover.load(tmp_path, model=make("bert"))
    assert torch.equal(outputs(again, "bert"), outputs(model, "bert"))


def test_what_was_unfrozen_by_hand_is_saved_too(tmp_path):
    model = trained("bert")
    model.bert.pooler.requires_grad_(True)
    with torch.no_grad():
        model.bert.pooler.dense.weight.mul_(2)
    again = turnover.load(turnover.save(model, tmp_path), model=make("bert"))
    assert torch.equal(outputs(again, "bert"), outputs(model, "bert"))


def test_a_model_frozen_for_use_is_saved_like_one_in_training(tmp_path):
    model = trained("bert", norms=True).requires_grad_(False)
    again = turnover.load(turnover.save(model, tmp_path), model=make("bert"))
    assert torch.equal(outputs(again, "bert"), outputs(model, "bert"))


@pytest.fixture(scope="module")
def saved_bert(tmp_path_factory):
    model = trained("bert")
    return model, turnover.save(model, tmp_path_factory.mktemp("bert"))


def nearly_the_base():
    model = make("bert")
    with torch.no_grad():
        model.bert.pooler.dense.bias[3] += 1e-6
    return model


def wider():
    model = make("bert")
    model.classifier = torch.nn.Linear(32, 4)
    return model


REJECTED = {
    "another base": (lambda: make("bert", seed=1), r"trained on another base: 'bert\.embeddings.*frozen tensors"),
    "nearly the base": (nearly_the_base, r"'bert\.pooler\.dense\.bias' differs or is missing \(1 of"),
    "another dtype": (lambda: make("bert").to(torch.bfloat16), "in the same dtype"),
    "another architecture": (
        lambda: make("torch"),
        r"has no modules 'bert\.encoder\.layer\.0\.attention\.",
    ),
    "another width": (wider, "do not fit the model"),
    "adapters already": (
        lambda: turnover.unwrap(turnover.wrap(make("bert"), adapters=8)),
        r"already has adapters\. Give the plain base",
    ),
    "other adapters": (lambda: turnover.wrap(make("bert"), adapters=4), "adapters of 4 units"),
}


@pytest.mark.parametrize(("base", "message"), REJECTED.values(), ids=REJECTED)
def test_a_model_that_is_not_the_base_is_rejected_and_what_differs_is_named(saved_bert, base, message):
    with pytest.raises((SavedModelError, ModelError), match=message):
        turnover.load(saved_bert[1], model=base())


def test_the_head_of_the_base_does_not_matter_since_it_is_saved(saved_bert):
    model, folder = saved_bert
    base = make("bert")
    torch.nn.init.normal_(base.classifier.weight)
    torch.nn.init.normal_(base.classifier.bias)
    assert torch.equal(outputs(turnover.load(folder, model=base), "bert"), outputs(model, "bert"))


def test_weights_of_other_adapters_do_not_go_into_a_model():
    state = turnover.wrap(make("bert"), adapters=Adapters(size=8, layers=1)).state_dict()
    with pytest.raises(ModelError):
        turnover.wrap(make("bert"), adapters=8).load_state_dict(state, strict=False)


def test_a_folder_changes_between_plain_and_adapter_models_without_rests(tmp_path):
    plain = turnover.wrap(make("torch"), at=["encoder.layers.*.dropout"])
    turnover.save(plain, tmp_path)
    turnover.save(trained("torch"), tmp_path)
    assert from_record((tmp_path / "turnover.json").read_bytes())["base_sha256"]
    turnover.save(plain, tmp_path)
    assert not from_record((tmp_path / "turnover.json").read_bytes())["base_sha256"]
    turnover.load(tmp_path, model=make("torch"))


@pytest.mark.parametrize("content", [b"", b"x" * 9, b"\xff" * 40, b"\x02\0\0\0\0\0\0\0[]"], ids=str)
def test_a_file_of_something_else_is_a_value_error(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="is not a file of tensors"):
        read_tensors(tmp_path / "x")
