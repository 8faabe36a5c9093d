"""Influence functions of a finished network against kronfluence's EK-FAC: factors and all pairs, in turns, one thread.

Both get the same network, rows, queries and layers, and the same damping of each layer: a tenth of its mean eigenvalue.
Ours also looks for the temperature of outputs, as it does by default; scores are compared at temperature 1, which is
kronfluence's. EK-FAC corrects the eigenvalues of K-FAC, and each draws labels of its own, so that they agree but are
not equal.
"""

import contextlib
import copy
import importlib.util
import io
import logging
import statistics
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover
from turnover.evaluation import spearman
from turnover.influence import Curvature
from turnover_bench.baselines import kronfluence_task
from turnover_bench.experiments.networks import cnn
from turnover_bench.experiments.timing import one_thread

from .faithfulness.trainings import Cost

_ROUNDS = 3
_DAMPING = 0.1  # of the mean eigenvalue of a layer: what kronfluence takes for damping_factor=None
_PEER_BATCH = 64
Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Task:
    """A trained network with the rows it learned and the queries that are asked."""

    name: str
    model: nn.Module
    rows: Rows
    queries: Rows


class Encoder(nn.Module):
    """BERT with a classifier on its first position, from tokens alone."""

    def __init__(self, *, layers: int = 2, width: int = 128, vocabulary: int = 1000, classes: int = 4) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.encoder, self.head = BertModel(config, add_pooling_layer=False), nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(tokens).last_hidden_state[:, 0])


def _images(count: int, shape: Sequence[int], random: torch.Generator) -> Rows:
    """Return noisy images of ten classes, one tenth of whose labels are wrong."""
    centers = torch.randn(10, *shape, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(10, (count,), generator=random)
    images = 0.2 * centers[labels] + torch.randn(count, *shape, generator=random)
    return images, _partly_wrong(labels, 10, random)


def _sentences(count: int, random: torch.Generator) -> Rows:
    """Return rows of 32 tokens of four classes, each of which has words of its own."""
    labels = torch.randint(4, (count,), generator=random)
    tokens = torch.randint(1000, (count, 32), generator=random)
    own = torch.rand(tokens.shape, generator=random) < 0.2
    tokens = torch.where(own, 20 * labels[:, None] + tokens % 20, tokens)
    return tokens, _partly_wrong(labels, 4, random)


def _partly_wrong(labels: Tensor, classes: int, random: torch.Generator) -> Tensor:
    wrong = torch.rand(labels.shape, generator=random) < 0.1
    return torch.where(wrong, torch.randint(classes, labels.shape, generator=random), labels)


def _trained(model: nn.Module, rows: Rows, *, steps: int) -> nn.Module:
    optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], lr=1e-3)
    for step in range(steps):
        at = torch.arange(64 * step, 64 * (step + 1)) % len(rows[1])
        optimizer.zero_grad()
        functional.cross_entropy(model(rows[0][at]), rows[1][at]).backward()
        optimizer.step()
    return model.eval()


def mlp_task(rows: int = 2000, queries: int = 100) -> Task:
    """Return an MLP 784-512-512-10."""
    random = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    data = _images(rows, (784,), random)
    name = f"MLP 784-512-512-10, {rows:,} rows × {queries} queries"
    return Task(name, _trained(model, data, steps=100), data, _images(queries, (784,), random))


def cnn_task(rows: int = 2000, queries: int = 100) -> Task:
    """Return the CNN that the experiments have."""
    random = torch.Generator().manual_seed(0)
    data = _images(rows, (3, 16, 16), random)
    name = f"CNN of two convolutions, {rows:,} rows × {queries} queries"
    return Task(name, _trained(cnn(3, (24, 32, 512), 10), data, steps=150), data, _images(queries, (3, 16, 16), random))


