"""Measure all methods on all tasks, by both ground truths."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset
from tqdm import tqdm

import turnover
from turnover.evaluation import Bootstrap, mean_interval
from turnover.training import TrainingRecipe
from turnover_bench.baselines import (
    ConjugateGradients,
    FeldmanZhang,
    InfluenceFunctions,
    LeaveOneOut,
    SgdInfluence,
    TracIn,
)
from turnover_bench.checks import EvaluationConfig, Row, Table, Task, evaluate, markdown_table
from turnover_bench.experiments.datasets.images import change_labels
from turnover_bench.experiments.datasets.numbers import digit_rows, sst2_rows
from turnover_bench.experiments.figures import drawn
from turnover_bench.experiments.findings import Finding, paragraphs
from turnover_bench.experiments.networks import masked_mlp, mlp
from turnover_bench.experiments.runner import Needs, kept


@dataclass(frozen=True)
class TaskConfig:
    """One task: its data, its model and its training.

    Attributes:
        data: which data set.
        rows: training rows.
        queries: rows that are asked about, none of them trained on.
        hidden: width of the hidden layers, which are masked.
        layers: how many hidden layers.
        learning_rate: of SGD with momentum 0.9.
        epochs: of every training.
        batch_size: of every training.
        changed: share of the training labels that are made wrong.
        retrain: whether Re-train can be afforded on all rows.
    """

    data: Literal["digits", "sst2"]
    rows: int
    queries: int
    hidden: int = 256
    layers: int = 1
    learning_rate: float = 0.02
    epochs: int = 8
    batch_size: int = 32
    changed: float = 0.1
    retrain: bool = False


@dataclass(frozen=True)
class ComparedConfig:
    """Tasks, ground truth and methods.

    Attributes:
        tasks: what is compared on.
        subsets: random halves of the rows, for the linear datamodeling score.
        subset_seeds: retrainings of each.
        loo_rows: rows that are left out one at a time.
        loo_seeds: retrainings without each of them.
        removed: how many of a query's most helpful rows are removed for brittleness.
        brittle_queries: queries for which that is done, a training each.
        seeds: trainings of each method of its own; Re-train, Feldman & Zhang and brittleness have one.
        models: of Feldman & Zhang.
        ensemble: models of the row "turn-over dropout, several models".
        damping: of Koh+.
        checkpoints: of TracIn.
        draws: of the bootstrap intervals.
        processes: for the ground truth; methods run in one, so that their seconds can be compared.
    """

    tasks: tuple[TaskConfig, ...]
    subsets: int = 32
    subset_seeds: int = 2
    loo_rows: int = 30
    loo_seeds: int = 2
    removed: int = 30
    brittle_queries: int = 10
    seeds: int = 2
    models: int = 60
    ensemble: int = 8
    damping: float = 0.01
    checkpoints: int = 5
    draws: int = 1000
    processes: int = 1


SIZES = {
    "toy": ComparedConfig(
        tasks=(TaskConfig("digits", rows=20, queries=3, hidden=16, learning_rate=0.1, epochs=6, retrain=True),),
        subsets=5,
        loo_rows=4,
        loo_seeds=1,
        removed=5,
        brittle_queries=1,
        models=20,
        ensemble=2,
        checkpoints=2,
        draws=50,
    ),
    "small": ComparedConfig(
        tasks=(
            TaskConfig(
                "digits",
                rows=240,
                queries=40,
                hidden=512,
                learning_rate=0.1,
                epochs=10,
                batch_size=40,
                retrain=True,
            ),
            TaskConfig("sst2", rows=500, queries=40, learning_rate=0.02, epochs=5, batch_size=50, retrain=True),
        )
    ),
    "medium": ComparedConfig(
        tasks=(
            TaskConfig("digits", rows=500, queries=100, layers=2, learning_rate=0.05, epochs=15, retrain=True),
            TaskConfig("sst2", rows=2000, queries=100, learning_rate=0.01, epochs=6),
        ),
        subsets=50,
        loo_rows=100,
        removed=50,
        brittle_queries=20,
        models=200,
        processes=2,
    ),
    "full": ComparedConfig(
        tasks=(
            TaskConfig(
                "digits", rows=1400, queries=300, hidden=512, layers=2, learning_rate=0.05, epochs=20, retrain=True
            ),
            TaskConfig("sst2", rows=5000, queries=300, hidden=512, learning_rate=0.01, epochs=6, retrain=True),
        ),
        subsets=100,
        subset_seeds=3,
        loo_rows=300,
        loo_seeds=5,
        removed=100,
        brittle_queries=50,
        seeds=5,
        models=2000,
        processes=2,
    ),
}

NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.8)}
MEASURES_MEMORY = True


TASK_NAMES = {"digits": "Handwritten digits", "sst2": "SST-2, MiniLM features"}


@dataclass(frozen=True)
class Prepared:
    """Data and trainings of a task.

    Attributes:
        plain: the training without masks.
        size: inputs, hidden widths and classes of the network.
        queries: inputs and correct labels.
        wrong: bool [rows]: whose label was changed.
        held_out: inputs and correct labels, for accuracy.
    """

    plain: TrainingRecipe
    size: tuple[int, tuple[int, ...], int]
    queries: tuple[Tensor, Tensor]
    wrong: np.ndarray
    held_out: tuple[Tensor, Tensor]

    def masked(self, seed: int = 0) -> TrainingRecipe:
        return replace(self.plain, build=partial(masked_mlp, *self.size, seed=seed))


def prepare(config: TaskConfig, cache: Path) -> Prepared:
    """Return the data and trainings of a task."""
    rows = digit_rows(config.rows) if config.data == "digits" else sst2_rows(config.rows, cache)
    x, labels, held_x, held_labels = rows
    classes = int(labels.max()) + 1
    changed = change_labels(labels, share=config.changed, classes=classes)
    size = (x.shape[1], (config.hidden,) * config.layers, classes)
    plain = TrainingRecipe(
        partial(mlp, *size),
        x,
        torch.from_numpy(changed.given),
        optimizer=partial(torch.optim.SGD, lr=config.learning_rate, momentum=0.9),
        epochs=config.epochs,
        batch_size=config.batch_size,
    )
    held = held_x, torch.from_numpy(held_labels)
    asked = held[0][: config.queries], held[1][: config.queries]
    return Prepared(plain, size, asked, changed.changed, held)


NAMES = {
    "turnover": "turn-over dropout (original estimator)",
    "turnover_several": "turn-over dropout, several models",
    "recommended": "recommended estimator, several models",
    "retrain": "Re-train",
    "koh": "Koh+ (last layer)",
    "hara": "Hara+ (last epoch)",
    "feldman_zhang": "Feldman & Zhang",
    "tracin": "TracIn",
    "random": "random scores",
}
# What one training of their own costs too much to repeat.
ONCE = frozenset({"retrain", "feldman_zhang"})

Methods = dict[str, Callable[[], Any]]
_IDENTITY = {"experiment": "compared"}  # a recipe tells all the rest


class RandomScores:
    """The floor: scores that know nothing."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows, self._rng = rows, np.random.default_rng(seed)

    def pairwise(self, queries: tuple[Tensor, Tensor]) -> np.ndarray:
        return self._rng.normal(size=(self._rows, len(queries[1])))

    def self_influence(self) -> np.ndarray:
        return self._rng.normal(size=self._rows)


