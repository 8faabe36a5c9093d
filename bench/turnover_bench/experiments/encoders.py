"""Pretrained encoders on texts: tokens, models with masked adapters or without masks, training and accuracy."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.experiments.checkpoints import resumable
from turnover_bench.experiments.datasets.texts import Sentences, Split, load_sst2, minilm_folder

LONGEST = 64
BATCH = 32
UNITS = 64
"""Of each adapter."""
DEV_ROWS = 872
"""Of SST-2."""
_EVALUATED = 64
_MEGABATCH = 50


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


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
        return len(self.tokens)

    def batch(self, places: list[int]) -> dict[str, Tensor]:
        """Return these sentences, padded to the longest of them."""
        tokens = [self.tokens[place] for place in places]
        return {"input_ids": padded(tokens), "attention_mask": padded([[1] * len(row) for row in tokens])}


def load_rows(
    split: Split,
    *,
    encoder: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    start: int = 0,
    rows: int | None = None,
) -> Rows:
    """Return sentences of SST-2 as tokens of an encoder (None: MiniLM), so many from `start` on.

    They are drawn by the seed: those of another start are other rows. None: as in the file.
    """
    sentences, stop = _sentences(split, seed), None if rows is None else start + rows
    tokenizer = _tokenizer(os.fspath(encoder or minilm_folder()))
    tokens = tokenizer(sentences.texts[start:stop], max_length=LONGEST, truncation=True)["input_ids"]
    return Rows(tokens, torch.from_numpy(sentences.labels[start:stop]))


@lru_cache(maxsize=3)
def _sentences(split: Split, seed: int | None) -> Sentences:
    return load_sst2(split, seed=seed)


@lru_cache(maxsize=1)
def _tokenizer(encoder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(encoder)


def open_encoder(out: Path, *, name: str | None = None, blocks: int | None = None) -> str:
    """Return what transformers opens: a name on the hub or a folder.

    Args:
        out: where a tiny encoder is written.
        name: on the Hugging Face hub, or a folder; None: MiniLM.
        blocks: of a tiny untrained encoder with MiniLM's words, which stands in for MiniLM in a toy run.
    """
    if name is not None or blocks is None:
        return name or os.fspath(minilm_folder())
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
    return os.fspath(folder)


def encoder_words(name: str | None, blocks: int | None) -> str:
    """Return what a page calls the encoder."""
    if name is not None:
        return name
    return "MiniLM" if blocks is None else f"An untrained encoder of {blocks} blocks"


def classifier(encoder: str | os.PathLike[str], *, seed: int | None = None, classes: int = 2) -> Any:
    """Return an encoder with a new output layer, drawn from a seed, or from torch's present one."""
    from transformers import AutoModelForSequenceClassification

    if seed is not None:
        torch.manual_seed(seed)
    options: dict[str, Any] = {"num_labels": classes, "ignore_mismatched_sizes": True}
    return AutoModelForSequenceClassification.from_pretrained(encoder, **options)


def adapter_network(encoder: str | os.PathLike[str], *, masked: bool, seed: int) -> nn.Module:
    """Return a frozen encoder with adapters and a new output layer, both under masks or both without.

    Both start from the same weights.
    """
    wrapped = turnover.wrap(classifier(encoder, seed=seed), adapters=UNITS, seed=seed)
    return wrapped if masked else turnover.unwrap(wrapped)


def train(
    model: nn.Module,
    rows: Rows,
    *,
    masked: bool,
    rate: float,
    epochs: int,
    seed: int,
    tell: Callable[[], object],
    kept: Mapping[str, Any] | None = None,
) -> None:
    """Train in place as the Trainer of Hugging Face does by default: AdamW without decay, a rate that falls to zero.

    A place in `rows` is the instance id; the seed is that of the order and of ordinary dropout. `tell` is called after
    every step. Within a part of a run it resumes; what `kept` holds is kept with its state.
    """
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=rate, weight_decay=0.0)
    steps = epochs * -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    model.train()
    parts = {"model": _Learning(model), "optimizer": optimizer, "schedule": schedule}
    for step in resumable({**parts, **(kept or {})}, epochs=epochs, draw=partial(batches, rows), order=order):
        places = step.batch
        with turnover.instances(places) if masked else nullcontext():
            logits = model(**rows.batch(places)).logits
        loss = functional.cross_entropy(logits, rows.labels[places])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        tell()
    model.eval()


