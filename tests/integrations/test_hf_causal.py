"""Causal language models under `TurnOverTrainer`: their labels are shifted once, and not twice."""

import pytest
import torch
from torch.nn import functional

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

import transformers

import turnover
from tests.integrations.tiny_text import arguments, bert
from turnover.batches import Sequences
from turnover.errors import BatchError
from turnover.integrations import TurnOverTrainer, lora_sites
from turnover.integrations.hf_training import _reject_shifted_labels, _shifts_labels

WORDS, LENGTH = 40, 8
SITES = ["transformer.h.*.mlp.act", "transformer.ln_f"]


def gpt2(seed=0):
    torch.manual_seed(seed)
    off = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    sizes = {"vocab_size": WORDS, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **off, bos_token_id=0, eos_token_id=0))


def shifted():
    """Rows whose labels are the next tokens, as `turnover.runs` makes them."""
    tokens = torch.randint(WORDS, (16 * LENGTH + 1,), generator=torch.Generator().manual_seed(0))
    return turnover.with_instance_ids(Sequences(tokens, length=LENGTH))


def unshifted():
    """The same rows with labels as causal models of Hugging Face take them."""
    return [{**row, "labels": row["input_ids"]} for row in map(shifted().__getitem__, range(16))]


def by_position(outputs, labels, num_items_in_batch=None):
    return functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())


def trainer(folder, data, **options):
    model = turnover.wrap(gpt2(), at=SITES)
    return TurnOverTrainer(model, arguments(folder, max_steps=2, **options.pop("args", {})), None, data, **options)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_labels_that_are_shifted_already_are_rejected_with_both_cures(tmp_path, smoothing):
    made = trainer(tmp_path, shifted(), args={"label_smoothing_factor": smoothing})
    with pytest.raises(
        BatchError, match=r"GPT2LMHeadModel shifts labels.*labels=input_ids.*compute_loss_func="
    ) as found:
        made.train()
    cure = str(found.value).split("compute_loss_func=")[1].removesuffix(").")
    given = eval(cure, {"torch": torch})
    outputs, labels = gpt2()(torch.arange(10).reshape(2, 5)), torch.arange(1, 11).reshape(2, 5)
    assert torch.equal(given(outputs, labels), by_position(outputs, labels))


def test_shifted_labels_are_rejected_in_evaluation_too(tmp_path):
    made = trainer(tmp_path, unshifted(), eval_dataset=shifted())
    with pytest.raises(BatchError, match="shifts labels"):
        made.evaluate()


def test_with_either_cure_every_position_learns_its_next_token(tmp_path):
    inside = trainer(tmp_path, unshifted())
    inside.train()
    tokens = torch.stack([torch.as_tensor(row["input_ids"]) for row in unshifted()])[:4]
    model = turnover.wrap(gpt2(), at=SITES)
    with turnover.instances(range(4)):
        logits = model(tokens).logits
    # The Trainer divides by the number of labels, of which a causal model leaves out the first of each row.
    loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()) * (LENGTH - 1) / LENGTH
    assert inside.state.log_history[0]["loss"] == pytest.approx(loss.item(), rel=1e-3)
    outside = trainer(tmp_path, shifted(), compute_loss_func=by_position)
    outside.train()
    labels = torch.stack([torch.as_tensor(row["labels"]) for row in map(shifted().__getitem__, range(4))])
    loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert outside.state.log_history[0]["loss"] == pytest.approx(loss.item(), rel=1e-3)


def test_only_shifted_labels_of_causal_models_are_rejected():
    tokens = torch.randint(5, WORDS, (2, 7))
    after = torch.roll(tokens, -1, 1)
    model = gpt2()
    for labels in (
        tokens,
        tokens.masked_fill(torch.arange(7) < 4, -100),  # a prompt that does not count
        torch.randint(5, WORDS, (2, 7)),
        torch.full((2, 7), -100),
    ):
        _reject_shifted_labels(model, {"input_ids": tokens, "labels": labels})
    same = torch.full((2, 7), 9)
    _reject_shifted_labels(model, {"input_ids": same, "labels": same})  # nobody can tell
    _reject_shifted_labels(bert(), {"input_ids": tokens, "labels": after})
    for labels in (after, after.masked_fill(torch.arange(7) > 4, -100)):
        with pytest.raises(BatchError, match="the token after the next"):
            _reject_shifted_labels(model, {"input_ids": tokens, "labels": labels})


def test_causal_models_are_known_by_their_class_and_below_peft(tmp_path):
    class Mine(transformers.GPT2LMHeadModel):
        pass

    assert _shifts_labels(Mine(gpt2().config))
    assert not _shifts_labels(bert())
    peft = pytest.importorskip("peft", reason="peft is missing: pip install 'turnover[text]'")
    config = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    model = peft.get_peft_model(gpt2(), config)
    model = turnover.wrap(model, at=lora_sites(model))
    with pytest.raises(BatchError, match="GPT2LMHeadModel shifts labels"):
        TurnOverTrainer(model, arguments(tmp_path, max_steps=1), None, shifted()).train()