class Retrain:
    """Leave-one-out retraining that asks queries and rows of the same models, so that a row costs one training."""

    def __init__(self, recipe: TrainingRecipe, seed: int, cache: Path) -> None:
        self._recipe, self._seed, self._cache = recipe, seed, cache
        self._own = np.zeros(0)

    def pairwise(self, queries: tuple[Tensor, Tensor]) -> np.ndarray:
        """Return what each row does to each query, [rows, queries]."""
        assert isinstance(self._recipe.inputs, Tensor)
        both = torch.cat([self._recipe.inputs, queries[0]]), torch.cat([self._recipe.targets, queries[1]])
        retraining = LeaveOneOut(self._recipe, seeds=(self._seed,), cache=self._cache, identity=_IDENTITY)
        values = retraining.pairwise(both, progress=True).values
        self._own = values.diagonal().copy()
        return values[:, len(self._recipe) :]

    def self_influence(self) -> np.ndarray:
        return self._own


def methods(
    task: TaskConfig, ready: Prepared, recipe: TrainingRecipe, config: ComparedConfig, *, seed: int, cache: Path
) -> Methods:
    """Return the methods by key, trained from one seed.

    Turn-over dropout trains the masked model; the others train what the ground truth retrains. Those of many trainings
    keep them in the cache, so that they resume.
    """
    last_layer = f"{2 * task.layers}.weight"
    several = [seed + 1000 * place for place in range(config.ensemble)]
    found: Methods = {
        "turnover": partial(_turn_over, ready, [seed], estimator="tod"),
        "turnover_several": partial(_turn_over, ready, several, estimator="tod"),
        "recommended": partial(_turn_over, ready, several),
        "retrain": partial(Retrain, recipe, seed, cache / "retrain"),
        "koh": partial(_koh, recipe, seed, config.damping, last_layer),
        "hara": partial(SgdInfluence.train, recipe, seed=seed, last_epochs=1),
        "feldman_zhang": partial(
            FeldmanZhang, recipe, models=config.models, seed=seed, cache=cache / "feldman-zhang", identity=_IDENTITY
        ),
        "tracin": partial(TracIn.train, recipe, seed=seed, checkpoints=config.checkpoints),
        "random": partial(RandomScores, len(recipe), seed),
    }
    if not task.retrain:
        del found["retrain"]
    return found


