"""`turnover evaluate`: are the scores of a run true? Retraining tells."""

from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table as Drawn

from turnover.errors import ApplicationError
from turnover.evaluation import METRICS, Metric, Table, View
from turnover.runs import RunEvaluation, evaluate_run, foretold_seconds, known_wrong

from .opened import open_classifier
from .options import AsJson, Debug, RunPath
from .outcomes import resumable
from .phrases import count, duration, percent, plain
from .terminal import Terminal

_USUAL = RunEvaluation()


def evaluate(
    folder: RunPath,
    metrics: Annotated[
        str, typer.Option(help="Some of lds, brittleness, loo; with --truth also mislabels and self.")
    ] = ",".join(_USUAL.metrics),
    view: Annotated[
        View, typer.Option(help="Retrain the plain network, or the masked one and ask it in full view.")
    ] = _USUAL.view,
    queries: Annotated[int, typer.Option(min=1, help="Validation rows to ask about.")] = _USUAL.queries,
    subsets: Annotated[int, typer.Option(min=3, help="Random halves of the rows to train on, twice each.")] = (
        _USUAL.subsets
    ),
    truth: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of true labels, where they are known.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Worker processes.")] = _USUAL.processes,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check the scores of a run against retraining.

    Do they say what really happens without the rows? LDS: rank correlation of added-up scores with the losses of models
    trained on random halves of the rows; 1 is perfect, 0 is chance. Brittleness: how many predictions change when
    their most helpful rows are removed. Finished trainings are kept in RUN/evaluation. The defaults take minutes on a
    small run; more subsets tell it more exactly.

    Example: turnover evaluate runs/reviews --subsets 50
    """
    terminal = Terminal(as_json=as_json)
    run = open_classifier(folder)
    chosen = _metrics(metrics, truth)
    what = replace(
        _USUAL, metrics=chosen, view=view, queries=queries, subsets=subsets, truth=truth, processes=processes
    )
    known_wrong(run, what)  # what cannot be measured is refused before anything is trained
    if what.trainings:
        foretold = duration(foretold_seconds(run, what))
        terminal.aside.print(f"{count(what.trainings, 'training')} of this run's network, about {foretold}.")
    with resumable("stopped. Finished trainings are kept; the same command goes on from there."):
        table = evaluate_run(run, what, progress=terminal.aside.is_terminal)
    if as_json:
        terminal.result(table.to_dict())
    else:
        _print(table, what, terminal)


def _metrics(given: str, truth: str | None) -> tuple[Metric, ...]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    possible: list[Metric] = [metric for metric in METRICS if metric != "agreement"]
    unknown = [name for name in names if name not in possible]
    if unknown or not names:
        raise ApplicationError(
            f"--metrics {given!r}: there is no metric {', '.join(map(repr, unknown)) or 'in it'}. Give some of "
            f"{', '.join(possible)}, separated by commas."
        )
    if truth is None and any(name in ("mislabels", "self") for name in names):
        raise ApplicationError("to count wrong labels that were found, name the column of true ones: --truth COLUMN.")
    return tuple(metric for metric in possible if metric in names)


def _print(table: Table, what: RunEvaluation, terminal: Terminal) -> None:
    words = terminal.words
    drawn = Drawn(title=plain(f"{table.task}: scores against retraining"), title_justify="left")
    drawn.add_column("")
    for row in table.rows:
        drawn.add_column(row.method, justify="right")
    drawn.add_column("to compare with", style="dim")
    lds = [row.lds for row in table.rows]
    if any(lds):
        ceiling = table.ceiling
        drawn.add_row(
            "LDS (1 perfect, 0 chance)",
            *(
                "–" if one is None else f"{one.value:.3f} [{one.interval.low:.3f}, {one.interval.high:.3f}]"
                for one in lds
            ),
            "" if ceiling is None else f"{ceiling.value:.3f}: what retraining noise allows",
        )
    if any(row.loo for row in table.rows):
        drawn.add_row(
            "leave-one-out, rank correlation",
            *("–" if row.loo is None else f"{row.loo.spearman.mean:.3f}" for row in table.rows),
            "0: chance",
        )
    for name, said in (("mislabels_mean", "by mean influence"), ("mislabels_self", "by self-influence")):
        found = [getattr(row, name) for row in table.rows]
        if any(found):
            cells = (
                "–" if one is None else f"{percent(one.found, digits=0)} in the first {one.share:.0%}" for one in found
            )
            drawn.add_row(f"wrong labels found {said}", *cells, "")
    for k, chance in (table.random_brittleness or {}).items():
        cells = ("–" if row.brittleness is None else percent(row.brittleness[k], digits=0) for row in table.rows)
        drawn.add_row(f"predictions changed without {k} rows", *cells, f"{chance:.0%}: random rows")
    words.print(drawn)
    for row in table.rows:
        for metric, why in row.problems.items():
            words.print(plain(f"{row.method}, {metric}: {why}"), style="yellow")
    retrained = "the plain network" if table.view == "plain" else "the masked network, asked in full view"
    words.print(f"Retrained: {retrained}. Halves of the rows for the LDS: {what.subsets}.", style="dim")
