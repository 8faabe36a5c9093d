"""A tiny masked BERT, rows of numbers for it, and settings of a quiet Trainer, for the tests of the trainers."""

from typing import Any

import torch
from torch import nn

import turnover

ROWS, WORDS = 24, 40
PLAIN = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert(labels: int = 2, **options: Any) -> nn.Module:
    """A BERT with random weights that are the same at every call."""
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.BertConfig(
        **sizes, vocab_size=WORDS, max_position_embeddings=16, num_labels=labels, **{**PLAIN, **options}
    )
    torch.manual_seed(3)
    return transformers.BertForSequenceClassification(config)


def masked(**options: Any) -> nn.Module:
    return turnover.wrap(bert(**options), adapters=8)


def rows(count: int = ROWS, seed: int = 0) -> Any:
    """Rows of different lengths as a `datasets.Dataset`, with a column that no model takes."""
    import datasets

    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (count,), generator=generator).tolist()
    tokens = [torch.randint(5, WORDS, (length,), generator=generator).tolist() for length in lengths]
    return datasets.Dataset.from_dict(
        {
            "text": [f"row {number}" for number in range(count)],
            "input_ids": tokens,
            "attention_mask": [[1] * length for length in lengths],
            "label": [int(words[0] > 20) for words in tokens],
        }
    )


def pad(features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Dynamic padding, without a tokenizer and its vocabulary file."""
    longest = max(len(row["input_ids"]) for row in features)
    batch = {
        name: torch.tensor([row[name] + [0] * (longest - len(row[name])) for row in features])
        for name in ("input_ids", "attention_mask")
    }
    unknown = {name for row in features for name in row} - {"input_ids", "attention_mask", "label"}
    assert not unknown, unknown
    return {**batch, "labels": torch.tensor([row["label"] for row in features])}


def arguments(folder: Any, **options: Any) -> Any:
    """Settings without clipping, in the order of the data, with nothing written and nothing printed."""
    import transformers

    quiet = {"save_strategy": "no", "disable_tqdm": True, "report_to": [], "dataloader_pin_memory": False}
    plain = {"max_grad_norm": 0, "lr_scheduler_type": "constant", "train_sampling_strategy": "sequential"}
    sizes = {"per_device_train_batch_size": 4, "learning_rate": 1e-2, "weight_decay": 0.01, "use_cpu": True}
    return transformers.TrainingArguments(str(folder), **{**quiet, **plain, **sizes, "logging_steps": 1, **options})


def trained(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}
