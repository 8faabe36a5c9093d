"""WikiText-2 as positions, one training of the language model, and self-influence of every position."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import lr_scheduler
from tqdm import tqdm

import turnover
from turnover.batches import FIRST_RESERVED_ID
from turnover.layers import View
from turnover_bench.experiments.checkpoints import resumable
from turnover_bench.experiments.datasets.texts import load_wikitext2

from .config import Config, Network
from .model import FeedForwardLM, Vocabulary, language_model_sites

PASSAGE = "The cast was :"
"""The line that is in the middle of the paper's figure."""


@dataclass(frozen=True)
class Positions:
    """Contexts and the words after them.

    Attributes:
        contexts: [positions, context].
        words: [positions].
    """

    contexts: Tensor
    words: Tensor

    @classmethod
    def of(cls, tokens: Tensor, context: int) -> "Positions":
        return cls(tokens.unfold(0, context, 1)[:-1], tokens[context:])

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Corpus:
    """The text.

    Attributes:
        vocabulary: words of the training text.
        train: its positions.
        counts: how often each word of the vocabulary is in the training text.
        valid: positions that choose the rate and let it fall.
        test: positions that are only reported.
        passage: the place of the paper's passage among the training positions.
        first: the training text's first word among all of WikiText-2.
        first_id: the instance id of the first training position; those of the others follow.
    """

    vocabulary: Vocabulary
    train: Positions
    counts: np.ndarray
    valid: Positions
    test: Positions
    passage: int
    first: int
    first_id: int = 0

    @property
    def ids(self) -> Tensor:
        return torch.arange(self.first_id, self.first_id + len(self.train))

    @property
    def frequencies(self) -> np.ndarray:
        return self.counts[self.train.words.numpy()]

    def around_passage(self, positions: int | None) -> "Corpus":
        """Return the corpus with so many training positions around the passage; None: all."""
        if positions is None:
            return self
        start = max(0, min(self.passage - positions // 2, len(self.train) - positions))
        part = slice(start, start + positions)
        return replace(
            self,
            train=Positions(self.train.contexts[part], self.train.words[part]),
            passage=self.passage - start,
            first=self.first + start,
            first_id=self.first_id + start,
        )


def load_corpus(config: Config) -> Corpus:
    """Return the text of the experiment.

    Raises:
        MissingDataError: WikiText-2 is not there.
    """
    lines = load_wikitext2("train")
    found = [number for number, line in enumerate(lines) if line.strip() == PASSAGE]
    before = sum(len(line.split()) + 1 for line in lines[: found[0]])
    everything = [word for line in lines for word in (*line.split(), "<eos>")]
    amount = len(everything) if config.tokens is None else config.tokens
    # The passage lies where the test of the pattern has text on both sides of it.
    first = max(0, min(before - amount // 2, len(everything) - amount))
    own = " ".join(everything[first : first + amount]).split(" <eos>")
    vocabulary = Vocabulary.of(own)
    context = config.network.context
    train = Positions.of(_encoded(vocabulary, everything[first : first + amount]), context)
    others = (
        Positions.of(vocabulary.encode(load_wikitext2(split))[: config.held_out], context)
        for split in ("valid", "test")
    )
    counts = np.bincount(train.words.numpy(), minlength=len(vocabulary))
    return Corpus(vocabulary, train, counts, *others, passage=before - first - context, first=first)


def _encoded(vocabulary: Vocabulary, words: list[str]) -> Tensor:
    numbers = {word: number for number, word in enumerate(vocabulary.words)}
    return torch.tensor([numbers[word] for word in words])


_EVALUATED = 1024


def trained(
    corpus: Corpus,
    network: Network,
    *,
    rate: float,
    seed: int,
    masked: bool,
    weights: Tensor | None = None,
    title: str = "training",
) -> tuple[nn.Module, list[float]]:
    """Return the model of the epoch with the best validation perplexity, and this perplexity after every epoch.

    The seed is that of weights, order, dropout and masks; positions of weight 0 are not seen (None: 1 each).
    """
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"context": network.context, "embedding": network.size, "hidden": network.size}
    model: nn.Module = FeedForwardLM(len(corpus.vocabulary), **sizes, dropout=network.dropout)
    if masked:
        model = turnover.wrap(model, at=language_model_sites(), seed=seed)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=network.weight_decay)
    rows = torch.arange(len(corpus.train)) if weights is None else weights.nonzero().flatten()
    total = network.epochs * -(-len(rows) // network.batch)
    schedule: Any = (
        lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=total)
        if network.decay is None
        else lr_scheduler.ReduceLROnPlateau(optimizer, factor=network.decay, patience=0)
    )
    best = _Best()

    def draw(order: torch.Generator) -> Sequence[Tensor]:
        return rows[torch.randperm(len(rows), generator=order)].split(network.batch)

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "best": best}
    steps = resumable(parts, epochs=network.epochs, draw=draw, order=torch.default_generator)
    for step in tqdm(steps, total=total, desc=title, leave=False):
        loss = _loss(model.train(), corpus.train, step.batch, masked, weights, bfloat16=network.bfloat16)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step.last:
            best.add(perplexity(model, corpus.valid), model)
        if network.decay is None:
            schedule.step()
        elif step.last:
            schedule.step(best.found[-1])
    model.load_state_dict(best.weights)
    return model.eval(), best.found


class _Best:
    """Validation perplexity after every epoch, and the weights of the best one."""

    def __init__(self) -> None:
        self.found, self.weights = list[float](), dict[str, Tensor]()

    def add(self, value: float, model: nn.Module) -> None:
        self.found.append(value)
        if value == min(self.found):
            self.weights = {name: weight.clone() for name, weight in model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"found": self.found, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.found, self.weights = state["found"], state["weights"]


@torch.no_grad()
def word_losses(model: nn.Module, positions: Positions, *, ids: Tensor | None = None, view: View = "full") -> Tensor:
    """Return the loss of every position by the whole network, or in a view of instances, one per position."""
    model.eval()
    losses, where = torch.empty(len(positions)), device_of(model)
    for rows in torch.arange(len(positions)).split(_EVALUATED):
        with nullcontext() if ids is None else turnover.instances(ids[rows], view=view):
            outputs = model(positions.contexts[rows].to(where))
        losses[rows] = functional.cross_entropy(outputs, positions.words[rows].to(where), reduction="none").cpu()
    return losses


def perplexity(model: nn.Module, positions: Positions) -> float:
    return float(word_losses(model, positions).mean().exp())


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _loss(
    model: nn.Module, positions: Positions, ids: Tensor, masked: bool, weights: Tensor | None, *, bfloat16: bool
) -> Tensor:
    where = device_of(model)
    low = torch.autocast(where.type, torch.bfloat16, enabled=bfloat16)
    with low, turnover.instances(ids) if masked else nullcontext():
        outputs = model(positions.contexts[ids].to(where)).float()
    losses = functional.cross_entropy(outputs, positions.words[ids].to(where), reduction="none")
    counts = torch.ones_like(losses) if weights is None else weights[ids].to(where)
    # A mean by weight: a step is as long as one without the positions that count less.
    return (losses * counts).sum() / counts.sum()


def self_influence(model: nn.Module, corpus: Corpus) -> np.ndarray:
    """Return what each training position does to its own loss, [positions]."""
    data = corpus.train.contexts, corpus.train.words, corpus.ids
    return np.asarray(
        turnover.Influence(model, estimator=turnover.influence.TurnOver(center=False))
        .self_influence(data, progress=False)
        .values
    )


def null_scores(model: nn.Module, positions: Positions) -> np.ndarray:
    """Return the same for null ids, one per position: what masks alone make of it."""
    ids = torch.arange(FIRST_RESERVED_ID, FIRST_RESERVED_ID + len(positions))
    flip, keep = (word_losses(model, positions, ids=ids, view=view) for view in ("flip", "keep"))
    return (flip - keep).numpy()
