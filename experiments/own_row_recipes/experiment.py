"""Why a flipped subnetwork is worse on its own row, one thing varied at a time, and trainings that might cure it."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset
from tqdm import tqdm

import turnover
from experiments.datasets.changed_labels import change_labels
from experiments.datasets.numbers import Rows, digit_rows, sst2_rows
from experiments.figures import drawn, tidy
from experiments.findings import Finding, agreements, graded, paragraphs, seeds_words, spread
from experiments.networks import masked_mlp, mlp
from experiments.runner import Needs, kept
from experiments.timing import one_thread
from turnover.evaluation import SubsetOutcomes, lds, markdown_table, mislabel_detection, subset_outcomes
from turnover.training import TrainingRecipe


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
        names=("base", "a fifth of the rate", "full steps 0.5"),
        subsets=4,
        queries=5,
    ),
    "small": Config(_TASKS),
    "medium": Config({**_TASKS, "sst2": replace(_SST2, rows=20_000)}, seeds=tuple(range(5))),
    # The paper has no such measurement, so no setting either.
    "full": Config({**_TASKS, "sst2": replace(_SST2, rows=67_349)}, seeds=tuple(range(10))),
}
NEEDS = {"medium": Needs(disk=0.2, memory=4, hours=0.5)}

_BASE = Recipe()
CAUSES = {
    "a fifth of the rate": replace(_BASE, rate=0.2),
    "a third of the epochs": replace(_BASE, epochs=1 / 3),
    "3 times the epochs": replace(_BASE, epochs=3.0),
    "an eighth of the rows": replace(_BASE, rows=0.125),
    "half of the rows": replace(_BASE, rows=0.5),
}
CURES = {
    "keep 0.7": replace(_BASE, keep=0.7),
    "keep 0.9": replace(_BASE, keep=0.9),
    "full steps 0.1": replace(_BASE, full=0.1),
    "full steps 0.3": replace(_BASE, full=0.3),
    "full steps 0.5": replace(_BASE, full=0.5),
    "learned rows rest": replace(_BASE, learned=0.5),
    "references": replace(_BASE, references=100),
    "penalty": replace(_BASE, penalty=1.0),
    "label smoothing 0.1": replace(_BASE, smoothing=0.1),
}
_TITLES = {
    "base": "as in own_row",
    **{f"full steps {share}": f"{float(share):.0%} of the steps without masks" for share in ("0.1", "0.3", "0.5")},
    "learned rows rest": "no gradient for rows of a loss below 0.5",
    "references": "100 other rows in every step, under the masks of its rows",
    "penalty": "a penalty on what masks alone do",
}
RECIPES = {"base": _BASE, **CAUSES, **CURES}
_BATCH, _BLENDED = 100, 8
_REFERENCES = 200
"""Of the held-out rows, those that recipes may show; none of them is asked about."""
_FEATURES = Path("runs/cache")
_LDS = ("lds", "lds_recommended")
"""Of scores by the original and by the recommended estimator."""
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
            found[name] = {**asdict(task), "plain": [], "phases": [], "recipes": {one: [] for one in names}}
            for seed in config.seeds:
                setting = _Setting(task, data[name], config.left_out, seed)
                first = kept(parts / f"{name}-phases-{seed}.json", partial(_plain_and_phases, setting))
                found[name]["plain"].append(first["plain"])
                found[name]["phases"].append(first["phases"])
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

    def network(self, keep: float = 0.5) -> nn.Module:
        torch.manual_seed(self.seed)
        return masked_mlp(self.x.shape[1], self.task.hidden, self.classes, seed=self.seed, keep=keep)


def _measured(setting: _Setting, truth: SubsetOutcomes, name: str) -> dict[str, float]:
    recipe = RECIPES[name]
    x, y, (test, test_labels) = setting.x, setting.y, setting.test
    chosen, asked = setting.rows(recipe.rows)
    trained = _trained(setting, recipe, chosen, y)
    without = _trained(setting, recipe, _without(chosen, asked), y)
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
    _steps(setting, plain, _BASE, chosen, y, masked=False)
    model, phases = setting.network(), []
    for rows in (others, asked, others):
        _steps(setting, model.train(), _BASE, rows, y)
        phases.append({view: _loss(model.eval(), x[asked], y[asked], asked, view) for view in ("keep", "flip", "full")})
    return {"plain": _right(plain.eval(), test, test_labels), "phases": phases}


def _without(rows: Tensor, asked: Tensor) -> Tensor:
    return rows[~torch.isin(rows, asked)]


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
    return dict(zip(_LDS, found, strict=True))


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


def _trained(setting: _Setting, recipe: Recipe, rows: Tensor, y: Tensor) -> nn.Module:
    model = setting.network(recipe.keep).train()
    _steps(setting, model, recipe, rows, y)
    return model.eval()


def _steps(
    setting: _Setting, model: nn.Module, recipe: Recipe, rows: Tensor, y: Tensor, *, masked: bool = True
) -> None:
    """Train in place for as many steps as the recipe has on all rows of the task."""
    x, references = setting.x, setting.references
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.rate * setting.task.rate, momentum=0.9)
    order = torch.Generator().manual_seed(setting.seed)
    steps = max(1, round(recipe.epochs * setting.task.epochs * len(y) / _BATCH))
    number = 0
    while number < steps:
        for batch in rows[torch.randperm(len(rows), generator=order)].split(_BATCH)[: steps - number]:
            view = "full" if float(torch.rand((), generator=order)) < recipe.full else "keep"
            optimizer.zero_grad()
            if masked:
                _objective(model, recipe, x[batch], y[batch], batch, view).backward()
            else:
                functional.cross_entropy(model(x[batch]), y[batch]).backward()
            if recipe.references:
                shown = torch.randint(_REFERENCES, (recipe.references,), generator=order)
                masks = batch[torch.randint(len(batch), (recipe.references,), generator=order)]
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
    """Return the accuracy of the full network."""
    return float((model(x).argmax(1) == y).float().mean())


_UNBIASED = 0.1
"""Of the loss where the rows were left out: a bias of less is none."""
_SAME = 0.005
"""Of accuracy: a difference of less is none."""
_BALANCE = (
    " Steps without masks train a row in its flipped subnetwork, too: there, no bias means that two of them cancel, "
    "not that the row is held out."
)
_OTHERS = {
    "own": "the row itself",
    "nearest": "the most similar held-out row of its label",
    "same_label": "a held-out row of its label",
    "other_label": "a held-out row of another label",
}
_PHASES = ("all other rows", "then these rows alone", "then the other rows again")
_FIGURE = "own_row_recipes.svg"
_COLORS = {"digits": "#1f4e9c", "sst2": "#c8102e"}
Found = list[dict[str, float]]


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    lines = [
        "# Why a flipped subnetwork is worse on its own row, and what helps",
        "As in [own_row](own_row.md) every training is made twice, with all rows and without a tenth of them, under "
        "the same masks. *Bias* is how much higher the loss of flipped subnetworks on these rows is when the rows were "
        "trained: 0 for a held-out prediction. *Accuracy* is that of the full network on held-out rows. *Wrong "
        "labels*: how well the loss of flipped subnetworks finds them where a tenth of the labels is changed. "
        "*LDS*: how well scores of the one model, by the original and by the recommended estimator, rank the losses of "
        "networks without masks that are retrained on random halves of the rows. "
        f"{seeds_words(result['seeds']).capitalize()}.",
        f"![Bias and accuracy of every training, for whom flipped subnetworks get worse, and when]({_FIGURE})",
        *agreements(findings(result)),
    ]
    head = ["training", "accuracy", "loss, trained", "loss, left out", "bias", "wrong labels, AUC"]
    head += ["LDS, original", "LDS, recommended"]
    for task in result["tasks"].values():
        lines += [
            f"## {task['title']}",
            f"{task['rows']:,} rows, hidden layers of {', '.join(map(str, task['hidden']))}, all masked, "
            f"{task['epochs']} epochs at a rate of {task['rate']:g}; accuracy without masks {spread(task['plain'])}.",
            markdown_table(head, [_row(name, task) for name in task["recipes"]]),
            "By how much training on the rows raises the loss of their flipped subnetworks, shown other rows, as in "
            "own_row:",
            markdown_table(
                ["shown", "change of the loss"],
                [
                    [title, spread([one[f"change_{name}"] for one in task["recipes"]["base"]])]
                    for name, title in _OTHERS.items()
                ],
            ),
            "Trained in phases, each as long as the training above; loss on the rows:",
            markdown_table(
                ["trained on", "kept subnetwork", "flipped", "full network"],
                [
                    [name, *(spread([one[place][view] for one in task["phases"]]) for view in ("keep", "flip", "full"))]
                    for place, name in enumerate(_PHASES)
                ],
            ),
        ]
    return paragraphs(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what makes flipped subnetworks worse, and whether a training makes them unbiased at no cost."""
    tasks, seeds = result["tasks"], seeds_words(result["seeds"])
    found = []
    for task in tasks.values():
        base = task["recipes"]["base"]
        own, near, same = (_mean(base, f"change_{name}") for name in ("own", "nearest", "same_label"))
        found.append(
            Finding(
                f"{task['title']}: what training on a row adds to the loss of its flipped subnetwork, for the row, the "
                "most similar row and any row of its label",
                "–",
                f"{own:+.2f}, {near:+.2f}, {same:+.2f}",
                f"{task['rows']:,} rows, {seeds}",
                _cause_sentence(task),
            )
        )
    names = list(next(iter(tasks.values()))["recipes"])
    cured = [name for name in names if all(_is_cure(task, name) for task in tasks.values())]
    some = [name for name in names if any(_is_cure(task, name) for task in tasks.values())]
    least = min(names, key=lambda name: max(abs(_relative(task, name)) for task in tasks.values()))
    told = ", ".join(f"{_relative(task, least):+.0%}" for task in tasks.values())
    base = ", ".join(f"{_relative(task, 'base'):+.0%}" for task in tasks.values())
    return [
        *found,
        *(_lds_finding(task, seeds) for task in tasks.values()),
        Finding(
            "smallest bias of flipped subnetworks on their own rows among the trainings tried, as a share of the loss",
            "no bias is assumed (section 3)",
            f"bias {told} ({_title(least)}); trained as in the paper {base}",
            f"{' and '.join(task['title'] for task in tasks.values())}, {seeds}",
            _cure_sentence(tasks, cured, some),
            "flipped subnetworks can be trained to predict as held-out models do, at no cost in accuracy",
            graded(bool(cured), in_part=bool(some)),
        ),
    ]


