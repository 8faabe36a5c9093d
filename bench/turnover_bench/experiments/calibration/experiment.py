"""Do intervals and significance keep their promise? Many trainings of one network, and null ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

import turnover
from turnover.influence import NULL_IDS, TurnOver, null_ids
from turnover.scores import Scores, student_limit
from turnover.training import TrainingRecipe
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.digits_network import QUERIES_FROM, digit_queries, digits_recipe
from turnover_bench.experiments.findings import Finding, counted, paragraphs
from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        runs: trainings, each against the mean of the others.
        other_runs: the same for the network with a trunk.
        rows: of digits that are trained.
        replicas: of each.
        hidden: width of both hidden layers.
        epochs: of each training.
        queries: digits that are asked about.
        null_ids: null ids that are judged, besides those that p-values are made from.
        null_sets: sets of null ids in which significance is asked for.
        set_size: ids of a set.
    """

    runs: int = 32
    other_runs: int = 12
    rows: int = QUERIES_FROM
    replicas: int = 8
    hidden: int = 512
    epochs: int = 20
    queries: int = 40
    null_ids: int = 4096
    null_sets: int = 200
    set_size: int = 1024


SIZES = {
    "toy": Config(
        runs=3,
        other_runs=3,
        rows=200,
        replicas=3,
        hidden=32,
        epochs=1,
        queries=3,
        null_ids=600,
        null_sets=10,
        set_size=100,
    ),
    "small": Config(),
    "medium": Config(other_runs=16, queries=120, null_ids=16384, null_sets=1000),
    "full": Config(runs=64, other_runs=64, queries=360, epochs=40, null_ids=16384, null_sets=1000),
}
NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.6)}


LEVEL = 0.95


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return how often intervals hold the mean of the other runs, and what is significant where there is nothing."""
    queries = digit_queries(config.queries)
    parts = [_scores(config, number, queries, out) for number in tqdm(range(config.runs), desc="runs")]
    trunk = [
        _scores(config, number, queries, out, at=("3",)) for number in tqdm(range(config.other_runs), desc="trunk")
    ]
    return {
        **_judged(parts, config.replicas),
        "trunk": _judged(trunk, config.replicas),
        "null": _null(config, queries, out),
    }


def _judged(parts: list[Scores], replicas: int) -> dict[str, Any]:
    """Return what the intervals of several runs are worth."""
    values = np.stack([part.values for part in parts])
    errors = np.stack([part.stderr for part in parts])
    covered, without = _coverage(values, errors, replicas)
    return {
        "runs": len(parts),
        "covered": float(covered.mean()),
        "covered_by_query": covered.mean((0, 1)).tolist(),
        "covered_without_the_reference_error": float(without.mean()),
        "ratio_of_errors": float(np.median(errors.mean(0) / values.std(0, ddof=1))),
    }


def _scores(
    config: Config,
    number: int,
    queries: tuple[torch.Tensor, torch.Tensor],
    out: Path,
    at: tuple[str, ...] = ("1", "3"),
) -> Scores:
    """Return the scores of one run; kept, so that an interrupted run is resumed."""
    folder = out / f"{'run' if len(at) > 1 else 'trunk'}-{number}"
    if not folder.exists():
        recipe, model = _trained(config, number, at=at)
        turnover.Influence(model, estimator=TurnOver(nulls=NULL_IDS)).pairwise(queries, ids=range(len(recipe))).save(
            folder
        )
    return Scores.open(folder)


def _trained(
    config: Config, number: int, replicas: int | None = None, at: tuple[str, ...] = ("1", "3")
) -> tuple[TrainingRecipe, nn.Module]:
    recipe, _ = digits_recipe(
        rows=config.rows,
        hidden=config.hidden,
        seed=number,
        replicas=replicas or config.replicas,
        epochs=config.epochs,
        at=at,
    )
    return recipe, recipe.fit(seed=number)


def _coverage(values: np.ndarray, errors: np.ndarray, replicas: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each run and pair whether its interval holds the mean of the others, with and without their error."""
    runs = len(values)
    others = (values.sum(0) - values) / (runs - 1)
    squares = (np.square(values).sum(0) - np.square(values)) / (runs - 1) - np.square(others)
    reference = squares / (runs - 2)  # of a mean of runs - 1
    limit = student_limit(1 - LEVEL, replicas - 1)
    apart = np.abs(values - others)
    return apart <= limit * np.sqrt(np.square(errors) + reference), apart <= limit * errors


