"""Do intervals of the curvature estimator hold from one training to the next? Any two of several trainings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import turnover
from turnover.scores import Scores, student_limit
from turnover.training import TrainingRecipe
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.images import change_labels
from turnover_bench.experiments.datasets.numbers import Rows, digit_rows, sst2_rows, yahoo_rows
from turnover_bench.experiments.findings import Finding, agreements, counted, paragraphs
from turnover_bench.experiments.networks import masked_mlp
from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Task:
    """One data set, its network and its training.

    Attributes:
        title: for the page.
        rows: that are trained, a tenth of their labels changed.
        hidden: widths of the hidden layers, all masked.
        learning_rate: of SGD with momentum 0.9.
        epochs: of each training.
    """

    title: str
    rows: int
    hidden: tuple[int, ...]
    learning_rate: float
    epochs: int


_DIGITS = Task("Handwritten digits", 1300, (512, 512), 0.1, 25)
_SST2 = Task("SST-2, MiniLM features", 5000, (512,), 0.04, 6)
_YAHOO = Task("Yahoo Answers, MiniLM features", 3500, (512,), 0.04, 10)


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        tasks: by name, which says which data set.
        trainings: of each task.
        replicas: of each training.
        queries: held-out rows that are asked about one by one.
        validation: held-out rows that mean influence is taken over.
    """

    tasks: dict[str, Task] = field(default_factory=lambda: {"digits": _DIGITS, "sst2": _SST2, "yahoo": _YAHOO})
    trainings: int = 6
    replicas: int = 8
    queries: int = 50
    validation: int = 150


SIZES = {
    "toy": Config(
        {"digits": Task("Handwritten digits", 120, (24,), 0.1, 3)}, trainings=3, replicas=4, queries=4, validation=8
    ),
    "small": Config(),
    "medium": Config(trainings=16, queries=150),
    "full": Config(trainings=32, queries=300, validation=300),
}
NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.2)}

