"""Measure all methods on all sizes, in turns, and fit how the costs grow."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.baselines import FeldmanZhang, InfluenceFunctions, Lissa, SgdInfluence
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, graded, paragraphs
from turnover_bench.experiments.networks import masked_mlp, mlp
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import growth, one_thread, seconds


@dataclass(frozen=True)
class Table1Config:
    """What is measured, and on what.

    Attributes:
        rows: sizes of the data, |D|, for all methods.
        more_rows: further sizes at which only estimation is measured, for methods that read no training row in it.
        width: of both hidden layers while |D| grows.
        widths: of both hidden layers while |D| is `width_rows`; only storage is measured.
        width_rows: |D| while the network grows.
        repeats: of every timing; the smallest counts.
        epochs: of every training.
        batch_size: of every training (B).
        retrained: models that are really trained for Re-train; the time of all |D| is extrapolated from them.
        subset_models: of Feldman & Zhang.
        lissa_batch: rows of a step of Koh+'s recursion (b); it has |D| steps (rt).
        seed: of rows, networks and trainings.
    """

    rows: tuple[int, ...]
    more_rows: tuple[int, ...]
    width: int
    widths: tuple[int, ...]
    width_rows: int
    repeats: int
    epochs: int = 3
    batch_size: int = 32
    retrained: int = 4
    subset_models: int = 10
    lissa_batch: int = 32
    seed: int = 0


# Its seconds are compared with each other.
ALONE = True

SIZES = {
    "toy": Table1Config(
        rows=(64, 128, 256),
        more_rows=(512,),
        width=16,
        widths=(16, 32, 64),
        width_rows=64,
        repeats=1,
        epochs=1,
        retrained=2,
        subset_models=4,
    ),
    "small": Table1Config(
        rows=(128, 256, 512, 1024, 2048, 4096),
        more_rows=(16384, 65536, 262144, 1048576),
        width=64,
        widths=(64, 128, 256, 512),
        width_rows=256,
        repeats=3,
    ),
    "medium": Table1Config(
        rows=(128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        more_rows=(65536, 262144, 1048576),
        width=128,
        widths=(64, 128, 256, 512, 1024),
        width_rows=512,
        repeats=3,
    ),
    # The paper counts and does not measure, so that it has no setting of its own: the sizes of its data sets instead.
    "full": Table1Config(
        rows=(1024, 2048, 4096, 8192, 16384, 32768, 65536),
        more_rows=(262144, 1048576, 4194304),
        width=256,
        widths=(64, 128, 256, 512, 1024),
        width_rows=1024,
        repeats=3,
        epochs=10,
    ),
}

NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.2)}


FEATURES, CLASSES = 32, 4


@dataclass(frozen=True)
class Task:
    """One cell of the measurement: a plain recipe, the same with turn-over dropout, one query and the settings."""

    plain: TrainingRecipe
    masked: TrainingRecipe
    query: tuple[Tensor, Tensor]
    config: Table1Config


def make_task(config: Table1Config, rows: int, width: int) -> Task:
    """Return the task for a size of the data and a width of the network; the smaller data are part of the larger."""
    inputs, targets = generated(rows + 1, config.seed)
    # The query comes first, so that it is the same for every size.
    data = {"inputs": inputs[1:], "targets": targets[1:], "epochs": config.epochs, "batch_size": config.batch_size}
    return Task(
        plain=TrainingRecipe(partial(mlp, FEATURES, (width, width), CLASSES), **data),
        masked=TrainingRecipe(partial(masked_mlp, FEATURES, (width, width), CLASSES, seed=config.seed), **data),
        query=(inputs[:1], targets[:1]),
        config=config,
    )


def generated(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows around one center a class, drawn one after the other."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(CLASSES, FEATURES, generator=generator)
    targets = torch.randint(CLASSES, (rows,), generator=torch.Generator().manual_seed(seed + 1))
    # A second draw for the noise: torch draws in another order for other sizes, hence blocks of a fixed size.
    blocks = [torch.randn(64, FEATURES, generator=generator) for _ in range(-(-rows // 64))]
    return centers[targets] + 2 * torch.cat(blocks)[:rows], targets


_DAMPING = 1.0
_SCALE = 20.0


class Method(ABC):
    """One method on one task.

    Attributes:
        share: of its trainings that are really run; times and bytes of all are extrapolated from them.
        reads_rows: whether estimation reads the training rows; otherwise it can score more than were trained.
    """

    share = 1.0
    reads_rows = True

    def __init__(self, task: Task, folder: Path) -> None:
        self.task = task
        self.folder = folder

    @abstractmethod
    def train(self) -> None:
        """Do all that needs no query."""

    @abstractmethod
    def stored(self) -> int:
        """Return the bytes on disk of what must be kept for queries, without the training data."""

    @abstractmethod
    def estimate(self, rows: int) -> np.ndarray:
        """Return the influence of so many rows on the query."""


class Retrain(Method):
    """A model without each row, and one with all; some of them are really trained."""

    def train(self) -> None:
        """Train the model with all rows and those without some rows, spread over the data."""
        recipe = self.task.plain
        rows = len(recipe)
        left_out = np.linspace(0, rows - 1, min(self.task.config.retrained, rows)).round().astype(int)
        self.share = (1 + len(left_out)) / (1 + rows)
        self.whole = recipe.fit(seed=self.task.config.seed)
        self.without = [
            recipe.fit(torch.arange(rows) != int(row), seed=self.task.config.seed) for row in left_out.tolist()
        ]

    def stored(self) -> int:
        return sum(_saved(model, self.folder / f"{n}.pt") for n, model in enumerate([self.whole, *self.without]))

    def estimate(self, rows: int) -> np.ndarray:
        """Ask as many models as there are rows: those that were trained, in turn."""
        losses = [_loss(self.task, self.without[row % len(self.without)]) for row in range(rows)]
        return np.array(losses) - _loss(self.task, self.whole)


class Hara(Method):
    """SGD-influence: all steps on disk, walked back for the query."""

    def train(self) -> None:
        self.influence = SgdInfluence.train(self.task.plain, seed=self.task.config.seed, folder=self.folder / "steps")

    def stored(self) -> int:
        return _bytes(self.folder / "steps")

    def estimate(self, rows: int) -> np.ndarray:
        return self.influence.pairwise(self.task.query, progress=False).values[:, 0]


class Koh(Method):
    """Influence functions with as many steps of the recursion as there are rows (rt = |D|)."""

    def train(self) -> None:
        self.model = self.task.plain.fit(seed=self.task.config.seed)

    def stored(self) -> int:
        return _saved(self.model, self.folder / "model.pt")

    def estimate(self, rows: int) -> np.ndarray:
        """Solve for the query and multiply with the gradients of all rows."""
        # Scale and damping are given, not searched: a search would be a fixed cost that bends the growth.
        solver = Lissa(depth=rows, repeats=1, batch_size=self.task.config.lissa_batch, scale=_SCALE, seed=0)
        influence = InfluenceFunctions(self.task.plain, self.model, solver=solver, damping=_DAMPING)
        return influence.pairwise(self.task.query, progress=False).values[:, 0]


class Feldman(Method):
    """A fixed number of models on random subsets, all kept; the subsets are drawn again from their seed."""

    reads_rows = False

    def train(self) -> None:
        """Train the models."""
        subsets, seeds = self._plan(len(self.task.plain))
        self.models = [self.task.plain.fit(rows, seed=seed) for rows, seed in zip(subsets, seeds, strict=True)]

    def stored(self) -> int:
        return sum(_saved(model, self.folder / f"{n}.pt") for n, model in enumerate(self.models))

    def estimate(self, rows: int) -> np.ndarray:
        """Ask all models, and compare for each row those that had it with those that had not."""
        inside, _ = self._plan(rows)
        losses = np.array([_loss(self.task, model) for model in self.models])
        have = inside.sum(0)
        # With few models a row may be in all or in none: 0 / 0, which costs the same.
        with np.errstate(invalid="ignore", divide="ignore"):
            return losses @ ~inside / (len(losses) - have) - losses @ inside / have

    def _plan(self, rows: int) -> tuple[np.ndarray, list[int]]:
        # Subsets depend on the number of rows and not on what is in them.
        blank = replace(self.task.plain, inputs=torch.zeros(rows, 0), targets=torch.zeros(rows))
        return FeldmanZhang(blank, models=self.task.config.subset_models, seed=self.task.config.seed).plan()


class TurnOver(Method):
    """Turn-over dropout: one model, two forward passes per row, of which only the id is needed."""

    reads_rows = False

    def train(self) -> None:
        self.model = self.task.masked.fit(seed=self.task.config.seed)

    def stored(self) -> int:
        return _bytes(turnover.save(self.model, self.folder / "model"))

    def estimate(self, rows: int) -> np.ndarray:
        """Compare both views of every row."""
        # The original estimator is not centered: null ids would be a fixed cost.
        influence = turnover.Influence(self.model, estimator=turnover.influence.TurnOver(center=False))
        return influence.pairwise(self.task.query, ids=range(rows), progress=False).values[:, 0]


METHODS: dict[str, type[Method]] = {
    "retrain": Retrain,
    "hara": Hara,
    "koh": Koh,
    "feldman": Feldman,
    "turnover": TurnOver,
}


def _loss(task: Task, model: nn.Module) -> float:
    inputs, targets = task.query
    recipe = TrainingRecipe(task.plain.build, inputs, targets)
    with torch.no_grad():
        return float(recipe.losses(model, torch.zeros(1, dtype=torch.int64))[0])


def _saved(model: nn.Module, file: Path) -> int:
    torch.save(model.state_dict(), file)
    return file.stat().st_size


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


COSTS = ("training", "storage", "estimation")


def run(config: Table1Config, out: Path) -> dict[str, Any]:
    """Return costs and exponents; what was measured is kept under `out` and not measured again."""
    cells, measured = list(_cells(config)), []
    with one_thread(), tqdm(total=len(cells) + 1, unit=" cells") as bar:
        if not all(_file(out, cell).exists() for cell in cells):
            _warm_up(config, out)
        for cell in cells:
            bar.set_postfix_str(f"{cell['method']}, |D| = {cell['rows']}, width {cell['width']}")
            measured.append(kept(_file(out, cell), partial(_measured, config, cell, out / "scratch")))
            bar.update()
        check = kept(out / "cells" / "check.json", partial(_check_extrapolation, config, out / "scratch"))
        bar.update()
    costs = {method: _smallest(config, _cells_of(measured, method, "rows")) for method in METHODS}
    by_width = {method: _cells_of(measured, method, "width") for method in METHODS}
    parameters = [
        sum(p.numel() for p in mlp(FEATURES, (width, width), CLASSES).parameters()) for width in config.widths
    ]
    exponents = {
        method: {
            **{cost: _growth_of(costs[method], cost) for cost in COSTS},
            "storage_by_parameters": asdict(growth(parameters, [c["storage"] for c in by_width[method]])),
        }
        for method in METHODS
    }
    return {
        "setting": asdict(config),
        "parameters": parameters,
        "costs": costs,
        "storage_by_width": {method: [c["storage"] for c in by_width[method]] for method in METHODS},
        "exponents": exponents,
        "retrain_check": check,
    }


def _cells(config: Table1Config) -> Iterator[dict[str, Any]]:
    """Yield what is measured, in an order in which the methods take turns, so that noise of the machine hits all."""
    for width in config.widths:
        for method in METHODS:
            yield {"sweep": "width", "method": method, "rows": config.width_rows, "width": width, "repeat": 0}
    for repeat in range(config.repeats):
        for rows in config.rows:
            for method in METHODS:
                yield {"sweep": "rows", "method": method, "rows": rows, "width": config.width, "repeat": repeat}


def _measured(config: Table1Config, cell: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the costs of one cell."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    task = make_task(config, cell["rows"], cell["width"])
    method = METHODS[cell["method"]](task, folder)
    training = seconds(method.train)
    found = {**cell, "training": training / method.share, "storage": round(method.stored() / method.share)}
    if cell["sweep"] == "rows":
        found["estimation"] = seconds(lambda: method.estimate(cell["rows"]))
    if cell["sweep"] == "rows" and cell["rows"] == config.rows[-1] and not method.reads_rows:
        found["more"] = [seconds(lambda rows=rows: method.estimate(rows)) for rows in config.more_rows]
    shutil.rmtree(folder)
    return found


def _warm_up(config: Table1Config, out: Path) -> None:
    for method in METHODS:
        cell = {"sweep": "rows", "method": method, "rows": config.rows[0], "width": config.width}
        _measured(config, cell, out / "scratch")


def _check_extrapolation(config: Table1Config, folder: Path) -> dict[str, Any]:
    """Return the time of all trainings of Re-train on the smallest data as a share of the extrapolated one."""
    rows = config.rows[0]
    task = make_task(config, rows, config.width)
    pairs = []
    for _ in range(config.repeats):
        method = METHODS["retrain"](task, folder)
        extrapolated = seconds(method.train) / method.share
        every = METHODS["retrain"](make_task(replace(config, retrained=rows), rows, config.width), folder)
        pairs.append((seconds(every.train), extrapolated))
    whole, extrapolated = (min(pair[place] for pair in pairs) for place in (0, 1))
    return {"rows": rows, "seconds": whole, "extrapolated": extrapolated, "ratio": whole / extrapolated}


def _smallest(config: Table1Config, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the costs of a method for each size, the smallest of the repeats."""
    costs = []
    for rows in config.rows:
        some = [cell for cell in found if cell["rows"] == rows]
        costs.append({"rows": rows, **{cost: min(cell[cost] for cell in some) for cost in COSTS}})
    more = [cell["more"] for cell in found if "more" in cell]
    return costs + [
        {"rows": rows, "estimation": min(seconds)}
        for rows, seconds in zip(config.more_rows, zip(*more, strict=True), strict=bool(more))
    ]


