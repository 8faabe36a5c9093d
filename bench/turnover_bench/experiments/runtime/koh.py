"""What influence functions cost: the recursion by steps, the gradients by rows; seconds at several sizes as a line."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.baselines import Hessian, RowLosses, parameter_names
from turnover_bench.experiments.timing import seconds

from .config import RECURSIONS, Config, Recursion
from .task import PairRows, Task, Trimmed, padded_rows


def line(points: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the fixed part and the slope of a line from 0 or above, through the first and the last point.

    Example:
        >>> line([(10, 3.0), (20, 5.0)])
        (1.0, 0.2)
    """
    (few, least), (many, most) = points[0], points[-1]
    slope = (most - least) / (many - few) if many > few else most / many
    fixed = least - slope * few
    # Noise of the clock can tilt the line: one that falls is a fixed cost, one from below 0 grows in proportion.
    if slope < 0:
        return least, 0.0
    return (fixed, slope) if fixed >= 0 else (0.0, most / many)


def at(points: Sequence[Sequence[float]], size: float) -> float:
    """Return the seconds at a size: those measured there, else those of the line.

    Example:
        >>> at([(10, 3.0), (20, 5.0)], 20), at([(10, 3.0), (20, 5.0)], 40)
        (5.0, 9.0)
    """
    for known, spent in points:
        if known == size:
            return spent
    fixed, slope = line(points)
    return fixed + slope * size


DAMPING, SCALE = 3e-3, 1e4
"""Those of Han et al.; seconds do not depend on them."""
_DRAWN = 999


def solve(hessian: Hessian, vector: Tensor, batches: Iterable[Tensor]) -> Tensor:
    """Return what the recursion makes of a vector, one step per batch."""
    solution = vector
    for rows in batches:
        solution = vector + solution - hessian.times(solution, rows) / SCALE
    return solution / SCALE


class Koh:
    """Influence functions of one model, in parts that can be timed.

    Args:
        task: the instances, the target and the model.
        modules: whose parameters count; None: all that were trained.
    """

    def __init__(self, task: Task, modules: Sequence[str] | None = None) -> None:
        model = copy.deepcopy(Trimmed(turnover.unwrap(task.model))).eval()
        patterns = None if modules is None else [f"model.{module}" for module in modules]
        self.names = parameter_names(model, patterns)
        # What does not count is frozen, so that nothing is computed for it.
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.names)
        self.losses = RowLosses(_recipe(model, task.train), model, self.names)
        self.hessian = Hessian(self.losses, DAMPING)
        self.lengths = task.train.lengths
        self.target = self.losses.over(_recipe(model, task.target))

    def vector(self) -> Tensor:
        """Return the gradient of the target's loss [1, parameters]."""
        return self.target.stacked(torch.arange(1))

    def costs(self, config: Config, number: int) -> dict[str, float]:
        """Return the seconds of a row's gradient and of a step of every batch size."""
        vector = self.vector()
        steps = {
            batch: seconds(lambda some=batches: solve(self.hessian, vector, some)) / len(batches)
            for batch in sorted({one.batch for one in RECURSIONS.values()})
            for batches in [self._batches(batch, config.koh_steps, number)]
        }
        rows = self._rows(config.koh_rows, number)
        return {
            "target": seconds(self.vector),
            "row": seconds(lambda: self.losses.products(rows, vector)) / len(rows),
            **{f"step {batch}": spent for batch, spent in steps.items()},
        }

    def whole(self, instances: int, recursion: Recursion, seed: int) -> float:
        """Return the seconds of all of it for so many instances, from end to end."""
        draw = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(self.lengths), generator=draw)[:instances]
        batches = [rows[batch] for batch in recursion.batches(instances, draw)]
        return seconds(lambda: self.losses.products(rows, solve(self.hessian, self.vector(), batches)))

    def _rows(self, count: int, number: int) -> Tensor:
        """Return rows whose lengths are spread as those of all: of sorted rows, evenly spaced ones."""
        order = self.lengths.argsort(stable=True)
        places = (torch.arange(count) + (number % 3 + 0.5) / 3) * len(order) / count
        return order[places.long()]

    def _batches(self, size: int, count: int, number: int) -> list[Tensor]:
        """Return random batches whose longest rows are spread as those of many random batches."""
        draw = torch.Generator().manual_seed(number)
        drawn = torch.randint(len(self.lengths), (_DRAWN, size), generator=draw)
        order = self.lengths[drawn].amax(1).argsort(stable=True)
        return list(drawn[order[((torch.arange(count) + 0.5) * _DRAWN / count).long()]])


def head_alone(task: Task, config: Config, recursion: Recursion) -> dict[str, Any]:
    """Return what the output layer alone costs, on features that are kept from training: nothing runs below it.

    Features of some rows are repeated up to all instances: what is in them does not change the seconds.
    """
    model = turnover.unwrap(task.model).eval()
    kept: list[Tensor] = []
    last = model.get_submodule(_head(task.model))
    if not isinstance(last, nn.Linear):
        raise TypeError(f"the output layer is a {type(last).__name__}, and a Linear layer is needed.")
    hook = last.register_forward_hook(lambda _, given, __: kept.append(given[0]))
    some = list(range(min(config.koh_rows, len(task.train))))
    with torch.no_grad():
        spent = seconds(lambda: [model(**task.train.batch([place])) for place in some])
    hook.remove()
    features = torch.cat(kept).repeat(-(-config.instances // len(some)), 1)[: config.instances]
    head = nn.Linear(last.in_features, last.out_features, bias=False)
    head.weight.data.copy_(last.weight.data)
    recipe = TrainingRecipe(lambda: head, features, task.train.labels[: config.instances])
    losses = RowLosses(recipe, head, parameter_names(head, None))
    hessian, rows = Hessian(losses, DAMPING), torch.arange(len(recipe))
    draw = torch.Generator().manual_seed(config.seed)

    def answer() -> None:
        losses.products(rows, solve(hessian, losses.stacked(rows[:1]), recursion.batches(len(rows), draw)))

    return {"seconds": seconds(answer), "features": spent / len(some) * config.instances}


def extrapolated(costs: dict[str, float], recursion: Recursion, instances: int) -> float:
    """Return the seconds for so many instances: the target's gradient, all steps, all rows."""
    steps = recursion.steps * instances * costs[f"step {recursion.batch}"]
    return costs["target"] + steps + instances * costs["row"]


def modules_of(sites: Sequence[str]) -> list[str]:
    """Return the trained modules that masks at these sites belong to.

    Example:
        >>> modules_of(["layer.5.adapter.activation", "classifier.masked_input"])
        ['layer.5.adapter', 'classifier']
    """
    return [site.rpartition(".")[0] for site in sites]


def _head(model: nn.Module) -> str:
    from turnover.wrapping import top_sites

    return modules_of(top_sites(model, 0))[0]


def _recipe(model: nn.Module, rows: PairRows) -> TrainingRecipe:
    return TrainingRecipe(lambda: model, padded_rows(rows), rows.labels)
