"""Both trainings of each recipe: flipped subnetworks on their own rows, wrong labels, retraining on halves."""

from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset
from tqdm import tqdm

import turnover
from turnover.evaluation import SubsetOutcomes, lds, mislabel_detection, subset_outcomes
from turnover.training import TrainingRecipe
from turnover_bench.experiments.datasets.images import change_labels
from turnover_bench.experiments.datasets.numbers import Rows, digit_rows, sst2_rows
from turnover_bench.experiments.networks import masked_mlp, mlp
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import one_thread


@dataclass(frozen=True)
class Recipe:
    """One way to train, beside the training of `own_row`.

    Attributes:
        rate: of SGD with momentum 0.9, as a multiple of the task's.
        epochs: as a multiple of the task's; with fewer rows there are as many steps.
        rows: share of the rows that is trained.
        keep: share of units that a row trains.
        full: share of the steps that train the full network, without masks.
        learned: rows whose loss in their kept subnetwork is below this have no gradient; 0: all have one.
        penalty: on what masks alone do: outputs for a blend of rows under all masks of a step must not differ.
        references: rows, beside those trained, that every step shows under the masks of its own rows.
        smoothing: share of the label that goes to all classes.
        dropout: share of the masked layers' units that ordinary dropout drops besides.
        copies: further copies of every row asked about, which both trainings have under masks of their own.
        lacking: rows most similar to every row asked about, of its label, which neither training has.
        lacking_at_random: as many rows are left out, but drawn at random.
    """

    rate: float = 1.0
    epochs: float = 1.0
    rows: float = 1.0
    keep: float = 0.5
    full: float = 0.0
    learned: float = 0.0
    penalty: float = 0.0
    references: int = 0
    smoothing: float = 0.0
    dropout: float = 0.0
    copies: int = 0
    lacking: int = 0
    lacking_at_random: bool = False


