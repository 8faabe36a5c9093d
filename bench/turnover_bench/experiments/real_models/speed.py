"""The engine on a transformer with adapters: against the authors' loop, and with the masks of the top blocks only."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.evaluation import spearman
from turnover.influence import NULL_IDS, null_ids
from turnover.layers import masking_of
from turnover.wrapping import only_at, top_sites, wrapped_root
from turnover_bench.experiments.encoders import Rows
from turnover_bench.experiments.timing import seconds

from .config import SpeedConfig

_LOOP_BATCH = 100
_FURTHER = 0.1


def measure(model: nn.Module, dev: Rows, config: SpeedConfig) -> dict[str, Any]:
    """Return seconds and rank correlations."""
    networks = {"all": model, **{str(top): only_at(model, top_sites(model, top)) for top in config.top}}
    first, *others = range(config.sentences)
    plain = turnover.unwrap(model).eval()
    loop = _loop(plain, dev, first, config)
    found: dict[str, Any] = {"tokens": len(dev.tokens[first]), "loop": loop, "null_ids": NULL_IDS, "networks": {}}
    first_scores = {name: _scores(net, dev, first, config.instances) for name, net in networks.items()}
    fewer = max(2, round(_FURTHER * config.instances))
    further = [{name: _scores(net, dev, place, fewer)[0] for name, net in networks.items()} for place in others]
    for name, (scores, spent, path) in first_scores.items():
        pairs = (scores, first_scores["all"][0]), *((one[name], one["all"]) for one in further)
        found["networks"][name] = {
            "seconds": spent,
            "path": path,
            "ratio": loop["seconds"] / spent,
            "rank_correlation": float(np.mean([spearman(*pair) for pair in pairs])),
            "rank_correlation_first": float(spearman(scores, first_scores["all"][0])),
        }
    return found


def origin(model: nn.Module, dev: Rows, config: SpeedConfig) -> dict[str, Any]:
    """Return where scores on the first sentence come from: their deviation by the masks used, for trained and null ids.

    A rank correlation that is as high for null ids comes from shared masks, not from training.
    """
    head = top_sites(model, 0)
    every = [site.path for site in masking_of(wrapped_root(model)).recipe.sites]
    networks = {
        "all": model,
        "output layer": only_at(model, head),
        "adapters": only_at(model, [path for path in every if path not in head]),
    }
    found: dict[str, Any] = {}
    for kind, ids in (("trained", torch.arange(config.origin)), ("null", null_ids(config.origin))):
        scores = {name: _plain_scores(network, dev, 0, ids) for name, network in networks.items()}
        found[kind] = {
            name: {"spread": float(one.std()), "rank_correlation": float(spearman(one, scores["all"]))}
            for name, one in scores.items()
        }
    return found


@torch.no_grad()
def _plain_scores(model: nn.Module, dev: Rows, place: int, ids: Tensor) -> np.ndarray:
    """Return loss(flip) - loss(keep) of one sentence, the plainest way."""
    losses: dict[str, Tensor] = {}
    labels = dev.labels[[place]].repeat(len(ids))
    for view in ("flip", "keep"):
        with turnover.instances(ids, view=view):
            losses[view] = functional.cross_entropy(model(**dev.batch([place])).logits, labels, reduction="none")
    return (losses["flip"] - losses["keep"]).double().numpy()


def _loop(plain: nn.Module, dev: Rows, place: int, config: SpeedConfig) -> dict[str, Any]:
    """Return the seconds of two passes per instance, 100 repeated inputs per batch, on the model without masks."""
    query = {name: value.repeat(_LOOP_BATCH, 1) for name, value in dev.batch([place]).items()}
    labels = dev.labels[[place]].repeat(_LOOP_BATCH)

    def once() -> None:
        with torch.no_grad():
            for _ in range(2):
                functional.cross_entropy(plain(**query).logits, labels, reduction="none")

    once()
    timed = seconds(lambda: [once() for _ in range(config.loop_batches)])
    every = config.instances / (_LOOP_BATCH * config.loop_batches)
    return {"seconds": timed * every, "timed_batches": config.loop_batches, "timed_seconds": timed}


def _scores(model: nn.Module, dev: Rows, place: int, instances: int) -> tuple[np.ndarray, float, str]:
    """Return scores of instances on one sentence, the seconds they took, and the engine's path."""
    query: dict[str, Tensor] = {**dev.batch([place]), "labels": dev.labels[[place]]}
    ask = turnover.Influence(model, nulls=NULL_IDS)
    found: list[turnover.Scores] = []
    spent = seconds(lambda: found.append(ask.pairwise(query, ids=range(instances), progress=False)))
    return found[0].values[:, 0], spent, found[0].path