def _growth_of(costs: list[dict[str, Any]], cost: str) -> dict[str, float]:
    some = [cell for cell in costs if cost in cell]
    return asdict(growth([cell["rows"] for cell in some], [cell[cost] for cell in some]))


def _cells_of(cells: list[dict[str, Any]], method: str, sweep: str) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["method"] == method and cell["sweep"] == sweep]


def _file(out: Path, cell: dict[str, Any]) -> Path:
    return out / "cells" / ("-".join(str(value) for value in cell.values()) + ".json")


@dataclass(frozen=True)
class Orders:
    """What a method should cost.

    Attributes:
        title: its name in the table.
        training: order of training all models.
        storage: order of what is kept.
        estimation: order of one query against all rows.
        exponents: of |D| in the three, at fixed epochs, batches and network.
    """

    title: str
    training: str
    storage: str
    estimation: str
    exponents: tuple[int, int, int]


# T = epochs · |D| / B steps, and rt ≈ |D| as the paper says: both grow with |D|.
ORDERS = {
    "retrain": Orders("Re-train", "O(|D|²)", "O(|θ||D|)", "O(F|D|)", (2, 1, 1)),
    "hara": Orders("Hara+", "O(|D|)", "O(|θ|T)", "O(F|D| + (F+F')TB)", (1, 1, 1)),
    "koh": Orders("Koh+", "O(|D|)", "O(|θ|)", "O(F|D| + (F+F')rtb)", (1, 0, 1)),
    "feldman": Orders("Feldman & Zhang", "O(m|D|)", "O(m|θ|)", "O(mF + m|D|)", (1, 0, 1)),
    "turnover": Orders("turn-over dropout", "O(|D|)", "O(|θ|)", "O(F|D|)", (1, 0, 1)),
}