@dataclass(frozen=True)
class Task:
    """A data set and how it is trained.

    Attributes:
        title: in words.
        rows: that are trained.
        hidden: widths of the masked layers.
        rate: of SGD with momentum 0.9.
        epochs: of the base recipe.
    """

    title: str
    rows: int
    hidden: tuple[int, ...]
    rate: float
    epochs: int


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        tasks: by name: "digits", "sst2".
        left_out: share of the rows that the second training omits.
        seeds: of omitted rows, weights, masks and order.
        names: recipes that are tried; (): all.
        subsets: random halves of the rows on which plain networks are retrained, for LDS.
        subset_seeds: retrainings of each.
        queries: held-out rows whose losses these have.
    """

    tasks: dict[str, Task]
    left_out: float = 0.1
    seeds: tuple[int, ...] = (0, 1)
    names: tuple[str, ...] = ()
    subsets: int = 40
    subset_seeds: int = 2
    queries: int = 100


_DIGITS = Task("Handwritten digits", 1_300, (512, 512), 0.1, 25)
_SST2 = Task("SST-2, features of MiniLM", 5_000, (512,), 0.04, 6)
_TASKS = {"digits": _DIGITS, "sst2": _SST2}
SIZES = {
    "toy": Config(
        {"digits": Task("Handwritten digits", 120, (32,), 0.1, 3)},
        seeds=(0,),
        names=("base", "a fifth of the rate", "1 copy", "no similar rows", "as many fewer", "full steps 0.5"),
        subsets=4,
        queries=5,
    ),
    "small": Config(_TASKS),
    "medium": Config({**_TASKS, "sst2": replace(_SST2, rows=20_000)}, seeds=tuple(range(5))),
    # The paper has no such measurement, so no setting either.
    "full": Config({**_TASKS, "sst2": replace(_SST2, rows=67_349)}, seeds=tuple(range(10))),
}
NEEDS = {"medium": Needs(disk=0.2, memory=4, hours=1.2)}

BASE = Recipe()
CAUSES = {
    "a fifth of the rate": replace(BASE, rate=0.2),
    "a third of the epochs": replace(BASE, epochs=1 / 3),
    "3 times the epochs": replace(BASE, epochs=3.0),
    "an eighth of the rows": replace(BASE, rows=0.125),
    "half of the rows": replace(BASE, rows=0.5),
    "1 copy": replace(BASE, copies=1),
    "5 copies": replace(BASE, copies=5),
    "no similar rows": replace(BASE, lacking=5),
    "as many fewer": replace(BASE, lacking=5, lacking_at_random=True),
}
CURES = {
    "keep 0.7": replace(BASE, keep=0.7),
    "keep 0.9": replace(BASE, keep=0.9),
    "full steps 0.1": replace(BASE, full=0.1),
    "full steps 0.3": replace(BASE, full=0.3),
    "full steps 0.5": replace(BASE, full=0.5),
    "full steps 0.7": replace(BASE, full=0.7),
    "learned rows rest": replace(BASE, learned=0.5),
    "references": replace(BASE, references=100),
    "penalty": replace(BASE, penalty=1.0),
    "label smoothing 0.1": replace(BASE, smoothing=0.1),
    "label smoothing 0.3": replace(BASE, smoothing=0.3),
    "dropout 0.5": replace(BASE, dropout=0.5),
    "dropout 0.5, label smoothing 0.3": replace(BASE, dropout=0.5, smoothing=0.3),
    "dropout 0.5, label smoothing 0.3, half of the epochs": replace(BASE, dropout=0.5, smoothing=0.3, epochs=0.5),
    "label smoothing 0.2, full steps 0.3": replace(BASE, smoothing=0.2, full=0.3),
    "label smoothing 0.1, full steps 0.1, references": replace(BASE, smoothing=0.1, full=0.1, references=100),
}
TITLES = {
    "base": "as in own_row",
    "1 copy": "a copy of each of the rows, under another mask",
    "5 copies": "5 copies of each of the rows, under other masks",
    "no similar rows": "without the 5 rows most similar to each",
    "as many fewer": "without as many rows at random",
    **{
        f"full steps {share}": f"{float(share):.0%} of the steps without masks"
        for share in ("0.1", "0.3", "0.5", "0.7")
    },
    "learned rows rest": "no gradient for rows of a loss below 0.5",
    "references": "100 other rows per step, under the masks of its rows",
    "penalty": "a penalty on what masks alone do",
    "dropout 0.5": "ordinary dropout 0.5 in addition to the masks",
    "label smoothing 0.2, full steps 0.3": "label smoothing 0.2, 30% of steps without masks",
    "label smoothing 0.1, full steps 0.1, references": "label smoothing 0.1, 10% of steps without masks, other rows",
}
RECIPES = {"base": BASE, **CAUSES, **CURES}
LDS = ("lds", "lds_recommended")
"""Of scores by the original and by the recommended estimator."""


_BATCH, _BLENDED = 100, 8
_REFERENCES = 200
"""Of the held-out rows, those that recipes may show; none of them is asked about."""
_FEATURES = Path("runs/cache")
_FIRST_RETRAINING = 1000
"""Seeds of retrainings from here on: none of them is a seed of the trainings that are judged by them."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return for every recipe how flipped subnetworks do on their own rows, and what the training costs in accuracy."""
    data = {name: _data(name, task) for name, task in config.tasks.items()}  # first: a data set may be missing
    found: dict[str, Any] = {}
    parts, names = out / "parts", config.names or tuple(RECIPES)
    with one_thread(), tqdm(total=len(data) * len(config.seeds) * (1 + len(names)), desc="recipes") as bar:
        for name, task in config.tasks.items():
            truth = _retrained(task, data[name], config, out / "retrained" / name)
            found[name] = {
                **asdict(task),
                "plain": [],
                "phases": [],
                "shared": [],
                "recipes": {one: [] for one in names},
            }
            for seed in config.seeds:
                setting = _Setting(task, data[name], config.left_out, seed)
                first = kept(parts / f"{name}-phases-{seed}.json", partial(_plain_and_phases, setting))
                found[name]["plain"].append(first["plain"])
                found[name]["phases"].append(first["phases"])
                found[name]["shared"].append(kept(parts / f"{name}-shared-{seed}.json", partial(_one_mask, setting)))
                bar.update()
                for one in names:
                    file = parts / f"{name}-{one.replace(' ', '-')}-{seed}.json"
                    found[name]["recipes"][one].append(kept(file, partial(_measured, setting, truth, one)))
                    bar.update()
    return {"seeds": config.seeds, "tasks": found}