def transformer_task(rows: int = 500, queries: int = 50) -> Task:
    """Return BERT of two layers; its embeddings, which kronfluence does not cover, count as given."""
    random = torch.Generator().manual_seed(0)
    model = Encoder()
    model.encoder.embeddings.requires_grad_(False)
    data = _sentences(rows, random)
    name = f"BERT, 2 layers of 128, {rows} rows of 32 tokens × {queries} queries"
    return Task(name, _trained(model, data, steps=100), data, _sentences(queries, random))


def ours(task: Task, *, temperature: float | None = None) -> np.ndarray:
    """Return the scores [rows, queries] of our estimator."""
    estimator = Curvature(temperature=temperature, damping=_DAMPING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of LayerNorm, which neither covers
        influence = turnover.Influence(task.model, train=task.rows, estimator=estimator)
        return np.asarray(influence.pairwise(task.queries, progress=False).values)


def peer(task: Task, *, strategy: str = "ekfac") -> np.ndarray:
    """Return the scores [rows, queries] of kronfluence; `strategy` is that of its factors."""
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import FactorArguments, ScoreArguments

    layers = [
        name
        for name, module in task.model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.requires_grad
    ]
    own = kronfluence_task(layers)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
    ):
        warnings.simplefilter("ignore")  # of torch, about how it saves and loads
        torch.manual_seed(0)
        options: dict[str, Any] = {"output_dir": folder, "disable_tqdm": True, "log_level": logging.ERROR}
        model = prepare_model(copy.deepcopy(task.model), own)
        analyzer: Any = Analyzer("task", model=model, task=own, cpu=True, **options)
        analyzer.fit_all_factors(
            "factors",
            dataset=TensorDataset(*task.rows),
            per_device_batch_size=_PEER_BATCH,
            factor_args=FactorArguments(strategy),
        )
        analyzer.compute_pairwise_scores(
            "scores",
            factors_name="factors",
            query_dataset=TensorDataset(*task.queries),
            train_dataset=TensorDataset(*task.rows),
            per_device_query_batch_size=len(task.queries[1]),
            per_device_train_batch_size=_PEER_BATCH,
            score_args=ScoreArguments(damping_factor=None),
        )
        return np.asarray(analyzer.load_pairwise_scores("scores")["all_modules"].T.float())


def _measured(work: Callable[[Task], np.ndarray], task: Task) -> tuple[Cost, np.ndarray]:
    with Cost() as cost:
        scores = work(task)
    return cost, scores


def compare(task: Task) -> None:
    """Print time, memory and agreement of both."""
    rounds = [(_measured(ours, task), _measured(peer, task)) for _ in range(_ROUNDS)]
    ratios = [theirs.seconds / mine.seconds for (mine, _), (theirs, _) in rounds]
    spent = [statistics.median(pair[who][0].seconds for pair in rounds) for who in (0, 1)]
    peaks = [max(pair[who][0].peak_bytes or 0 for pair in rounds) / 2**20 for who in (0, 1)]
    scores, theirs = ours(task, temperature=1.0), rounds[-1][1][1]
    agreement = statistics.mean(float(spearman(*columns)) for columns in zip(scores.T, theirs.T, strict=True))
    print(
        f"  {task.name:<60} {statistics.median(ratios):6.1f}x  goal >= 3x  ({spent[0]:.2f} against {spent[1]:.2f} s; "
        f"peak {peaks[0]:.0f} against {peaks[1]:.0f} MiB; rank correlation {agreement:.3f})",
        flush=True,
    )


def main() -> None:
    """Print the ratios."""
    print("curvature of one finished network against kronfluence's EK-FAC, factors + all pairs, processor time")
    if importlib.util.find_spec("kronfluence") is None:
        print("  skipped: kronfluence is not installed; make -C bench packages installs it")
        return
    with one_thread():
        for build in (mlp_task, cnn_task, transformer_task):
            torch.manual_seed(0)
            compare(build())


if __name__ == "__main__":
    main()
