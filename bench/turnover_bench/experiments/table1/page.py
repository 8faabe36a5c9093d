"""The results page: exponents beside the paper's orders, costs, and a plot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, graded, paragraphs

from .run import COSTS


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
        cells += [f"{getattr(order, cost)} → {expected}", f"**{_measured(exponents[cost])}**"]
    return cells


def _measured(found: dict[str, float]) -> str:
    return f"{found['exponent']:z.2f} ± {found['stderr']:z.2f} ({found['largest']:z.2f})".replace("-", "−")


def _costs(result: dict[str, Any], rows: int) -> list[list[str]]:
    found = {method: next(c for c in cells if c["rows"] == rows) for method, cells in result["costs"].items()}
    return [
        [
            order.title,
            _seconds(found[method]["training"]) + (" *" if method == "retrain" else ""),
            _bytes(found[method]["storage"]) + (" *" if method == "retrain" else ""),
            _seconds(found[method]["estimation"]),
        ]
        for method, order in ORDERS.items()
    ]


def _by_parameters(result: dict[str, Any]) -> list[list[str]]:
    exponents = result["exponents"]
    return [
        [order.title, "1", f"**{_measured(exponents[method]['storage_by_parameters'])}**"]
        for method, order in ORDERS.items()
    ]


def _seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.1f} s" if value < 600 else f"{value / 60:,.0f} min"


def _bytes(value: float) -> str:
    return f"{value / 1e3:.0f} kB" if value < 1e6 else f"{value / 1e6:.1f} MB"