def _turn_over(ready: Prepared, seeds: list[int], **options: Any) -> turnover.Influence:
    models = [ready.masked(seed).fit(seed=seed) for seed in seeds]
    assert isinstance(ready.plain.inputs, Tensor)
    rows = turnover.with_instance_ids(TensorDataset(ready.plain.inputs, ready.plain.targets))
    return turnover.Influence(models if len(models) > 1 else models[0], train=rows, **options)


def _koh(recipe: TrainingRecipe, seed: int, damping: float, last_layer: str) -> InfluenceFunctions:
    solver = ConjugateGradients(tolerance=1e-3)
    return InfluenceFunctions(recipe, recipe.fit(seed=seed), solver=solver, damping=damping, parameters=last_layer)


View = Literal["plain", "full"]
VIEWS: tuple[View, ...] = ("plain", "full")

# The methods' own seeds are none of the ground truth's: a method must not be praised for knowing its noise.
_FIRST_SEED = 10
_FIRST_LOO_SEED = 500


def run(config: ComparedConfig, out: Path) -> dict[str, Any]:
    """Return what was measured, by task and ground truth."""
    result: dict[str, Any] = {"setting": asdict(config), "tasks": {}}
    parts: list[tuple[TaskConfig, View]] = [(task, view) for task in config.tasks for view in VIEWS]
    for task, view in tqdm(parts, desc="compared", unit=" tables"):
        # Features are kept beside the runs, for all experiments.
        ready = prepare(task, out.parent / "cache")
        told = result["tasks"].setdefault(task.data, {"name": TASK_NAMES[task.data], "rows": task.rows})
        told["queries"], told["wrong"] = task.queries, int(ready.wrong.sum())
        name = f"{task.data}-{view}"
        measure = partial(_measure, task, ready, view, config, out / "ground-truth" / name)
        told[view] = kept(out / "parts" / f"{name}.json", measure)
    return result


def _measure(task: TaskConfig, ready: Prepared, view: View, config: ComparedConfig, cache: Path) -> dict[str, Any]:
    """Return the figures of all methods on one task by one ground truth."""
    recipe = ready.plain if view == "plain" else ready.masked()
    asked = Task(task.data, recipe, ready.queries, ready.wrong)
    how = EvaluationConfig(
        subsets=config.subsets,
        subset_seeds=config.subset_seeds,
        loo_rows=config.loo_rows,
        loo_seeds=[_FIRST_LOO_SEED + place for place in range(config.loo_seeds)],
        ks=(config.removed,),
        brittle_queries=config.brittle_queries,
        processes=config.processes,
        cache=cache,
        bootstrap=Bootstrap(draws=config.draws),
    )
    # The ground truth first, in as many processes as given; all evaluations then find it in the cache.
    evaluate(asked, {"random": lambda: RandomScores(task.rows, 0)}, metrics=["lds", "loo"], config=how, progress=True)
    how = replace(how, processes=1)
    tables = []
    for place in range(config.seeds):
        seed = _FIRST_SEED + place
        chosen = methods(task, ready, recipe, config, seed=seed, cache=cache)
        if place == 0:
            tables.append(evaluate(asked, chosen, config=how))
        else:
            several = {key: build for key, build in chosen.items() if key not in ONCE}
            tables.append(evaluate(asked, several, metrics=["lds", "loo", "mislabels", "self"], config=how))
    return {"accuracy": _accuracy(recipe, ready), **_figures(tables, config.draws)}


def _accuracy(recipe: TrainingRecipe, ready: Prepared) -> float:
    x, labels = ready.held_out
    model = recipe.fit(seed=_FIRST_SEED)
    with torch.no_grad():
        return float((model(x).argmax(1) == labels).float().mean())