_COLORS = {"retrain": "#444444", "hara": "#d95f02", "koh": "#7570b3", "feldman": "#1b9e77", "turnover": "#e7298a"}
_MARKERS = {"retrain": "s", "hara": "^", "koh": "D", "feldman": "v", "turnover": "o"}
_PANELS = {
    "training": "training, seconds",
    "storage": "storage, bytes",
    "estimation": "estimation of one query, seconds",
}


def _plot(result: dict[str, Any], file: Path) -> None:
    """Write the costs as lines on logarithmic axes."""
    with drawn(file, (10, 8)) as figure:
        panels = figure.subplots(2, 2).ravel()
        for panel, (cost, label) in zip(panels, _PANELS.items(), strict=False):
            for method, cells in result["costs"].items():
                known = [cell for cell in cells if cost in cell]
                _line(panel, method, [cell["rows"] for cell in known], [cell[cost] for cell in known])
            panel.set(title=label, xlabel="|D|, training rows", xscale="log", yscale="log")
        for method, stored in result["storage_by_width"].items():
            _line(panels[3], method, result["parameters"], stored)
        title = f"storage, bytes, at |D| = {result['setting']['width_rows']}"
        panels[3].set(title=title, xlabel="|θ|, parameters", xscale="log", yscale="log")
        for panel in panels[:2]:
            rows = result["setting"]["rows"]
            panel.set_xticks(rows, labels=[f"{size:,}" for size in rows])
        for panel in panels:
            # Numbers between the powers of ten would run into each other.
            panel.minorticks_off()
            tidy(panel, box=True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def _line(panel: Any, method: str, x: list[float], y: list[float]) -> None:
    # Lines that lie on each other stay visible: ours is drawn over the others, thicker and with open marks.
    ours = method == "turnover"
    panel.plot(
        x,
        y,
        label=ORDERS[method].title,
        color=_COLORS[method],
        marker=_MARKERS[method],
        markersize=7 if ours else 5,
        markerfacecolor="none" if ours else None,
        linewidth=2 if ours else 1.4,
        zorder=3 if ours else 2,
    )


_NEAR = 0.15  # of an exponent


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its plot into `folder`."""
    _plot(result, folder / "table1.svg")
    setting, check = result["setting"], result["retrain_check"]
    rows, more, largest = setting["rows"], setting["more_rows"], setting["rows"][-1]
    kept = min(setting["retrained"], largest)
    return paragraphs(
        [
            "# Table 1: what each method costs as the data grow",
            f"An MLP with two hidden layers of {setting['width']} on generated rows; {setting['epochs']} epochs, "
            f"batches of {setting['batch_size']}, the same for all methods. |D| goes from {rows[0]:,} to {largest:,}. "
            "Turn-over dropout and Feldman & Zhang read no training row while they estimate, so that the models "
            f"trained on {largest:,} rows also score up to {more[-1]:,}; their exponent of estimation is fitted over "
            "all of these.",
            "Processor seconds on one core: other programs on the machine count little, and waiting for the disk not "
            f"at all. Methods took turns; the minimum of {setting['repeats']} repeats counts.",
            "![costs against the size of the data](table1.svg)",
            "## Growth with |D|",
            "Exponent k of cost ~ |D|^k by least squares on logarithms ± standard error; in brackets the same for the "
            "three largest |D| alone, where fixed costs weigh least. Beside it the paper's order and the exponent that "
            "it gives at fixed epochs, batches and network: T = epochs · |D| / B, and rt = |D|.",
            markdown_table(
                ["method", *(head for cost in COSTS for head in (cost, "measured"))],
                [_growth(method, result["exponents"][method]) for method in ORDERS],
            ),
            "Feldman & Zhang is not in the paper's table; its orders are ours, for a number m of models that stays the "
            f"same (here m = {setting['subset_models']}; its authors trained thousands).",
            f"## Costs at |D| = {largest:,}",
            markdown_table(["method", "training", "storage", "estimation, one query"], _costs(result, largest)),
            f"\\* Re-train is partly extrapolated: {1 + kept} of its {largest + 1:,} models were trained and their "
            f"files written, times and bytes multiplied. Its estimation is {largest:,} real forward passes, through "
            f"the models that exist in turn. Extrapolation checked at |D| = {check['rows']}: training all models took "
            f"{check['ratio']:.2f} times what was extrapolated. So its training exponent is that of one training "
            "plus 1 by construction.",
            "## Growth of storage with |θ|",
            f"|D| = {setting['width_rows']}, widths {', '.join(map(str, setting['widths']))}, |θ| from "
            f"{result['parameters'][0]:,} to {result['parameters'][-1]:,}. All orders say 1. Files have headers, which "
            "weigh more the smaller the network; the recording of Hara+ is written in blocks of whole steps, of which "
            "the last may be padded.",
            markdown_table(["method", "expected", "measured"], _by_parameters(result)),
            "## How it is counted",
            "- As in the paper: training is all that is done before a query is known, storage all that must then be "
            "kept, as real files, to answer any query, estimation one query against all rows.",
            "- Koh+ is the stochastic recursion with "
            f"|D| steps of {setting['lissa_batch']} rows; turn-over dropout is the original estimator, not "
            "centered. How good the estimates are is measured elsewhere: this page is about cost alone.",
            "- An exponent below the order's comes from fixed costs: the training of Hara+ makes and checks a store, "
            "turn-over dropout compares paths on the first query and takes the fastest correct one, and "
            "Feldman & Zhang runs m models however few the rows.",
        ]
    )


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return the exponents of each method beside the paper's orders."""
    setting = result["setting"]
    about = f"MLP of width {setting['width']}, one seed, |D| from {setting['rows'][0]:,} to {setting['rows'][-1]:,}"
    return [_finding(method, result["exponents"][method], about) for method in ORDERS if method != "feldman"]


def _finding(method: str, exponents: dict[str, Any], about: str) -> Finding:
    order = ORDERS[method]
    measured = [exponents[cost]["largest"] for cost in COSTS]
    off = [
        cost
        for cost, value, exponent in zip(COSTS, measured, order.exponents, strict=True)
        if abs(value - exponent) > _NEAR
    ]
    written = ", ".join(f"{cost} {getattr(order, cost)}" for cost in COSTS)
    return Finding(
        f"{order.title}: growth with the data",
        f"{written} (Table 1)",
        ", ".join(f"{cost} |D|^{value:z.2f}" for cost, value in zip(COSTS, measured, strict=True)).replace("-", "−"),
        about,
        f"{order.title} grows as the paper says, within {_NEAR} of the exponents."
        if not off
        else f"{order.title}: {' and '.join(off)} is more than {_NEAR} from the paper's exponent, "
        "because fixed costs still matter at this size.",
        f"{order.title}: costs grow with the data as in Table 1",
        graded(not off, in_part=len(off) < len(COSTS)),
        f"all exponents within {_NEAR:g}; in part: one is",
    )


def _growth(method: str, exponents: dict[str, Any]) -> list[str]:
    order = ORDERS[method]
    cells = [order.title]
    for cost, expected in zip(COSTS, order.exponents, strict=True):
        cells += [f"{getattr(order, cost)} → {expected}", f"**{_exponent(exponents[cost])}**"]
    return cells


def _exponent(found: dict[str, float]) -> str:
    return f"{found['exponent']:z.2f} ± {found['stderr']:z.2f} ({found['largest']:z.2f})".replace("-", "−")


def _costs(result: dict[str, Any], rows: int) -> list[list[str]]:
    found = {method: next(c for c in cells if c["rows"] == rows) for method, cells in result["costs"].items()}
    return [
        [
            order.title,
            _seconds(found[method]["training"]) + (" *" if method == "retrain" else ""),
            _size(found[method]["storage"]) + (" *" if method == "retrain" else ""),
            _seconds(found[method]["estimation"]),
        ]
        for method, order in ORDERS.items()
    ]


def _by_parameters(result: dict[str, Any]) -> list[list[str]]:
    exponents = result["exponents"]
    return [
        [order.title, "1", f"**{_exponent(exponents[method]['storage_by_parameters'])}**"]
        for method, order in ORDERS.items()
    ]


def _seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.1f} s" if value < 600 else f"{value / 60:,.0f} min"


def _size(value: float) -> str:
    return f"{value / 1e3:.0f} kB" if value < 1e6 else f"{value / 1e6:.1f} MB"