def _lds_finding(task: dict[str, Any], seeds: str) -> Finding:
    """Return whether a training whose flipped subnetworks are less biased follows retraining better, too."""
    judged = {name: found for name, found in task["recipes"].items() if "lds" in found[0]}
    best = max(judged, key=lambda name: _mean(judged[name], "lds"))
    original, recommended = ({name: f"{_mean(found, what):.3f}" for name, found in judged.items()} for what in _LDS)
    gain = _mean(judged[best], "lds") - _mean(judged["base"], "lds")
    noise = max(pstdev(one["lds"] for one in judged[name]) for name in ("base", best))
    if gain > noise:
        told = (
            "LDS of the original and of the recommended estimator is "
            f"{original['base']} and {recommended['base']} as in own_row and highest, by the original one, with "
            f"{_title(best)}: {original[best]} and {recommended[best]}."
        )
    else:
        told = (
            "no other training raises the LDS of the original estimator by more than one sd; as in own_row it is "
            f"{original['base']}, that of the recommended one {recommended['base']}."
        )
    return Finding(
        f"{task['title']}: LDS of one model by the original and by the recommended estimator, trained as in own_row "
        "and by the best of the trainings that were tried",
        "–",
        f"{original['base']}, {recommended['base']}; {_title(best)} {original[best]}, {recommended[best]}",
        f"{task['rows']:,} rows, {seeds}",
        f"{task['title']}: {told}",
    )