def _data(name: str, task: Task) -> Rows:
    return digit_rows(task.rows) if name == "digits" else sst2_rows(task.rows, _FEATURES)


def _retrained(task: Task, data: Rows, config: Config, cache: Path) -> SubsetOutcomes:
    """Return the losses of plain networks that were trained on halves of the rows."""
    x, labels, test, test_labels = data
    recipe = TrainingRecipe(
        partial(mlp, x.shape[1], task.hidden, int(labels.max()) + 1),
        x,
        torch.from_numpy(labels),
        optimizer=partial(torch.optim.SGD, lr=task.rate, momentum=0.9),
        epochs=task.epochs,
        batch_size=_BATCH,
    )
    queries = test[: config.queries], torch.from_numpy(test_labels[: config.queries])
    seeds = range(_FIRST_RETRAINING, _FIRST_RETRAINING + config.subset_seeds)
    return subset_outcomes(recipe, queries, subsets=config.subsets, seeds=seeds, cache=cache, progress=True)


@dataclass(frozen=True)
class _Setting:
    """One seed of a task: which rows are asked about, and the held-out ones."""

    task: Task
    data: Rows
    left_out: float
    seed: int

    @property
    def x(self) -> Tensor:
        return self.data[0]

    @property
    def y(self) -> Tensor:
        return torch.from_numpy(self.data[1])

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        return self.data[2][:-_REFERENCES], torch.from_numpy(self.data[3][:-_REFERENCES])

    @property
    def references(self) -> tuple[Tensor, Tensor]:
        return self.data[2][-_REFERENCES:], torch.from_numpy(self.data[3][-_REFERENCES:])

    def rows(self, share: float) -> tuple[Tensor, Tensor]:
        """Return the rows that are trained, and those of them that are asked about."""
        draw = np.random.default_rng(self.seed)
        chosen = draw.permutation(len(self.y))[: round(share * len(self.y))]
        asked = chosen[: max(1, round(self.left_out * len(chosen)))]
        return torch.from_numpy(np.sort(chosen)), torch.from_numpy(np.sort(asked))

    def network(self, recipe: Recipe = BASE) -> nn.Module:
        torch.manual_seed(self.seed)
        options: dict[str, Any] = {"keep": recipe.keep, "dropout": recipe.dropout}
        return masked_mlp(self.x.shape[1], self.task.hidden, self.classes, seed=self.seed, **options)


def _measured(setting: _Setting, truth: SubsetOutcomes, name: str) -> dict[str, float]:
    recipe = RECIPES[name]
    x, y, (test, test_labels) = setting.x, setting.y, setting.test
    chosen, asked = setting.rows(recipe.rows)
    chosen = _without(chosen, _lacking(setting, recipe, chosen, asked))
    trained = _trained(setting, recipe, chosen, y, copied=asked)
    without = _trained(setting, recipe, _without(chosen, asked), y, copied=asked)
    found = {
        "accuracy": _right(trained, test, test_labels),
        "kept": _loss(trained, x[asked], y[asked], asked, "keep"),
        "trained": _loss(trained, x[asked], y[asked], asked, "flip"),
        "left_out": _loss(without, x[asked], y[asked], asked, "flip"),
        "whole_left_out": _loss(without, x[asked], y[asked], asked, "full"),
    }
    if name not in CAUSES:
        found["wrong_labels"] = _wrong_labels(setting, recipe, chosen)
        found |= _follows_retraining(setting, truth, trained)
    # Other rows under the same flipped masks: what training on the rows changed for them.
    for other, places in _others(x[asked], y[asked], test, test_labels, setting.seed).items():
        pairs = [_loss(model, test[places], test_labels[places], asked, "flip") for model in (trained, without)]
        found[f"change_{other}"] = pairs[0] - pairs[1]
    found["change_own"] = found["trained"] - found["left_out"]
    return found


