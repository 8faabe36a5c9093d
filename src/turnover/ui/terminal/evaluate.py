"""`turnover evaluate`: the scores of a run against retraining."""

import contextlib
from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table as Drawn

from turnover.errors import ApplicationError, MissingExtraError
from turnover.evaluation import METRICS, Metric, Table, View, find_method, installed_methods
from turnover.runs import RunEvaluation, estimated_seconds, evaluate_run, known_wrong
from turnover.ui.words import count, duration, percent

from .drawing import plain
from .options import AsJson, Debug, OnDevice, OnRay, RunPath, check_unused, open_with_executor
from .outcomes import resumable
from .terminal import Terminal

_USUAL = RunEvaluation()


def evaluate(
    folder: RunPath,
    metrics: Annotated[
        str,
        typer.Option(metavar="METRICS", help="Metrics to compute: lds; with --truth also mislabels and self."),
    ] = ",".join(_USUAL.metrics),
    view: Annotated[
        View, typer.Option(help="Network to retrain: without masks, or with masks and evaluated in full view.")
    ] = _USUAL.view,
    queries: Annotated[int, typer.Option(min=1, help="Number of validation rows used as queries.")] = _USUAL.queries,
    subsets: Annotated[
        int | None,
        typer.Option(
            min=3, help="Number of random halves of the rows, two trainings each.", show_default=str(_USUAL.subsets)
        ),
    ] = None,
    truth: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of true labels, where known.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="Method of turnover-bench (pip install turnover-bench) to compare with, such as trak; give the option "
            "once for each. all: every one whose package is installed.",
        ),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = _USUAL.processes,
    ray: OnRay = None,
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
) -> None:
    """Compare the scores of a run, and of other methods on its rows, with retraining.

    LDS (linear datamodeling score): rank correlation of summed scores with the losses of models trained on random
    halves of the rows; 1 is perfect, 0 is chance. Finished trainings are kept in RUN/evaluation. The defaults take
    minutes on a small run; more subsets give a narrower interval. Methods beside the run's own train the network
    without masks, by the settings of the run.

    Example: turnover evaluate runs/reviews --subsets 50 --method kronfluence-ekfac --method trak
    """
    terminal = Terminal(as_json=as_json)
    run = open_with_executor(folder, ray=ray)
    chosen = _metrics(metrics, truth)
    if "lds" not in chosen:
        check_unused({"--subsets": subsets}, "only the metric lds trains on halves of the rows. Add it to --metrics.")
    if not {"mislabels", "self"} & set(chosen):
        why = f"only the metrics mislabels and self compare labels. Give --metrics {','.join((*chosen, 'mislabels'))}."
        check_unused({"--truth": truth}, why)
    evaluation = replace(
        _USUAL,
        metrics=chosen,
        view=view,
        queries=queries,
        subsets=subsets or _USUAL.subsets,
        truth=truth,
        processes=processes,
        methods=_methods(method or []),
    )
    known_wrong(run, evaluation)  # rejects what cannot be measured before anything is trained
    if evaluation.trainings:
        foretold = duration(estimated_seconds(run, evaluation))
        terminal.aside.print(f"{count(evaluation.trainings, 'training')} of this run's network, about {foretold}.")
    with resumable("stopped. Finished trainings are kept; the same command resumes."):
        table = evaluate_run(run, evaluation, progress=terminal.aside.is_terminal)
    if as_json:
        terminal.result(table.to_dict())
    else:
        _print(run.rows.name, table, evaluation, terminal)


def _metrics(given: str, truth: str | None) -> tuple[Metric, ...]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise ApplicationError(
            f"--metrics must be some of {', '.join(METRICS)}, separated by commas; got "
            f"{', '.join(map(repr, unknown)) or repr(given)}."
        )
    if truth is None and any(name in ("mislabels", "self") for name in names):
        raise ApplicationError("the metrics mislabels and self need the column of true labels: --truth COLUMN.")
    return tuple(metric for metric in METRICS if metric in names)


def _methods(given: list[str]) -> tuple[str, ...]:
    """Return names of methods, each once, in the order given."""
    names = dict.fromkeys(given)
    return tuple(dict.fromkeys(name for one in names for name in (_runnable() if one == "all" else [one])))


def _runnable() -> list[str]:
    """Return the names of all methods whose packages are installed."""
    names = []
    for name in installed_methods():
        with contextlib.suppress(MissingExtraError):
            find_method(name)
            names.append(name)
    return names


def _print(name: str, table: Table, evaluation: RunEvaluation, terminal: Terminal) -> None:
    words = terminal.words
    drawn = Drawn(title=plain(f"{name}: scores against retraining"), title_justify="left")
    drawn.add_column("")
    columns = _columns(table)
    for head, _, _ in columns:
        drawn.add_column(head, justify="right")
    for place, row in enumerate(table.rows):
        drawn.add_row(plain(row.method), *(cells[place] for _, cells, _ in columns))
    for place, reference in enumerate(reference for _, _, reference in columns):
        if reference is not None:
            name, value = reference
            drawn.add_row(name, *("" if other != place else value for other in range(len(columns))), style="dim")
    words.print(drawn)
    for row in table.rows:
        for metric, why in row.problems.items():
            words.print(plain(f"{row.method}, {metric}: {why}"), style="yellow")
    retrained = "without masks" if table.view == "plain" else "with masks, evaluated in full view"
    words.print(
        f"Networks were retrained {retrained}; the LDS uses {evaluation.subsets} random halves of the rows.",
        style="dim",
    )


_Column = tuple[str, list[str], tuple[str, str] | None]


def _columns(table: Table) -> list[_Column]:
    """Return what was measured: head, a cell per method, and what to compare it with."""
    rows, columns = table.rows, list[_Column]()
    if any(row.lds for row in rows):
        cells = [
            "–" if one is None else f"{one.value:.3f} [{one.interval.low:.3f}, {one.interval.high:.3f}]"
            for one in (row.lds for row in rows)
        ]
        ceiling = table.ceiling
        reference = None if ceiling is None else ("ceiling set by retraining noise", f"{ceiling.value:.3f}")
        columns.append(("LDS [95 % interval]", cells, reference))
    for name, by in (("mislabels_mean", "by mean influence"), ("mislabels_self", "by self-influence")):
        detections = [getattr(row, name) for row in rows]
        if any(detections):
            cells = [
                "–" if one is None else f"{percent(one.found, 0)} in the first {percent(one.share, 0)}"
                for one in detections
            ]
            columns.append((f"label errors found {by}", cells, None))
    cells = ["–" if row.seconds is None else duration(row.seconds) for row in rows]
    columns.append(("time to train and score", cells, None))
    return columns
