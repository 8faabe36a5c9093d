"""Folders of `save_pretrained` and checkpoints of `TurnOverTrainer` know their masks, those of PEFT models, too."""

import json
import shutil
from pathlib import Path

import pytest
import torch

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("peft", reason="peft is missing: pip install 'turnover[text]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

import peft
import transformers

import turnover
from tests.integrations.tiny_text import arguments, bert, pad, rows
from tests.integrations.tiny_text import trained as learned
from turnover.errors import ModelError, SavedModelError, TurnOverWarning
from turnover.integrations import TurnOverTrainer, lora_sites
from turnover.layers import find_root, masking_of
from turnover.wrapping import RECIPE_FILE, masks_beside

MADE = {
    "sites": lambda: turnover.wrap(bert(), at=["bert.encoder.layer.*.intermediate"], seed=7),
    "adapters": lambda: turnover.wrap(bert(), adapters=8),
    "replicas": lambda: turnover.wrap(bert(), at=["dropout"], replicas=2),
}
TOKENS = torch.randint(5, 40, (3, 6), generator=torch.Generator().manual_seed(0))


def trained(folder, model, **options):
    made = TurnOverTrainer(model, arguments(folder, max_steps=2, **options), pad, turnover.with_instance_ids(rows()))
    made.train()
    return made


def same_outputs(one, other):
    for view in ("keep", "flip"):
        with turnover.instances([3, 1, 2], view=view), torch.no_grad():
            found = [model.eval()(TOKENS).logits for model in (one, other)]
        assert torch.equal(*found)


@pytest.mark.parametrize("kind", MADE)
def test_folders_of_save_pretrained_and_of_the_trainer_open_with_masks_and_weights(tmp_path, kind):
    made = trained(tmp_path / "trained", MADE[kind](), save_strategy="steps", save_steps=2)
    made.save_model(str(tmp_path / "model"))
    made.model.save_pretrained(tmp_path / "pretrained")
    for folder in (tmp_path / "model", tmp_path / "pretrained", tmp_path / "trained" / "checkpoint-2"):
        same_outputs(made.model, turnover.load(folder, model=bert()))


def test_weights_that_two_layers_share_are_written_once_and_come_back(tmp_path):
    sizes = {"vocab_size": 40, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = turnover.wrap(transformers.GPT2LMHeadModel(config), at=["transformer.h.*.mlp.act"])
    with turnover.instances(range(3)):
        model(TOKENS)
    model.save_pretrained(tmp_path)
    same_outputs(model, turnover.load(tmp_path, model=transformers.GPT2LMHeadModel(config)))


def test_peft_checkpoints_open_with_their_masks(tmp_path):
    config = peft.LoraConfig(r=4, target_modules=["query"], modules_to_save=["classifier"])
    plain = peft.get_peft_model(bert(), config)
    made = trained(tmp_path, turnover.wrap(plain, at=lora_sites(plain)), save_strategy="steps", save_steps=2)
    folder = tmp_path / "checkpoint-2"
    same_outputs(made.model, turnover.load(folder, model=peft.PeftModel.from_pretrained(bert(), folder)))
    with pytest.raises(SavedModelError, match=r"PeftModel\.from_pretrained"):
        turnover.load(folder, model=bert())


def test_plain_from_pretrained_is_told_what_to_call(tmp_path):
    model = MADE["sites"]()
    with turnover.instances(range(3)):
        model(TOKENS)
    model.save_pretrained(tmp_path)
    plain = transformers.BertForSequenceClassification.from_pretrained(tmp_path)
    assert f"turnover.load({str(tmp_path)!r}, model=model)" in masks_beside(plain)
    with pytest.warns(TurnOverWarning, match=r"holds masks.*turnover\.load"):
        influence = turnover.Influence(plain, train={"input_ids": TOKENS, "labels": torch.tensor([0, 1, 0])})
    with pytest.raises(ModelError, match=r"turnover\.load"):
        influence.out_of_sample()
    loaded = turnover.load(tmp_path, model=plain)
    assert masking_of(find_root(loaded)).recipe == masking_of(find_root(model)).recipe
    assert masks_beside(loaded) == ""
    bert().save_pretrained(tmp_path / "plain")
    other = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "plain")
    assert masks_beside(other) == ""


def test_folders_without_masks_with_others_or_damaged_are_rejected(tmp_path):
    bert().save_pretrained(tmp_path / "plain")
    with pytest.raises(SavedModelError, match="no mask recipe"):
        turnover.load(tmp_path / "plain", model=bert())
    MADE["sites"]().save_pretrained(tmp_path / "masked")
    with pytest.raises(ModelError, match="other masks"):
        turnover.load(tmp_path / "masked", model=turnover.wrap(bert(), at=["dropout"]))
    with pytest.raises(SavedModelError, match=r"do not fit|differ"):
        turnover.load(tmp_path / "masked", model=bert(labels=3))
    file = tmp_path / "masked" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(SavedModelError, match="cannot be read"):
        turnover.load(tmp_path / "masked", model=bert())


def test_saved_folders_have_a_card_with_the_recipe_and_keep_other_words(tmp_path):
    model = MADE["adapters"]()
    with turnover.instances(range(3)):
        model(TOKENS)
    turnover.save(model, tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: turnover\n")
    assert "turnover.load(folder, model=base)" in card
    assert "| adapters |" in card
    (tmp_path / "README.md").write_text("# Mine\n\nwords\n\n## Turn-over dropout\n\nformer words\n\n## After\n\nmore\n")
    turnover.save(model, tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Mine\n\nwords\n\n## Turn-over dropout\n")
    assert card.endswith("\n## After\n\nmore\n")
    assert "former words" not in card


def test_push_to_hub_sends_masks_and_card(tmp_path, monkeypatch):
    """Only the network is replaced: what would be sent is looked at where it would go."""
    import huggingface_hub

    sent = {}

    def upload(*args, folder_path, **options):
        sent.update({file.name: file.read_bytes() for file in Path(folder_path).iterdir() if file.is_file()})
        return huggingface_hub.CommitInfo(
            commit_url="https://huggingface.co/me/mine/commit/0", commit_message="", commit_description="", oid="0"
        )

    address = huggingface_hub.RepoUrl("https://huggingface.co/me/mine")
    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", lambda *args, **options: address)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload)
    made = trained(tmp_path, MADE["sites"](), push_to_hub=True, hub_model_id="me/mine", save_strategy="no")
    made.push_to_hub()
    assert {"README.md", "model.safetensors", "config.json", "turnover_recipe.safetensors"} <= sent.keys()
    card = sent["README.md"].decode()
    assert "## Turn-over dropout" in card
    assert "bert.encoder.layer.0.intermediate" in card
    assert json.loads(sent["config.json"])["model_type"] == "bert"


# Checkpoints of PEFT models, which hold no state dict


SAVED = {"save_strategy": "steps", "save_steps": 2}


def lora(seed=0, **options):
    config = peft.LoraConfig(r=4, target_modules=["query"], modules_to_save=["classifier"])
    model = peft.get_peft_model(bert(), config)
    return turnover.wrap(model, at=[*lora_sites(model), "base_model.model.dropout"], seed=seed, **options)


def peft_trainer(folder, model, steps=4, **options):
    args = arguments(folder, max_steps=steps, **SAVED, **options)
    return TurnOverTrainer(model, args, pad, turnover.with_instance_ids(rows()), rows(8, seed=1))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    peft_trainer(folder, lora(), steps=2).train()
    return folder / "checkpoint-2"


@pytest.fixture
def checkpoint(made, tmp_path):
    return shutil.copytree(made, tmp_path / made.name)


def test_a_resumed_peft_model_ends_with_the_same_weights_and_knows_how_long_it_learned(checkpoint, tmp_path):
    whole = peft_trainer(tmp_path / "whole", lora())
    whole.train()
    rest = peft_trainer(tmp_path / "rest", lora())
    rest.train(resume_from_checkpoint=str(checkpoint))
    weights, expected = learned(rest.model), learned(whole.model)
    assert max(float((weights[name] - expected[name]).abs().max()) for name in expected) < 1e-6
    assert masking_of(rest.model).learned == masking_of(whole.model).learned
    assert masking_of(rest.model).learned.passes == 4


@pytest.mark.parametrize("other", [{"seed": 1}, {"keep": 0.7}, {"masks": "volatile"}], ids=str)
def test_a_peft_checkpoint_of_other_masks_is_rejected_before_its_weights_are_loaded(checkpoint, tmp_path, other):
    model = lora(**other)
    before = learned(model)
    with pytest.raises(ModelError, match=r"checkpoint-2' comes from a model with other masks") as caught:
        peft_trainer(tmp_path / "other", model).train(resume_from_checkpoint=str(checkpoint))
    assert "given: counter masks, seed 0" in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in learned(model).items())


def test_a_peft_checkpoint_that_says_nothing_of_masks_is_rejected(checkpoint, tmp_path):
    (checkpoint / RECIPE_FILE).unlink()
    with pytest.raises(ModelError, match=r"under which masks it was trained.*or train from the start"):
        peft_trainer(tmp_path / "other", lora()).train(resume_from_checkpoint=str(checkpoint))


def test_a_damaged_recipe_file_is_rejected(checkpoint, tmp_path):
    (checkpoint / RECIPE_FILE).write_bytes(b"cut off")
    with pytest.raises(SavedModelError, match=r"turnover_recipe.safetensors' is damaged.*Resume from another"):
        peft_trainer(tmp_path / "other", lora()).train(resume_from_checkpoint=str(checkpoint))


def test_the_best_checkpoint_of_a_peft_model_is_loaded_at_the_end(tmp_path):
    options = {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 2}
    made = peft_trainer(tmp_path, lora(), **options)
    made.train()
    assert made.state.best_model_checkpoint is not None
    assert masking_of(made.model).learned.passes == 4