def _plain_and_phases(setting: _Setting) -> dict[str, Any]:
    """Return the accuracy without masks, and losses on the rows after training in phases.

    First all other rows are trained, then the rows asked about alone, then the others again: whose steps make flipped
    subnetworks worse?
    """
    x, y, (test, test_labels) = setting.x, setting.y, setting.test
    chosen, asked = setting.rows(1.0)
    others = _without(chosen, asked)
    torch.manual_seed(setting.seed)
    plain = mlp(x.shape[1], setting.task.hidden, setting.classes)
    _steps(setting, plain, BASE, chosen, y, masked=False)
    model, phases = setting.network(), []
    for rows in (others, asked, others):
        _steps(setting, model.train(), BASE, rows, y)
        phases.append({view: _loss(model.eval(), x[asked], y[asked], asked, view) for view in ("keep", "flip", "full")})
    return {"plain": _right(plain.eval(), test, test_labels), "phases": phases}


def _one_mask(setting: _Setting) -> dict[str, Any]:
    """Return losses on the rows where all of them share one mask: no step on them can reach its flipped subnetwork.

    All other rows are trained, then the rows asked about, then the others again: all weights, or all but those that
    the training on the rows had changed. Beside it the same without the rows.
    """
    x, y = setting.x, setting.y
    chosen, asked = setting.rows(1.0)
    others, one = _without(chosen, asked), asked[:1].expand(len(asked))

    def losses(model: nn.Module) -> dict[str, float]:
        return {view: _loss(model.eval(), x[asked], y[asked], one, view) for view in ("keep", "flip", "full")}

    before = setting.network()
    _steps(setting, before.train(), BASE, others, y)
    after = deepcopy(before)
    _steps(setting, after.train(), BASE, asked, y, ids=one)
    learned = [old != new for old, new in zip(before.parameters(), after.parameters(), strict=True)]
    found: dict[str, Any] = {"before": losses(before), "after": losses(after)}
    for name, start in (("without", before), ("trained", after)):
        for freeze in (False, True):
            model = deepcopy(start)
            for weight, fixed in zip(model.parameters(), learned, strict=True):
                if freeze:
                    weight.register_hook(partial(torch.mul, ~fixed))
            _steps(setting, model.train(), BASE, others, y)
            found[f"{name}_frozen" if freeze else name] = losses(model)
    return found


def _without(rows: Tensor, asked: Tensor) -> Tensor:
    return rows[~torch.isin(rows, asked)]


def _lacking(setting: _Setting, recipe: Recipe, chosen: Tensor, asked: Tensor) -> Tensor:
    """Return the rows that neither training has: those most similar to the rows asked about, or as many at random."""
    if not recipe.lacking:
        return asked[:0]
    x, y, others = setting.x, setting.y, _without(chosen, asked)
    apart = torch.cdist(x[asked], x[others]).masked_fill(y[asked][:, None] != y[others], torch.inf)
    similar = others[apart.topk(recipe.lacking, largest=False).indices.unique()]
    if not recipe.lacking_at_random:
        return similar
    order = torch.Generator().manual_seed(setting.seed)
    return others[torch.randperm(len(others), generator=order)[: len(similar)]]


def _wrong_labels(setting: _Setting, recipe: Recipe, rows: Tensor) -> float:
    """Return how well the loss of flipped subnetworks tells changed labels, a tenth of all, from others: AUC."""
    changed = change_labels(setting.y.numpy(), share=0.1, classes=setting.classes, seed=setting.seed)
    given = torch.from_numpy(changed.given)
    model = _trained(setting, recipe, rows, given)
    with torch.no_grad(), turnover.instances(rows, view="flip"):
        losses = functional.cross_entropy(model(setting.x[rows]), given[rows], reduction="none")
    return mislabel_detection(losses.numpy(), changed.changed[rows.numpy()]).auc