LEVEL = 0.95
_CACHE = Path("runs/cache")
_ROWS: dict[str, Callable[[int], Rows]] = {
    "digits": digit_rows,
    "sst2": partial(sst2_rows, cache=_CACHE),
    "yahoo": partial(yahoo_rows, cache=_CACHE),
}


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return for each task how often two trainings agree within their intervals, for pairs and for means."""
    data = {name: _ROWS[name](task.rows) for name, task in config.tasks.items()}  # first: a data set may be missing
    found = {}
    for name, task in config.tasks.items():
        scored = [
            _scores(config, task, data[name], number, out / f"{name}-{number}")
            for number in tqdm(range(config.trainings), desc=name)
        ]
        pairs, means = zip(*scored, strict=True)
        found[name] = {"title": task.title, "pairs": judged(pairs), "mean": judged(means)}
    return {"trainings": config.trainings, "replicas": config.replicas, "tasks": found}


def _scores(config: Config, task: Task, data: Rows, number: int, folder: Path) -> tuple[Scores, Scores]:
    """Return the scores of all pairs and mean influence of one training; kept, so that a run is resumed."""
    folders = folder / "pairs", folder / "mean"
    if not folders[1].exists():
        inputs, labels, held, held_labels = data
        classes = int(labels.max()) + 1
        recipe = TrainingRecipe(
            partial(masked_mlp, inputs.shape[1], task.hidden, classes, seed=number, replicas=config.replicas),
            inputs,
            torch.from_numpy(change_labels(labels, share=0.1, classes=classes).given),
            optimizer=partial(torch.optim.SGD, lr=task.learning_rate, momentum=0.9),
            epochs=task.epochs,
            batch_size=100,
        )
        rows = turnover.with_instance_ids(torch.utils.data.TensorDataset(inputs, recipe.targets))
        influence = turnover.Influence(recipe.fit(seed=number), train=rows)
        asked = held, torch.from_numpy(held_labels)
        for kept, ask, count in zip(
            folders, (influence.pairwise, influence.mean), (config.queries, config.validation), strict=True
        ):
            if not kept.exists():
                ask((asked[0][:count], asked[1][:count]), progress=False).save(kept)
    return Scores.open(folders[0]), Scores.open(folders[1])


def judged(parts: tuple[Scores, ...]) -> dict[str, Any]:
    """Return how often two runs agree, by query where there are several, and standard errors beside what they say."""
    values, errors = (np.stack([getattr(part, name) for part in parts]) for name in ("values", "stderr"))
    agree = agreement(values, errors, parts[0].replicas)
    return {
        "compared": len(agree),
        "scores": int(values[0].size),
        "covered": float(agree.mean()),
        "covered_by_trainings": agree.reshape(len(agree), -1).mean(1).tolist(),
        "covered_by_query": agree.mean((0, 1)).tolist() if agree.ndim == 3 else None,
        "ratio_of_errors": float(np.sqrt(np.square(errors).mean() / values.var(0, ddof=1).mean())),
    }


def agreement(values: np.ndarray, errors: np.ndarray, replicas: int) -> np.ndarray:
    """Return whether two runs differ by no more than the interval of their difference allows, for any two runs.

    Both are means of equally many replicas with the same distribution, so that their difference follows Student's with
    twice the degrees of freedom of one.

    Args:
        values: [runs, ...].
        errors: standard errors of the same shape.
        replicas: of a run.
    """
    limit = student_limit(1 - LEVEL, 2 * (replicas - 1))
    return np.stack(
        [
            np.abs(values[one] - values[other]) <= limit * np.hypot(errors[one], errors[other])
            for one, other in combinations(range(len(values)), 2)
        ]
    )


_ASKED = {"pairs": "a row and a query", "mean": "a row, mean over queries"}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    rows = []
    for task in result["tasks"].values():
        for asked, title in _ASKED.items():
            part = task[asked]
            by_query = sorted(part["covered_by_query"] or [])
            rows.append(
                [
                    task["title"],
                    title,
                    f"{part['scores']:,}",
                    f"{part['covered']:.1%}",
                    f"{min(part['covered_by_trainings']):.1%}, {max(part['covered_by_trainings']):.1%}",
                    f"{by_query[0]:.1%}, {by_query[-1]:.1%}" if by_query else "–",
                    f"{part['ratio_of_errors']:.2f}",
                ]
            )
    compared = next(iter(result["tasks"].values()))["pairs"]["compared"]
    return paragraphs(
        [
            "# Do intervals of the curvature estimator hold in another training?",
            f"`Influence(model, train=data)`, {result['replicas']} replicas, {result['trainings']} trainings of each "
            "network with other initial weights, masks and order of batches; a tenth of the labels changed. Any two "
            f"of the trainings are compared ({counted(compared, 'pair')}): is the difference of their scores within "
            "the 95 % interval of that difference (Student's, by the standard errors of both)?",
            markdown_table(
                [
                    "task",
                    "score of",
                    "scores",
                    "within the interval (expected: 92 to 97 %)",
                    "two trainings with the fewest, the most",
                    "query with the fewest, the most",
                    "standard error / standard deviation of the trainings",
                ],
                rows,
            ),
            "The last column: root mean square of the standard errors, which come from the replicas of one training, "
            "over that of the deviations between trainings.",
        ],
        agreements(findings(result)),
    )


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what the intervals promise, and what they keep."""
    found = []
    for asked, title in _ASKED.items():
        held = {task["title"]: task[asked]["covered"] for task in result["tasks"].values()}
        kept = [share for share in held.values() if 0.92 <= share <= 0.97]
        told = "; ".join(f"{name} {share:.1%}" for name, share in held.items())
        found.append(
            Finding(
                what=f"scores by curvature ({title}) that two trainings agree on within their 95 % interval",
                paper="–",
                ours=told,
                setting=f"{result['trainings']} trainings of {counted(result['replicas'], 'replica')}",
                agreement=f"Scores of {title}: intervals keep their promise on {len(kept)} of "
                f"{counted(len(held), 'task')} ({told}; expected are 92 to 97 %).",
            )
        )
    return found