def _null(config: Config, queries: tuple[torch.Tensor, torch.Tensor], out: Path) -> dict[str, Any]:
    """Return what is significant among null ids, for one replica and for all."""
    found: dict[str, Any] = {}
    for replicas in (1, config.replicas):
        folder = out / f"null-{replicas}"
        if not folder.exists():
            asked = turnover.Influence(
                _trained(config, 1000 + replicas, replicas)[1], estimator=TurnOver(nulls=NULL_IDS)
            )
            everyone = null_ids(NULL_IDS + config.null_ids)[NULL_IDS:]
            asked.pairwise(queries, ids=everyone).save(folder)
        scores = Scores.open(folder)
        p = scores.p_values()
        rng = np.random.default_rng(0)
        marked = []
        for number in range(config.null_sets):
            rows = rng.choice(len(scores), config.set_size, replace=False)
            query = number % config.queries
            part = Scores(scores.values[rows, query], ids=scores.ids[rows], null=scores.null[:, query])
            marked.append(bool(part.significant().any()))
        found[f"replicas_{replicas}"] = {
            "pairs": int(p.size),
            "p_below_05": float((p < 0.05).mean()),
            "p_below_05_by_query": (p < 0.05).mean(0).tolist(),
            "sets": config.null_sets,
            "sets_with_anything_significant": float(np.mean(marked)),
        }
    return found


_SETTING = "digits, an MLP with two masked hidden layers and no trunk"


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    by_query = sorted(result["covered_by_query"])
    coverage = [
        ["95 % intervals that contain the mean of the other runs", f"{result['covered']:.1%} (expected: 92 to 97 %)"],
        ["for the query with the fewest, with the most", f"{by_query[0]:.1%}, {by_query[-1]:.1%}"],
        ["without the error of that mean", f"{result['covered_without_the_reference_error']:.1%}"],
        ["standard error of a run / standard deviation of the runs, median", f"{result['ratio_of_errors']:.2f}"],
    ]
    part = result["trunk"]
    with_trunk = [["trunk", str(part["runs"]), f"{part['covered']:.1%}", f"{part['ratio_of_errors']:.2f}"]]
    null = [
        [
            counted(int(name.removeprefix("replicas_")), "replica"),
            f"{part['pairs']:,}",
            f"{part['p_below_05']:.2%}",
            f"{part['sets']:,}",
            f"{part['sets_with_anything_significant']:.1%}",
        ]
        for name, part in result["null"].items()
    ]
    return paragraphs(
        [
            "# Do intervals and significance keep their promise?",
            "Digits, an MLP with two masked hidden layers and no trunk, a tenth of the labels changed.",
            "## Intervals",
            "Each run against the mean of all others; the error of that mean is part of the interval.",
            markdown_table(["", "share or ratio"], coverage),
            "With a trunk (the first layer shared by all replicas, so that their errors are correlated):",
            markdown_table(
                ["", "runs", "intervals that contain the mean", "standard error / standard deviation of the runs"],
                with_trunk,
            ),
            "## Null ids",
            "Other ids than those that p-values are made from.",
            markdown_table(
                ["", "pairs", "p < .05 (expected: 4 to 6 %)", "sets", "anything significant (expected: at most 5 %)"],
                null,
            ),
        ]
    )


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what intervals and significance promise, and what they keep."""
    held = result["covered"]
    kept = "keep" if 0.92 <= held <= 0.97 else "do not keep"
    found = [
        Finding(
            what="95 % intervals that contain the mean of the other runs",
            paper="–",
            ours=f"{held:.1%}",
            setting=f"{_SETTING}, {result['runs']} runs",
            agreement=f"Intervals {kept} their promise: {held:.1%} contain the mean, expected are 92 to 97 %.",
        )
    ]
    for name, part in result["null"].items():
        replicas = int(name.removeprefix("replicas_"))
        who = counted(replicas, "replica")
        share, marked = part["p_below_05"], part["sets_with_anything_significant"]
        right = "as they should be" if 0.04 <= share <= 0.06 else "not as they should be"
        found.append(
            Finding(
                what=f"null ids, {who}: p < .05, and sets in which anything is significant",
                paper="–",
                ours=f"{share:.1%}, {marked:.1%}",
                setting=f"{part['pairs']:,} pairs, {part['sets']:,} sets",
                agreement=f"P-values of {who} are {right}: expected are 4 to 6 % below .05. Anything is significant in "
                f"{marked:.1%} of sets of pure noise, where 5 % are allowed.",
            )
        )
    return found
