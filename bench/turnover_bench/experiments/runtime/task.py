"""MNLI for an encoder with masked adapters: tokens, the model, its training, one target."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

import turnover
from turnover_bench.experiments.datasets.mnli import LABELS, load_mnli
from turnover_bench.experiments.encoders import BATCH, Rows, classifier, padded, train

from .config import Config

LONGEST = 128
_CANDIDATES = 500  # validation pairs among which the target is found


@dataclass(frozen=True)
class PairRows(Rows):
    """Tokenized pairs of sentences.

    Attributes:
        types: of the tokens of each pair: 0 in the premise, 1 in the hypothesis.
    """

    types: list[list[int]]

    def batch(self, places: list[int]) -> dict[str, Tensor]:
        """Return these pairs, padded to the longest of them."""
        return {**super().batch(places), "token_type_ids": padded([self.types[place] for place in places])}

    @property
    def lengths(self) -> Tensor:
        """Return the number of tokens of every pair."""
        return torch.tensor([len(one) for one in self.tokens])

    def of(self, places: list[int]) -> "PairRows":
        """Return some of the pairs, in the order given."""
        some = torch.tensor(places)
        return PairRows([self.tokens[one] for one in places], self.labels[some], [self.types[one] for one in places])


@dataclass(frozen=True)
class Task:
    """Everything that all methods share.

    Attributes:
        train: the instances.
        target: one pair of the validation set.
        model: wrapped and trained.
    """

    train: PairRows
    target: PairRows
    model: nn.Module


def load_rows(config: Config, folder: Path | str) -> tuple[PairRows, PairRows]:
    """Return the instances, and as target the first validation pair that is as long as their median.

    Raises:
        MissingDataError: MNLI is not there.
    """
    train = _tokenized("train", folder, config.instances)
    held_out = _tokenized("validation", folder, _CANDIDATES)
    median = int(train.lengths.median())
    # Both methods' seconds grow with length: a target of usual length favors none.
    place = int((held_out.lengths - median).abs().argmin())
    return train, held_out.of([place])


def trained(config: Config, folder: Path | str, rows: PairRows, file: Path) -> nn.Module:
    """Return the trained model; one that was trained before is opened."""
    base = classifier(folder, seed=config.seed, classes=len(LABELS))
    if file.exists():
        return turnover.load(file, model=base).eval()
    model = turnover.wrap(base, adapters=config.adapter, seed=config.seed)
    some = rows.of(list(range(min(config.trained, len(rows)))))
    with tqdm(total=-(-len(some) // BATCH), desc="training") as bar:
        train(model, some, masked=True, rate=config.rate, epochs=1, seed=config.seed, tell=bar.update)
    turnover.save(model, file)
    return model.eval()


class Trimmed(nn.Module):
    """A classifier of padded pairs that computes no padding beyond the longest pair of a batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, types: Tensor, real: Tensor) -> Tensor:
        """Return the scores of the classes."""
        longest = int(real.sum(1).max())
        tokens, types, real = (one[:, :longest] for one in (tokens, types, real))
        return self.model(input_ids=tokens, token_type_ids=types, attention_mask=real).logits


def padded_rows(rows: PairRows) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, types and which tokens are real, all rows as long as the longest."""
    found = rows.batch(list(range(len(rows))))
    return found["input_ids"], found["token_type_ids"], found["attention_mask"]


def _tokenized(split: Any, folder: Path | str, rows: int | None) -> PairRows:
    from transformers import AutoTokenizer

    found = load_mnli(split, rows=rows)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options: dict[str, Any] = {"max_length": LONGEST, "truncation": True, "return_token_type_ids": True}
    encoded = tokenizer(found.premises, found.hypotheses, **options)
    return PairRows(encoded["input_ids"], torch.from_numpy(found.labels), encoded["token_type_ids"])
