"""Checkpoints of `TurnOverTrainer` know their masks, those of PEFT models too, which hold no state dict."""

import shutil

import pytest
import torch

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("peft", reason="peft is missing: pip install 'turnover[text]'")

import peft

import turnover
from tests.integrations.tiny_text import arguments, bert, pad, rows, trained
from turnover.errors import ModelError, SavedModelError
from turnover.integrations import TurnOverTrainer, lora_sites
from turnover.layers import masking_of
from turnover.wrapping import RECIPE_FILE

SAVED = {"save_strategy": "steps", "save_steps": 2}


def lora(seed=0, **options):
    config = peft.LoraConfig(r=4, target_modules=["query"], modules_to_save=["classifier"])
    model = peft.get_peft_model(bert(), config)
    return turnover.wrap(model, at=[*lora_sites(model), "base_model.model.dropout"], seed=seed, **options)


def trainer(folder, model, steps=4, **options):
    args = arguments(folder, max_steps=steps, **SAVED, **options)
    return TurnOverTrainer(model, args, pad, turnover.with_instance_ids(rows()), rows(8, seed=1))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    trainer(folder, lora(), steps=2).train()
    return folder / "checkpoint-2"


@pytest.fixture
def checkpoint(made, tmp_path):
    """A checkpoint that may be changed."""
    return shutil.copytree(made, tmp_path / made.name)


def test_a_resumed_peft_model_ends_with_the_same_weights_and_knows_how_long_it_trained(checkpoint, tmp_path):
    whole = trainer(tmp_path / "whole", lora())
    whole.train()
    rest = trainer(tmp_path / "rest", lora())
    rest.train(resume_from_checkpoint=str(checkpoint))
    weights, expected = trained(rest.model), trained(whole.model)
    assert max(float((weights[name] - expected[name]).abs().max()) for name in expected) < 1e-6
    assert masking_of(rest.model).learned == masking_of(whole.model).learned
    assert masking_of(rest.model).learned.passes == 4


@pytest.mark.parametrize("other", [{"seed": 1}, {"keep": 0.7}, {"masks": "volatile"}], ids=str)
def test_a_peft_checkpoint_of_other_masks_is_rejected_before_its_weights_are_loaded(checkpoint, tmp_path, other):
    model = lora(**other)
    before = trained(model)
    with pytest.raises(ModelError, match=r"checkpoint-2' comes from a model with other masks") as caught:
        trainer(tmp_path / "other", model).train(resume_from_checkpoint=str(checkpoint))
    assert "given: counter masks, seed 0" in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in trained(model).items())


def test_a_peft_checkpoint_that_says_nothing_of_masks_is_rejected(checkpoint, tmp_path):
    (checkpoint / RECIPE_FILE).unlink()
    with pytest.raises(ModelError, match=r"under which masks it was trained.*or train from the start"):
        trainer(tmp_path / "other", lora()).train(resume_from_checkpoint=str(checkpoint))


def test_a_damaged_recipe_file_is_rejected(checkpoint, tmp_path):
    (checkpoint / RECIPE_FILE).write_bytes(b"cut off")
    with pytest.raises(SavedModelError, match=r"turnover_recipe.safetensors' is damaged.*Resume from another"):
        trainer(tmp_path / "other", lora()).train(resume_from_checkpoint=str(checkpoint))


def test_peft_itself_still_reads_the_checkpoint(checkpoint):
    model = peft.PeftModel.from_pretrained(bert(), str(checkpoint))
    assert any("lora_A" in name for name, _ in model.named_parameters())


def test_the_best_checkpoint_of_a_peft_model_is_loaded_at_the_end(tmp_path):
    options = {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 2}
    made = trainer(tmp_path, lora(), **options)
    made.train()
    assert made.state.best_model_checkpoint is not None
    assert masking_of(made.model).learned.passes == 4
