"""Tiny transformers of every family that adapters know, with random weights, and batches for them."""

import copy
from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
from torch import Tensor, nn

FAMILIES = ["bert", "roberta", "distilbert", "mpnet", "vit", "torch", "torch_seq_first"]
BLOCKS, WIDTH, CLASSES = 2, 32, 3


class TorchClassifier(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 64, batch_first=batch_first)
        self.embed = nn.Embedding(50, WIDTH)
        self.encoder = nn.TransformerEncoder(layer, BLOCKS, enable_nested_tensor=batch_first)
        self.out = nn.Linear(WIDTH, CLASSES)
        self.batch_first = batch_first

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        x = self.embed(tokens if self.batch_first else tokens.T)
        return self.out(self.encoder(x, src_key_padding_mask=padding).mean(1 if self.batch_first else 0))


def _hugging_face(family: str) -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": 2, "intermediate_size": 64}
    text = {"vocab_size": 50, "max_position_embeddings": 32, "num_labels": CLASSES}
    makers: dict[str, Callable[[], nn.Module]] = {
        "bert": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, **text)),
        "roberta": lambda: transformers.RobertaForSequenceClassification(transformers.RobertaConfig(**sizes, **text)),
        "distilbert": lambda: transformers.DistilBertForSequenceClassification(
            transformers.DistilBertConfig(dim=WIDTH, n_layers=BLOCKS, n_heads=2, hidden_dim=64, **text)
        ),
        "mpnet": lambda: transformers.MPNetForSequenceClassification(transformers.MPNetConfig(**sizes, **text)),
        "vit": lambda: transformers.ViTForImageClassification(
            transformers.ViTConfig(**sizes, image_size=8, patch_size=4, num_labels=CLASSES)
        ),
    }
    return makers[family]()


@lru_cache
def _built(family: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    if family.startswith("torch"):
        return TorchClassifier(batch_first=family == "torch").eval()
    return _hugging_face(family).eval()


def make(family: str, seed: int = 0) -> nn.Module:
    model = copy.deepcopy(_built(family, seed))
    torch.manual_seed(seed)
    return model


def inputs_of(family: str, rows: int = 5) -> dict[str, Tensor]:
    """Return keyword inputs; all rows have another content."""
    generator = torch.Generator().manual_seed(rows)
    if family == "vit":
        return {"pixel_values": torch.randn(rows, 3, 8, 8, generator=generator)}
    tokens = torch.randint(5, 50, (rows, 6), generator=generator)
    if family.startswith("torch"):
        return {"tokens": tokens}
    mask = torch.ones_like(tokens)
    mask[0, 4:] = 0
    return {"input_ids": tokens, "attention_mask": mask}


def batch_of(family: str, rows: int = 5) -> dict[str, Tensor]:
    labels = torch.arange(rows) % CLASSES
    return {**inputs_of(family, rows), "labels": labels, "instance_id": torch.arange(100, 100 + rows)}


def logits(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    outputs = model(**inputs)
    return getattr(outputs, "logits", outputs)


def moved(model: nn.Module, scale: float = 0.3) -> nn.Module:
    """Return the model with its adapters away from the identity, as training would leave them."""
    for name, parameter in model.named_parameters():
        if ".adapter.up" in name:
            nn.init.normal_(parameter, std=scale)
    return model