def _figures(tables: Sequence[Table], draws: int) -> dict[str, Any]:
    """Return what the page shows: figures of every method, means over its seeds, and the references."""
    first = tables[0]
    assert first.ceiling is not None
    found: dict[str, Any] = {
        "ceiling": first.ceiling.value,
        "random_brittleness": next(iter((first.random_brittleness or {}).values()), None),
        "methods": {},
    }
    for row in first.rows:
        rows = [one for table in tables for one in table.rows if one.method == row.method]
        found["methods"][row.method] = _of_method(rows, draws)
    if first.agreement is not None:
        found["agreement"] = {
            "names": list(first.agreement.names),
            "spearman": first.agreement.spearman.round(4).tolist(),
        }
    return found


def _of_method(rows: Sequence[Row], draws: int) -> dict[str, Any]:
    """Return the figures of one method, means over the rows of its seeds."""
    known = [row.lds for row in rows if row.lds is not None]
    figures: dict[str, Any] = {
        "seeds": len(rows),
        "problems": {what: why for row in rows for what, why in row.problems.items()},
    }
    if known:
        interval = mean_interval(np.mean([one.per_query for one in known], axis=0), Bootstrap(draws=draws))
        figures |= {"lds": _mean([one.value for one in known]), "lds_low": interval.low, "lds_high": interval.high}
        figures["lds_by_seed"] = [one.value for one in known]
    figures |= {
        "loo_pearson": _mean([row.loo.pearson.mean for row in rows if row.loo]),
        "loo_spearman": _mean([row.loo.spearman.mean for row in rows if row.loo]),
    }
    for kind in ("self", "mean"):
        some = [one for row in rows if (one := getattr(row, f"mislabels_{kind}")) is not None]
        figures |= {
            f"{kind}_auc": _mean([one.auc for one in some]),
            f"{kind}_found": _mean([one.found for one in some]),
        }
    brittle = rows[0].brittleness
    figures["brittleness"] = None if brittle is None else next(iter(brittle.values()))
    for name in ("build_seconds", "score_seconds", "peak_bytes", "storage_bytes"):
        figures[name] = _mean([value for row in rows if (value := getattr(row, name)) is not None])
    return figures


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


_TRUTHS = {"plain": "plain model retrained", "full": "masked model retrained, full view"}


def _plot(result: dict[str, Any], file: Path) -> None:
    """Write the figure: one panel per task, one dot per method and ground truth."""
    tasks = result["tasks"]
    with drawn(file, (5 * len(tasks), 3.6), letters="path") as figure:
        for panel, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks.values(), strict=True):
            keys = [key for key in NAMES if key in task["plain"]["methods"]][::-1]
            for view, color, shift in (("plain", "tab:blue", 0.12), ("full", "tab:orange", -0.12)):
                for place, key in enumerate(keys):
                    figures = task[view]["methods"][key]
                    if figures.get("lds") is not None:
                        ends = [figures["lds_low"], figures["lds_high"]]
                        panel.plot(ends, [place + shift] * 2, color=color, linewidth=1)
                        panel.plot(figures["lds"], place + shift, "o", color=color, markersize=4)
                panel.axvline(task[view]["ceiling"], color=color, linestyle=":", linewidth=1, label=_TRUTHS[view])
            panel.axvline(0, color="gray", linewidth=0.6)
            panel.set_yticks(range(len(keys)), [NAMES[key] for key in keys], fontsize=7)
            panel.set_xlabel("LDS (dotted: ceiling)", fontsize=8)
            panel.set_title(task["name"], fontsize=9)
            panel.legend(fontsize=6, loc="lower right")


