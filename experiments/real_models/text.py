"""SST-2 for a pretrained encoder: tokens, a model, one training loop with masks or without, accuracy."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from experiments.datasets.minilm import minilm_folder
from experiments.datasets.sst2 import load_sst2

LONGEST = 64
BATCH = 32
_EVALUATED = 64
_MEGABATCH = 50


@dataclass(frozen=True)
class Rows:
    """Tokenized sentences.

    Attributes:
        tokens: of each sentence, without padding.
        labels: [sentences].
    """

    tokens: list[list[int]]
    labels: Tensor

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.tokens)

    def batch(self, places: list[int]) -> dict[str, Tensor]:
        """Return these sentences, padded to the longest of them."""
        longest = max(len(self.tokens[place]) for place in places)
        ids = torch.zeros(len(places), longest, dtype=torch.int64)
        real = torch.zeros_like(ids)
        for row, place in enumerate(places):
            ids[row, : len(self.tokens[place])] = torch.tensor(self.tokens[place])
            real[row, : len(self.tokens[place])] = 1
        return {"input_ids": ids, "attention_mask": real}


def load_rows(split: str, *, start: int = 0, rows: int | None = None) -> Rows:
    """Return tokenized sentences of SST-2 in the order of the file.

    Args:
        split: "train" or "dev".
        start: the first of them.
        rows: how many; None: all.
    """
    from transformers import AutoTokenizer

    found = load_sst2(split, seed=None)  # pyright: ignore[reportArgumentType]
    stop = None if rows is None else start + rows
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    tokens = tokenizer(found.texts[start:stop], max_length=LONGEST, truncation=True)["input_ids"]
    return Rows(tokens, torch.from_numpy(found.labels[start:stop]))


def encoder_folder(blocks: int | None, out: Path) -> Path:
    """Return the folder of MiniLM, or of a tiny untrained encoder with so many blocks and MiniLM's words."""
    if blocks is None:
        return minilm_folder()
    folder = out / f"tiny-{blocks}"
    if not folder.exists():
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_folder())
        sizes: dict[str, Any] = {
            "hidden_size": 16,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "num_hidden_layers": blocks,
        }
        torch.manual_seed(0)
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, vocab_size=len(tokenizer)))
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return folder


def classifier(folder: Path, seed: int) -> Any:
    """Return a pretrained encoder with a new head for two classes."""
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(seed)
    return AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)


def train(
    model: nn.Module, rows: Rows, *, masked: bool, rate: float, epochs: int, seed: int, tell: Callable[[], object]
) -> None:
    """Train as the Trainer of Hugging Face does by default: AdamW without decay, a rate that falls to zero.

    Args:
        model: is trained in place.
        rows: place in `rows` is the instance id.
        masked: run within `turnover.instances`.
        rate: at the start.
        epochs: passes over the rows.
        seed: of the order and of ordinary dropout.
        tell: called after every step.
    """
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=rate, weight_decay=0.0)
    steps = epochs * -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    model.train()
    for _ in range(epochs):
        for places in batches(rows, order):
            with turnover.instances(places) if masked else nullcontext():
                logits = model(**rows.batch(places)).logits
            loss = functional.cross_entropy(logits, rows.labels[places])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            tell()
    model.eval()


def batches(rows: Rows, order: torch.Generator) -> Iterator[list[int]]:
    """Yield all places in random batches of sentences of like length, so that little padding is computed."""
    places = torch.randperm(len(rows), generator=order).tolist()
    found: list[list[int]] = []
    for start in range(0, len(places), _MEGABATCH * BATCH):
        part = sorted(places[start : start + _MEGABATCH * BATCH], key=lambda place: len(rows.tokens[place]))
        found += [part[first : first + BATCH] for first in range(0, len(part), BATCH)]
    for place in torch.randperm(len(found), generator=order).tolist():
        yield found[place]


@torch.no_grad()
def judge(model: nn.Module, rows: Rows) -> dict[str, float]:
    """Return accuracy and mean loss of the full network."""
    model.eval()
    right = loss = 0.0
    places = sorted(range(len(rows)), key=lambda place: len(rows.tokens[place]))
    for start in range(0, len(places), _EVALUATED):
        some = places[start : start + _EVALUATED]
        logits, labels = model(**rows.batch(some)).logits, rows.labels[some]
        right += float((logits.argmax(1) == labels).sum())
        loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
    return {"accuracy": right / len(rows), "loss": loss / len(rows)}
