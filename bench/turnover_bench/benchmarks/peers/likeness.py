"""What subclass detection rewards: the same scores by likeness and by influence, judged by it and by retraining.

quanda's `SubclassDetection` asks whether the highest-ranked row has the digit of the query, where only even and odd
were learned. Here its question is put to scores as they are and divided by the size that each row's scores have; beside
it stands how well the same scores foretell retraining (LDS).
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from turnover import Influence, with_instance_ids
from turnover.evaluation import SubsetOutcomes, lds, subset_outcomes
from turnover.training import TrainingRecipe

from .digits import ADAM, Config, digit_rows, fitted, masked

BATCH = 64


def one_hidden_layer(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, classes, bias=False))


def measure_likeness(config: Config, epochs: int, seed: int) -> dict[str, dict[str, float]]:
    """Return, for each kind of score, subclass detection, how many different rows come first, and LDS."""
    rows, tests = digit_rows(config)
    (x, digits), (asked, asked_digits) = rows.tensors, tests.tensors
    train, build = (x, digits % 2), partial(one_hidden_layer, 2)
    fit = partial(fitted, rows=train, optimizer=ADAM, epochs=epochs, batch_size=BATCH, seed=seed)
    network, replicas = fit(build), fit(partial(masked, build, ["2"], seed=seed))
    with torch.no_grad():
        # As in the benchmark: asked about predictions.
        queries = asked, network(asked).argmax(1)
    recipe = TrainingRecipe(build, *train, optimizer=ADAM, epochs=epochs, batch_size=BATCH)
    truth = subset_outcomes(recipe, queries, subsets=config.halves, seeds=1)
    found = {}
    for name, values in _scores(network, replicas, train, queries).items():
        first = values.argmax(0)
        found[name] = {
            "subclass": float((digits.numpy()[first] == asked_digits.numpy()).mean()),
            "different": float(len(set(first.tolist()))),
            "lds": _lds(values, truth),
        }
    return found


def _lds(values: np.ndarray, truth: SubsetOutcomes) -> float:
    return lds(values, truth.subsets, truth.outcomes, ids=truth.ids).value


def _scores(
    network: nn.Module, replicas: nn.Module, train: tuple[Tensor, Tensor], queries: tuple[Tensor, Tensor]
) -> dict[str, np.ndarray]:
    """Return scores [rows, queries] of each kind."""
    found: dict[str, Any] = {"cosine of hidden units": _cosines(network, train[0], queries[0])}
    masked_rows = with_instance_ids(TensorDataset(*train))
    for name, influence in {
        "turnover: one finished network": Influence(network, train=train),
        "turnover: 8 replicas with masks": Influence(replicas, train=masked_rows),
    }.items():
        values = influence.pairwise(queries, progress=False).values
        found[name] = values
        found[f"{name}, per row's own size"] = values / np.sqrt((values**2).mean(1, keepdims=True))
    return found


@torch.no_grad()
def _cosines(network: nn.Module, rows: Tensor, queries: Tensor) -> np.ndarray:
    assert isinstance(network, nn.Sequential)
    hidden = network[:-1]
    return (functional.normalize(hidden(rows)) @ functional.normalize(hidden(queries)).T).numpy()