OURS = "turnover"
Figures = dict[str, Any]


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    _plot(result, folder / "compared.svg")
    parts = ["# Turn-over dropout beside its baselines", *_setting(result), "![LDS](compared.svg)"]
    for task in result["tasks"].values():
        parts += [f"## {task['name']}", _about(task)]
        for view, truth in _TRUTHS.items():
            table = task[view]
            parts += [f"### Ground truth: {truth}", _table(table, result["setting"]), *_said(table)]
            parts += _problems(table)
    return paragraphs(parts, _reading(result))


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return where the original estimator stands among its baselines, by task and ground truth."""
    found = []
    for task in result["tasks"].values():
        for view, truth in _TRUTHS.items():
            known = _known(task[view], "lds")
            if OURS not in known:
                continue
            best = max(known, key=known.__getitem__)
            found.append(
                Finding(
                    what=f"{task['name']}, {truth}: LDS of the original estimator, of several models, of the "
                    "recommended estimator, and the best of all",
                    paper="–",
                    ours=f"{known[OURS]:.3f}, {known['turnover_several']:.3f}, {known['recommended']:.3f}; "
                    f"{NAMES[best]} {known[best]:.3f}",
                    setting=f"{task['rows']:,} rows, {task['queries']} queries, {result['setting']['seeds']} trainings",
                    agreement=f"{task['name']}, {truth}: by LDS the original estimator has place "
                    f"{_rank(known, OURS)} of {len(known)}, several models together place "
                    f"{_rank(known, 'turnover_several')}, the recommended estimator of these models place "
                    f"{_rank(known, 'recommended')}.",
                )
            )
    return found


def _setting(result: dict[str, Any]) -> list[str]:
    how = result["setting"]
    once = " and ".join(name for key, name in NAMES.items() if key in ONCE)
    return [
        "All methods score the same rows and queries and are judged by the same retrainings. Turn-over dropout "
        "trains the masked network; every other method trains what the ground truth retrains: the plain network, or "
        "the masked one in full view, as it would be deployed.",
        *[_task_line(task) for task in how["tasks"]],
        f"- LDS: {how['subsets']} random halves of the rows, each retrained {how['subset_seeds']} times. Leave one "
        f"out: {how['loo_rows']} rows, seeds of retraining: {how['loo_seeds']}. Predictions changed: the "
        f"{how['removed']} most helpful rows removed for each of {how['brittle_queries']} queries, a training each. No "
        "seed of the ground truth is a seed of a method.",
        f"- Figures are means over {how['seeds']} trainings of each method's own; {once}, and the changed predictions, "
        "have one. Brackets: 95 % bootstrap interval over queries; the variation between trainings is not in it.",
        f"- Koh+: conjugate gradients on the last layer, damping {how['damping']:g} (how it was chosen, and why not "
        "all parameters: bench/turnover_bench/experiments/compared/README.md). Hara+: the last epoch is walked back.",
        f"- Feldman & Zhang: {how['models']} models on 70 % of the rows. TracIn: {how['checkpoints']} checkpoints. "
        f"Several models: {how['ensemble']}, each with masks of its own, averaged; the recommended estimator, which "
        "`Influence` takes by default, has models trained in the same way.",
    ]


def _task_line(task: Figures) -> str:
    return (
        f"- {task['data']}: {task['rows']} rows, {task['changed']:.0%} of the labels changed; {task['queries']} "
        f"queries with correct labels. ReLU network, {task['layers']} hidden layer{'s' if task['layers'] > 1 else ''} "
        f"of {task['hidden']}; SGD (rate {task['learning_rate']:g}, momentum 0.9), {task['epochs']} epochs, batches of "
        f"{task['batch_size']}."
    )


def _about(task: Figures) -> str:
    plain, full = task["plain"]["accuracy"], task["full"]["accuracy"]
    return (
        f"{task['rows']} rows, {task['wrong']} with a wrong label; {task['queries']} queries. Accuracy on held-out "
        f"rows: plain network {plain:.1%}, masked network in full view {full:.1%}."
    )


def _table(table: Figures, how: Figures) -> str:
    head = [
        "method",
        "LDS [95 %]",
        "leave one out r / ρ",
        "wrong labels by self-influence: AUC / found at 10 %",
        "by mean influence",
        f"predictions changed, {how['removed']} removed",
        "seconds to build",
        "to score",
        "peak memory",
        "storage",
    ]
    return markdown_table(head, [_row(key, table["methods"][key]) for key in NAMES if key in table["methods"]])


def _row(key: str, found: Figures) -> list[str]:
    return [
        NAMES[key],
        _show(found, ("lds", "lds_low", "lds_high"), lambda mean, low, high: f"{mean:.3f} [{low:.3f}, {high:.3f}]"),
        _show(found, ("loo_pearson", "loo_spearman"), lambda r, rho: f"{r:.2f} / {rho:.2f}"),
        _show(found, ("self_auc", "self_found"), lambda auc, share: f"{auc:.3f} / {share:.0%}"),
        _show(found, ("mean_auc", "mean_found"), lambda auc, share: f"{auc:.3f} / {share:.0%}"),
        _show(found, ("brittleness",), lambda share: f"{share:.0%}"),
        _show(found, ("build_seconds",), lambda value: f"{value:.2f}"),
        _show(found, ("score_seconds",), lambda value: f"{value:.2f}"),
        _show(found, ("peak_bytes",), _size),
        _show(found, ("storage_bytes",), _size),
    ]


def _show(found: Figures, names: tuple[str, ...], form: Callable[..., str]) -> str:
    values = [found.get(name) for name in names]
    return "–" if None in values else form(*values)


def _size(value: float) -> str:
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def _said(table: Figures) -> list[str]:
    """Return the table in sentences: who is best, where turn-over dropout stands."""
    removed = table["random_brittleness"]
    lines = [
        f"- Retraining noise allows an LDS of {table['ceiling']:.3f}. "
        + ("" if removed is None else f"Removing rows at random changes {removed:.0%} of the predictions."),
        _place(table, "lds", "LDS", "{:.3f}"),
        _place(table, "loo_spearman", "Rank correlation with leaving one out", "{:.2f}"),
        _place(table, "self_auc", "Wrong labels by self-influence (AUC)", "{:.3f}"),
        _place(table, "mean_auc", "Wrong labels by mean influence (AUC)", "{:.3f}"),
        _place(table, "brittleness", "Predictions changed", "{:.0%}"),
        _seconds(table),
    ]
    ours, chance = table["methods"][OURS], table["methods"]["random"]
    if len(ours.get("lds_by_seed", [])) > 1:
        each = ", ".join(f"{value:.3f}" for value in ours["lds_by_seed"])
        lines.append(f"- LDS of the original estimator, training by training: {each}.")
    if ours.get("lds") is not None and ours["lds_low"] <= chance["lds_high"]:
        lines.append("- By LDS the original estimator is not better than random scores here: the intervals overlap.")
    return [line for line in lines if line]


def _place(table: Figures, name: str, what: str, form: str) -> str:
    known = _known(table, name)
    if OURS not in known:
        return ""
    best = max(known.values())
    leaders = [NAMES[key] for key, value in known.items() if value == best]
    ours = f"the original estimator has {form.format(known[OURS])}, place {_rank(known, OURS)} of {len(known)}"
    return f"- {what}: best {' and '.join(leaders)} with {form.format(best)}; {ours}."


def _known(table: Figures, name: str) -> dict[str, float]:
    methods = table["methods"].items()
    return {key: figures[name] for key, figures in methods if key != "random" and figures.get(name) is not None}


def _rank(known: dict[str, float], key: str) -> int:
    return 1 + sum(value > known[key] for value in known.values())


def _seconds(table: Figures) -> str:
    scoring = _known(table, "score_seconds")
    total = {key: table["methods"][key]["build_seconds"] + seconds for key, seconds in scoring.items()}
    if OURS not in total:
        return ""
    fastest, slowest = min(total, key=total.__getitem__), max(total, key=total.__getitem__)
    return (
        f"- Seconds, training included: least {NAMES[fastest]} with {total[fastest]:.2f}, most {NAMES[slowest]} with "
        f"{total[slowest]:.2f}; the original estimator takes {total[OURS]:.2f}."
    )


def _problems(table: Figures) -> list[str]:
    return [
        f"- {NAMES[key]}, {what}: {why}"
        for key, found in table["methods"].items()
        for what, why in found["problems"].items()
    ]


def _reading(result: dict[str, Any]) -> list[str]:
    left_out = [task["data"] for task in result["setting"]["tasks"] if not task["retrain"]]
    lines = [
        "## How to read this",
        "- The baselines are those of the paper. The recommended estimator is measured beside further ones in "
        "docs/results/faithfulness.md.",
        "- Seconds are of one process on a machine that others use too: compare orders, not digits. They hold the "
        "method's own training and the scores of all rows on all queries, not self-influence. Where a run was stopped "
        "and resumed, trainings of Re-train and Feldman & Zhang from before are not counted.",
        "- Peak memory is the growth of the process; memory that was freed before and used again is not counted, so "
        "that small figures are lower bounds. Storage is what is kept to answer further queries; Re-train and "
        "Feldman & Zhang keep answers, no models: other queries need all trainings again.",
        "- Re-train has one seed, the ground truth has others. Where the two hardly correlate, the "
        "effect of a single row is small beside the noise of a training: a method that averages this noise out can do "
        "better than Re-train, and none comes near 1.",
    ]
    if left_out:
        lines.append(
            f"- Re-train needs one training per row; in this size it is skipped on {' and '.join(left_out)}, where it "
            "serves as ground truth for some rows only."
        )
    return lines
