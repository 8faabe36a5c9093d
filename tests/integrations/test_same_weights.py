"""One model, three ways to train it: Hugging Face Trainer, Lightning and a plain loop give the same weights."""

from itertools import chain, islice, repeat

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("lightning", reason="Lightning is missing: pip install 'turnover[lightning]'")

import lightning

import turnover
from tests.integrations.tiny_text import arguments, masked, pad, rows, trained
from turnover.integrations import TurnOverModule, TurnOverTrainer
from turnover.integrations.hf_training import _IdCollator

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning 2.6 with torch 2.13
]
STEPS, BATCH, RATE, DECAY = 20, 4, 1e-2, 0.01


def groups(model):
    """AdamW as the Trainer makes it: no decay of biases and norms."""
    learns = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    return [
        {"params": [value for name, value in learns if not name.endswith("bias")], "weight_decay": DECAY},
        {"params": [value for name, value in learns if name.endswith("bias")], "weight_decay": 0.0},
    ]


def loader():
    collate = _IdCollator(pad, frozenset(["input_ids", "attention_mask", "label"]))
    return DataLoader(turnover.with_instance_ids(rows()), batch_size=BATCH, collate_fn=collate)


def by_plain_loop():
    model = masked().train()
    optimizer = torch.optim.AdamW(groups(model), lr=RATE)
    for batch in islice(chain.from_iterable(repeat(loader())), STEPS):
        ids = batch.pop("instance_id")
        with turnover.instances(ids):
            model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def by_trainer(folder):
    args = arguments(folder, max_steps=STEPS, learning_rate=RATE, weight_decay=DECAY)
    trainer = TurnOverTrainer(masked(), args, pad, turnover.with_instance_ids(rows()))
    trainer.train()
    return trainer.model


def by_lightning(folder):
    class Module(TurnOverModule):
        def __init__(self):
            super().__init__()
            self.net = masked().train()

        def training_step(self, batch, batch_idx):
            return self.net(**batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(groups(self.net), lr=RATE)

    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_steps=STEPS, enable_model_summary=False, default_root_dir=folder, **quiet)
    trainer.fit(module, loader())
    return module.net


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainers")
    return {"plain loop": by_plain_loop(), "Trainer": by_trainer(folder), "Lightning": by_lightning(folder)}


@pytest.mark.parametrize("way", ["Trainer", "Lightning"])
def test_weights_and_scores_are_those_of_a_plain_loop(models, way):
    expected, actual, start = trained(models["plain loop"]), trained(models[way]), trained(masked())
    assert expected.keys() == actual.keys()
    assert all((expected[name] - start[name]).abs().max() > 0.01 for name in expected)  # they have moved a long way
    assert max(float((expected[name] - actual[name]).abs().max()) for name in expected) < 1e-5
    queries = pad([{name: row[name] for name in ("input_ids", "attention_mask", "label")} for row in rows(3, seed=1)])
    expected, actual = (
        turnover.Influence(models[name].eval()).pairwise(queries, ids=range(24)).values for name in ("plain loop", way)
    )
    assert np.abs(expected).max() > 0.01
    assert np.abs(expected - actual).max() < 1e-5