def _is_cure(task: dict[str, Any], name: str) -> bool:
    """Tell whether a training is unbiased, as accurate as without masks, and finds wrong labels as before."""
    found, base = task["recipes"][name], task["recipes"]["base"]
    return (
        "wrong_labels" in found[0]
        and abs(_relative(task, name)) < _UNBIASED
        and _mean(found, "accuracy") >= mean(task["plain"]) - _SAME
        and _mean(found, "wrong_labels") >= _mean(base, "wrong_labels") - _SAME
    )


def _cause_sentence(task: dict[str, Any]) -> str:
    base, phases = task["recipes"]["base"], task["phases"]
    own, same = (_mean(base, f"change_{name}") for name in ("own", "same_label"))
    if own <= 0:
        return f"{task['title']}: training on a row does not make its flipped subnetwork worse on it here."
    flips = [mean(one[place]["flip"] for one in phases) for place in range(len(_PHASES))]
    by_others = flips[2] - flips[1] > flips[1] - flips[0]
    where = "any row of its label" if same > own / 2 else "the row itself"
    return (
        f"{task['title']}: the change is there for {where} ({same / own:.0%} of it for a random row of the label). In "
        f"phases, the flipped loss goes from {flips[0]:.2f} to {flips[1]:.2f} while the rows are trained, and to "
        f"{flips[2]:.2f} while the others are trained again: "
        + (
            "the steps of other rows, which make up for what kept subnetworks learned, do it."
            if by_others
            else "the steps of the rows themselves do it, through units that other rows among them share."
        )
    )


