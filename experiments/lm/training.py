"""One training of the language model, with masks or without, on all positions or some, each with a weight."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from turnover.runs import FeedForwardLM, language_model_sites

from .config import Network
from .corpus import Corpus, Positions

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

    Args:
        corpus: the text.
        network: sizes and settings.
        rate: at the start.
        seed: of weights, order, dropout and masks.
        masked: with turn-over dropout.
        weights: of the positions; those of weight 0 are not seen. None: 1 each.
        title: of the progress bar.
    """
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"context": network.context, "embedding": network.size, "hidden": network.size}
    model: nn.Module = FeedForwardLM(len(corpus.vocabulary), **sizes, dropout=network.dropout)
    if masked:
        model = turnover.wrap(model, at=language_model_sites(), seed=seed)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=network.weight_decay)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=network.decay, patience=0)
    rows = torch.arange(len(corpus.train)) if weights is None else weights.nonzero().flatten()
    found: list[float] = []
    best: dict[str, Tensor] = {}
    for _ in tqdm(range(network.epochs), desc=title, leave=False):
        for ids in rows[torch.randperm(len(rows))].split(network.batch):
            _step(model.train(), optimizer, corpus.train, ids, masked, weights)
        found.append(perplexity(model, corpus.valid))
        schedule.step(found[-1])
        if found[-1] == min(found):
            best = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(best)
    return model.eval(), found


@torch.no_grad()
def word_losses(model: nn.Module, positions: Positions) -> Tensor:
    """Return the loss of every position by the whole network."""
    model.eval()
    where = device_of(model)
    parts = zip(positions.contexts.split(_EVALUATED), positions.words.split(_EVALUATED), strict=True)
    losses = [
        functional.cross_entropy(model(context.to(where)), words.to(where), reduction="none")
        for context, words in parts
    ]
    return torch.cat(losses).cpu()


def perplexity(model: nn.Module, positions: Positions) -> float:
    """Return the perplexity of the whole network."""
    return float(word_losses(model, positions).mean().exp())


def device_of(model: nn.Module) -> torch.device:
    """Return where a model is."""
    return next(model.parameters()).device


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    positions: Positions,
    ids: Tensor,
    masked: bool,
    weights: Tensor | None,
) -> None:
    where = device_of(model)
    with turnover.instances(ids) if masked else nullcontext():
        outputs = model(positions.contexts[ids].to(where))
    losses = functional.cross_entropy(outputs, positions.words[ids].to(where), reduction="none")
    counts = torch.ones_like(losses) if weights is None else weights[ids].to(where)
    # A mean by weight: a step is as long as one without the positions that count less.
    loss = (losses * counts).sum() / counts.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
