"""What a flipped subnetwork knows of its own row."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.numbers import Rows, digit_rows, sst2_rows
from turnover_bench.experiments.findings import Finding, graded, paragraphs, spread
from turnover_bench.experiments.networks import masked_mlp
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import one_thread


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: training rows, by data set.
        hidden: widths of the masked layers, by data set.
        epochs: of every training, by data set.
        learning_rate: of SGD with momentum 0.9, by data set.
        left_out: share of the rows that one of the two trainings omits.
        references: rows by which mask bias is estimated.
        seeds: of omitted rows, weights, masks and order.
    """

    rows: dict[str, int]
    hidden: dict[str, tuple[int, ...]]
    epochs: dict[str, int]
    learning_rate: dict[str, float]
    left_out: float = 0.1
    references: int = 32
    seeds: tuple[int, ...] = (0, 1, 2)


_RATES = {"digits": 0.1, "sst2": 0.04}

SIZES = {
    "toy": Config({"digits": 120}, {"digits": (64,)}, {"digits": 4}, _RATES, references=4, seeds=(0,)),
    "small": Config(
        {"digits": 1_300, "sst2": 5_000}, {"digits": (512, 512), "sst2": (512,)}, {"digits": 25, "sst2": 6}, _RATES
    ),
    "medium": Config(
        {"digits": 1_300, "sst2": 20_000},
        {"digits": (512, 512), "sst2": (512,)},
        {"digits": 25, "sst2": 6},
        _RATES,
        seeds=tuple(range(10)),
    ),
    "full": Config(
        {"digits": 1_300, "sst2": 67_349},
        {"digits": (512, 512), "sst2": (512,)},
        {"digits": 25, "sst2": 6},
        _RATES,
        seeds=tuple(range(10)),
    ),
}
NEEDS = {"medium": Needs(disk=0.1, memory=2, hours=0.1)}


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


def _measured(config: Config, name: str, rows: Rows, seed: int) -> dict[str, dict[str, float]]:
    x, labels, held, held_labels = rows
    y = torch.from_numpy(labels)
    recipe = TrainingRecipe(
        partial(masked_mlp, x.shape[1], config.hidden[name], int(labels.max()) + 1, seed=seed),
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
        "flipped, trained, corrected": corrected(with_all, own),
        "flipped, left out, corrected": corrected(with_others, own),
        "flipped, held-out rows, corrected": corrected(with_all, new),
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


_TASKS = {"digits": "Handwritten digits", "sst2": "SST-2, features of MiniLM"}
_WHO = {
    "kept, trained": "kept subnetwork, trained on the rows",
    "flipped, trained": "flipped subnetwork, network trained on the rows",
    "flipped, left out": "flipped subnetwork, network not trained on them",
    "flipped, held-out rows": "flipped subnetworks of the same masks, held-out rows",
    "flipped, trained, corrected": "network trained on the rows, mask-bias correction",
    "flipped, left out, corrected": "network not trained on them, mask-bias correction",
    "flipped, held-out rows, corrected": "held-out rows, mask-bias correction",
    "whole, left out": "full network, not trained on the rows",
}
_TRAINED, _AWAY = "flipped, trained", "flipped, left out"
_CORRECTED = ", corrected"


def page(result: dict[str, Any], folder: Any) -> str:
    """Return the page as Markdown."""
    lines = [
        "# What a flipped subnetwork knows of its own row",
        "A flipped subnetwork is not trained on its row. Does it predict the row as if the network had been trained "
        f"without it? Two trainings answer that, one with all rows, one without {result['left_out']:.0%} of them: both "
        "have the same masks, and in both the flipped subnetworks of these rows were not trained on them.",
    ]
    for name, task in result["tasks"].items():
        lines += [
            f"## {_TASKS[name]}",
            f"{task['rows']:,} rows, hidden layers of {', '.join(map(str, task['hidden']))}, all masked, no bias at "
            f"the end, {task['epochs']} epochs; all labels as they are. Loss and accuracy on the rows in question, "
            f"mean ± sd of {len(task['seeds'])} seeds.",
            markdown_table(
                ["prediction by", "loss", "accuracy"],
                [
                    [title, _told(task, who, "loss", ".2f"), _told(task, who, "accuracy", ".3f")]
                    for who, title in _WHO.items()
                ],
            ),
            _sentence(name, task),
        ]
    lines += [
        "## Why, as far as we can tell",
        "- **Other rows do it.** A row's own steps cannot change its flipped subnetwork, which has none of the units "
        "that they train. It gets worse through the steps of other rows, whose masks overlap with it: it is worse on "
        "the row than a network without the row, and the difference of kept and flipped subnetwork is more than the "
        "row's influence. [own_row_recipes](own_row_recipes.md) varies what it depends on.",
        "- **Masks carry labels.** Two subnetworks differ on any input, and since a row's mask is the same in "
        "every epoch, the network also learns labels from it: the units that the row keeps favor its label, the "
        "others oppose it. This mask bias, which is the same for all inputs, can be estimated on reference rows and "
        f"subtracted: `Influence.out_of_sample(references={result['references']})`. The tables have it as a row.",
    ]
    return paragraphs(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return whether a flipped subnetwork predicts its row as if the network had been trained without it."""
    return [
        Finding(
            what=f"{_TASKS[name]}: loss of flipped subnetworks on their own rows, trained with these rows and without",
            paper="assumed to be equal (section 3)",
            ours=f"loss {_told(task, _TRAINED, 'loss', '.2f')} against {_told(task, _AWAY, 'loss', '.2f')}",
            setting=f"{task['rows']:,} rows, hidden layers of {', '.join(map(str, task['hidden']))}, "
            f"{len(task['seeds'])} seeds",
            agreement=_sentence(name, task),
            claim=f"a flipped subnetwork predicts its row like a network trained without it ({_TASKS[name]})",
            verdict=graded(not _is_worse(task)),
            rule="not worse in every seed",
        )
        for name, task in result["tasks"].items()
    ]


def _sentence(name: str, task: dict[str, Any]) -> str:
    trained, away, *both = (
        [one[who]["loss"] for one in task["seeds"]]
        for who in (_TRAINED, _AWAY, _TRAINED + _CORRECTED, _AWAY + _CORRECTED)
    )
    worse = _is_worse(task)
    return (
        f"{_TASKS[name]}: flipped subnetworks are "
        f"{'' if worse else 'not clearly '}worse on their own rows than those of a network trained without them (loss "
        f"{mean(trained):.2f} against "
        f"{mean(away):.2f} in the mean{', in every seed' if worse else ''}); with mask-bias correction, "
        f"{mean(both[0]):.2f} against {mean(both[1]):.2f}."
    )


def _is_worse(task: dict[str, Any]) -> bool:
    return all(one[_TRAINED]["loss"] > one[_AWAY]["loss"] for one in task["seeds"])


def _told(task: dict[str, Any], who: str, what: str, form: str) -> str:
    return spread([one[who][what] for one in task["seeds"]], form)