def _cure_sentence(tasks: dict[str, Any], cured: list[str], some: list[str]) -> str:
    if cured:
        return f"Unbiased, accurate and as good at finding wrong labels: {'; '.join(map(_title, cured))}."
    if some:
        told = "; ".join(
            f"{_title(name)} ({', '.join(task['title'] for task in tasks.values() if _is_cure(task, name))})"
            for name in some
        )
        return f"No training is unbiased at no cost on all tasks; on one: {told}."
    unbiased = [
        (task, name)
        for task in tasks.values()
        for name, found in task["recipes"].items()
        if "wrong_labels" in found[0] and abs(_relative(task, name)) < _UNBIASED
    ]
    if not unbiased:
        return "No training tried makes flipped subnetworks unbiased on their own rows."
    costs = "; ".join(f"{_title(name)} ({_cost(task, name)})" for task, name in unbiased)
    balanced = any(name in RECIPES and RECIPES[name].full for _, name in unbiased)
    return f"Unbiased, but at a cost: {costs}." + (_BALANCE if balanced else "")


def _cost(task: dict[str, Any], name: str) -> str:
    found, base = task["recipes"][name], task["recipes"]["base"]
    accuracy = _mean(found, "accuracy") - mean(task["plain"])
    wrong_labels = _mean(found, "wrong_labels") - _mean(base, "wrong_labels")
    return f"{task['title']}: accuracy {accuracy:+.3f} beside no masks, wrong labels {wrong_labels:+.3f}"


def _relative(task: dict[str, Any], name: str) -> float:
    found = task["recipes"][name]
    return (_mean(found, "trained") - _mean(found, "left_out")) / _mean(found, "left_out")


def _mean(found: Found, what: str) -> float:
    return mean(one[what] for one in found)


def _title(name: str) -> str:
    return _TITLES.get(name, name)


def _row(name: str, task: dict[str, Any]) -> list[str]:
    found = task["recipes"][name]
    cells = [spread([one[what] for one in found]) for what in ("accuracy", "trained", "left_out")]
    bias = spread([one["trained"] - one["left_out"] for one in found])
    judged = [spread([one[what] for one in found]) if what in found[0] else "–" for what in ("wrong_labels", *_LDS)]
    return [_title(name), *cells, bias, *judged]


def _plot(result: dict[str, Any], file: Path) -> None:
    tasks = result["tasks"]
    # Places are given: the solver of layouts ends at other last digits from time to time, with as many parts as here.
    with drawn(file, (10.5, 4.2), font=8.5, layout=None) as figure:
        figure.subplots_adjust(left=0.075, right=0.99, bottom=0.13, top=0.97, wspace=0.38)
        left, middle, right = figure.subplots(1, 3, width_ratios=(4, 2.2, 2.2))
        for shift, (name, task) in enumerate(tasks.items()):
            color = _COLORS[name]
            for recipe, found in task["recipes"].items():
                place = _mean(found, "accuracy") - mean(task["plain"]), _relative(task, recipe)
                left.scatter(*place, color=color, s=36 if recipe == "base" else 14)
                left.annotate(
                    recipe, place, xytext=(4, 2), textcoords="offset points", fontsize=5.5, annotation_clip=True
                )
            left.scatter([], [], color=color, s=14, label=task["title"])
            changes = [_mean(task["recipes"]["base"], f"change_{other}") for other in _OTHERS]
            places = [row + 0.4 * shift for row in range(len(changes))]
            middle.barh(places, changes, height=0.36, color=color)
            for view, style in (("flip", "-"), ("keep", ":")):
                values = [mean(one[phase][view] for one in task["phases"]) for phase in range(len(_PHASES))]
                right.plot(range(3), values, style, marker="o", markersize=3, color=color)
        left.axhline(0, color="#222222", linewidth=0.9)
        left.axvline(0, color="#222222", linewidth=0.9)
        left.set_xlim(-0.07, 0.04)  # trainings that learn far less are in the table alone
        left.set(xlabel="accuracy, beside no masks", ylabel="bias, as a share of the loss without the rows")
        left.legend(frameon=False, fontsize=7, loc="lower left")
        middle.set_yticks(range(len(_OTHERS)), ["the row", "most similar", "same label", "other label"])
        middle.invert_yaxis()
        middle.set(xlabel="change of the flipped loss")
        right.set_xticks(range(3), ["others", "the rows", "others"])
        right.set(xlabel="trained in phases on", ylabel="loss on the rows, flipped (–) and kept (··)")
        for panel in (left, middle, right):
            tidy(panel)