class _Learning:
    """What of a model is trained: of an encoder with adapters a small part."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}

    def state_dict(self) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in self._parameters.items()}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            self._parameters[name].copy_(value)


def batches(rows: Rows, order: torch.Generator) -> list[list[int]]:
    """Return all places in random batches of sentences of like length, so that little padding is computed."""
    places = torch.randperm(len(rows), generator=order)
    parts = [batch for part in places.split(_MEGABATCH * BATCH) for batch in by_length(rows, part.tolist(), BATCH)]
    return [parts[number] for number in torch.randperm(len(parts), generator=order).tolist()]


def by_length(rows: Rows, places: Iterable[int], size: int) -> list[list[int]]:
    """Return batches of places, from the shortest sentences to the longest."""
    ordered = sorted(places, key=lambda place: len(rows.tokens[place]))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


@torch.no_grad()
def judge(model: nn.Module, rows: Rows) -> dict[str, float]:
    """Return accuracy and mean loss of the full network."""
    model.eval()
    right = loss = 0.0
    for places in by_length(rows, range(len(rows)), _EVALUATED):
        logits, labels = model(**rows.batch(places)).logits, rows.labels[places]
        right += float((logits.argmax(1) == labels).sum())
        loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
    return {"accuracy": right / len(rows), "loss": loss / len(rows)}


def encoder_inputs(encoder: str | os.PathLike[str], texts: Sequence[str], *, longest: int = 64) -> dict[str, Tensor]:
    """Return the tokens of texts as an encoder, a folder or a name on the hub, takes them, all of one length."""
    tokenizer = _tokenizer(os.fspath(encoder))
    # To the same length for training and query rows alike: scoring compares batches of both.
    tokens = tokenizer(list(texts), padding="max_length", truncation=True, max_length=longest, return_tensors="pt")
    return {name: tokens[name] for name in ("input_ids", "attention_mask")}


def encoder_recipe(
    encoder: str | os.PathLike[str],
    inputs: Mapping[str, Tensor],
    labels: Tensor,
    *,
    masked: bool,
    rate: float,
    epochs: int,
    batch_size: int = 32,
    replicas: int = 1,
    seed: int = 0,
) -> TrainingRecipe:
    """Return how an encoder with an output layer is trained: AdamW, a rate that falls to zero, batches by length.

    Masked, adapters in the frozen encoder are trained, with masks of the seed; else all of it is fine-tuned.
    """
    steps = epochs * -(-len(labels) // batch_size)
    plain = partial(_classifier_without_padding, encoder)
    return TrainingRecipe(
        partial(_masked, plain, seed, replicas) if masked else plain,
        inputs,
        labels,
        optimizer=partial(torch.optim.AdamW, lr=rate, weight_decay=0.0),
        schedule=partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.0, total_iters=steps),
        epochs=epochs,
        batch_size=batch_size,
        lengths=inputs["attention_mask"].sum(1),
    )


def _classifier_without_padding(encoder: str | os.PathLike[str]) -> nn.Module:
    model = classifier(encoder)
    model.register_forward_pre_hook(_drop_padding, with_kwargs=True)
    return model


def _drop_padding(_: nn.Module, given: tuple[Any, ...], named: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    longest = int(named["attention_mask"].sum(1).max())
    return given, {name: tokens[:, :longest] for name, tokens in named.items()}


def _masked(build: Callable[[], nn.Module], seed: int, replicas: int) -> nn.Module:
    return turnover.wrap(build(), adapters=UNITS, seed=seed, replicas=replicas)
