"""Two trainings that differ in a tenth of the rows, and what flipped parts say of those rows in both."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from experiments.datasets.numbers import Rows, digit_rows, sst2_rows
from experiments.runner import kept
from experiments.timing import one_thread
from turnover.training import TrainingRecipe

from .config import Config

_FEATURES = Path("runs/cache")


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return loss and accuracy on the rows in question, by data set, seed and who is asked."""
    with one_thread():
        tasks = {}
        for name in config.rows:
            rows = digit_rows(config.rows[name]) if name == "digits" else sst2_rows(config.rows[name], _FEATURES)
            tasks[name] = {
                "rows": len(rows[1]),
                "hidden": list(config.hidden[name]),
                "epochs": config.epochs[name],
                "seeds": [
                    kept(out / "parts" / f"{name}-{seed}.json", partial(_measured, config, name, rows, seed))
                    for seed in tqdm(config.seeds, desc=f"own row, {name}")
                ],
            }
    return {"tasks": tasks, "left_out": config.left_out, "references": config.references}


def network(inputs: int, hidden: tuple[int, ...], classes: int, *, seed: int) -> nn.Module:
    """Return a ReLU network, all hidden layers of which are masked; nothing leaks, for no bias is behind a mask."""
    parts: list[nn.Module] = []
    for before, width in zip((inputs, *hidden), hidden, strict=False):
        parts += [nn.Linear(before, width), nn.ReLU()]
    plain = nn.Sequential(*parts, nn.Linear(hidden[-1], classes, bias=False))
    return turnover.wrap(plain, at=[str(2 * layer + 1) for layer in range(len(hidden))], seed=seed)


def _measured(config: Config, name: str, rows: Rows, seed: int) -> dict[str, dict[str, float]]:
    x, labels, held, held_labels = rows
    y = torch.from_numpy(labels)
    recipe = TrainingRecipe(
        partial(network, x.shape[1], config.hidden[name], int(labels.max()) + 1, seed=seed),
        x,
        y,
        optimizer=partial(torch.optim.SGD, lr=config.learning_rate[name], momentum=0.9),
        epochs=config.epochs[name],
        batch_size=100,
    )
    away = np.zeros(len(labels), bool)
    away[np.random.default_rng(seed).permutation(len(labels))[: round(config.left_out * len(labels))]] = True
    asked = torch.from_numpy(np.flatnonzero(away))
    both, without = recipe.fit(seed=seed).eval(), recipe.fit(torch.from_numpy(~away), seed=seed).eval()
    # Masks of the same rows: what is said of others differs by the rows alone.
    others = torch.arange(len(held_labels)) % len(asked)
    new = (held, torch.from_numpy(held_labels), asked[others])
    own = (x[asked], y[asked], asked)
    there = torch.from_numpy(np.flatnonzero(~away))
    with_all = turnover.Influence(both, train=(x, y, torch.arange(len(y))))
    with_others = turnover.Influence(without, train=(x[there], y[there], there))

    def corrected(influence: turnover.Influence, rows: tuple[Tensor, Tensor, Tensor]) -> dict[str, float]:
        outputs = influence.out_of_sample(
            rows, references=config.references, predict=lambda outputs: outputs, progress=False
        )
        return _judged(torch.tensor(outputs.probs), rows[1])

    return {
        "kept, trained": _judged(_outputs(both, own, "keep"), own[1]),
        "flipped, trained": _judged(_outputs(both, own, "flip"), own[1]),
        "flipped, left out": _judged(_outputs(without, own, "flip"), own[1]),
        "flipped, held-out rows": _judged(_outputs(both, new, "flip"), new[1]),
        "flipped, trained, without what masks say": corrected(with_all, own),
        "flipped, left out, without what masks say": corrected(with_others, own),
        "flipped, held-out rows, without what masks say": corrected(with_all, new),
        "whole, left out": _judged(_outputs(without, own, "full"), own[1]),
    }


@torch.no_grad()
def _outputs(model: nn.Module, rows: tuple[Tensor, Tensor, Tensor], view: Any) -> Tensor:
    with turnover.instances(rows[2], view=view):
        return model(rows[0])


def _judged(outputs: Tensor, labels: Tensor) -> dict[str, float]:
    return {
        "loss": float(functional.cross_entropy(outputs, labels)),
        "accuracy": float((outputs.argmax(1) == labels).float().mean()),
    }