def _follows_retraining(setting: _Setting, truth: SubsetOutcomes, model: nn.Module) -> dict[str, float]:
    """Return how well scores of one model rank retrained plain networks, by the original and the default estimator."""
    rows = turnover.with_instance_ids(TensorDataset(setting.x, setting.y))
    count = truth.outcomes.shape[-1]
    queries = setting.test[0][:count], setting.test[1][:count]
    both = turnover.Influence(model, train=rows, estimator="tod"), turnover.Influence(model, train=rows)
    found = [lds(one.pairwise(queries), truth.subsets, truth.outcomes).value for one in both]
    return dict(zip(LDS, found, strict=True))


def _others(x: Tensor, y: Tensor, test: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    """Return for every row a held-out one: the most similar of its label, one of its label, one of another label."""
    apart = torch.cdist(x, test)
    order = torch.Generator().manual_seed(seed)
    chance = torch.rand(apart.shape, generator=order)
    same = y[:, None] == labels
    return {
        "nearest": apart.masked_fill(~same, torch.inf).argmin(1),
        "same_label": chance.masked_fill(~same, 2.0).argmin(1),
        "other_label": chance.masked_fill(same, 2.0).argmin(1),
    }


def _trained(setting: _Setting, recipe: Recipe, rows: Tensor, y: Tensor, *, copied: Tensor | None = None) -> nn.Module:
    """Return a model trained on rows, and on the recipe's copies of some, whose ids are those after all rows."""
    model, ids = setting.network(recipe).train(), rows
    if copied is not None and recipe.copies:
        copies = copied.repeat(recipe.copies)
        rows, ids = torch.cat([rows, copies]), torch.cat([rows, len(y) + torch.arange(len(copies))])
    _steps(setting, model, recipe, rows, y, ids=ids)
    return model.eval()


def _steps(
    setting: _Setting,
    model: nn.Module,
    recipe: Recipe,
    rows: Tensor,
    y: Tensor,
    *,
    ids: Tensor | None = None,
    masked: bool = True,
) -> None:
    """Train in place for as many steps as the recipe has on all rows of the task; ids are the rows if not given."""
    x, references = setting.x, setting.references
    ids = rows if ids is None else ids
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.rate * setting.task.rate, momentum=0.9)
    order = torch.Generator().manual_seed(setting.seed)
    steps = max(1, round(recipe.epochs * setting.task.epochs * len(y) / _BATCH))
    number = 0
    while number < steps:
        for places in torch.randperm(len(rows), generator=order).split(_BATCH)[: steps - number]:
            batch, own = rows[places], ids[places]
            view = "full" if float(torch.rand((), generator=order)) < recipe.full else "keep"
            optimizer.zero_grad()
            if masked:
                _objective(model, recipe, x[batch], y[batch], own, view).backward()
            else:
                functional.cross_entropy(model(x[batch]), y[batch]).backward()
            if recipe.references:
                shown = torch.randint(_REFERENCES, (recipe.references,), generator=order)
                masks = own[torch.randint(len(own), (recipe.references,), generator=order)]
                with turnover.instances(masks):
                    loss = functional.cross_entropy(model(references[0][shown]), references[1][shown])
                (loss * recipe.references / _BATCH).backward()
            optimizer.step()
            number += 1


def _objective(model: nn.Module, recipe: Recipe, x: Tensor, y: Tensor, ids: Tensor, view: Any) -> Tensor:
    with turnover.instances(ids, view=view):
        outputs = model(x)
    losses = functional.cross_entropy(outputs, y, reduction="none", label_smoothing=recipe.smoothing)
    counted = losses.detach() >= recipe.learned
    objective = (losses * counted).sum() / len(y)
    if recipe.penalty:
        blend = x[torch.randperm(len(x))[:_BLENDED]].mean(0, keepdim=True)
        with turnover.instances(ids):
            alone = model(blend.expand(len(ids), -1))
        objective = objective + recipe.penalty * (alone - alone.mean(0)).square().sum(1).mean()
    return objective


@torch.no_grad()
def _loss(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor, view: Any) -> float:
    with turnover.instances(ids, view=view):
        return float(functional.cross_entropy(model(x), y))


@torch.no_grad()
def _right(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return float((model(x).argmax(1) == y).float().mean())
