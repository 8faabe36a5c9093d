"""Commands that show a finished run or measure it: `report`, `serve`, `audit` and `evaluate`."""

import contextlib
import webbrowser
from dataclasses import replace
from typing import Annotated

import typer
from rich.panel import Panel
from rich.table import Table

from turnover.applications import leak_audit
from turnover.errors import ApplicationError, MissingExtraError, RunError
from turnover.evaluation import METRICS, Metric, View, find_method, installed_methods
from turnover.evaluation import Table as Measured
from turnover.runs import RunEvaluation, evaluate_run, known_wrong
from turnover.ui.words import count, duration, percent
from turnover.wrapping import AuditReport

from .annotate import Track, check_trackers, track
from .command import OnRay, RunPath, Terminal, check_unused, opened, resumable
from .drawing import numbers, plain, visible

_USUAL = RunEvaluation()


def report(
    terminal: Terminal,
    folder: RunPath,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    trackers: Track = None,
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    report.json beside it holds the same data. With --track, learning curves, accuracy, the share of likely label errors
    and the audit are logged to an experiment tracker, too.

    Example: turnover report runs/reviews --open
    """
    from turnover.ui.html import write_report

    check_trackers(trackers)
    run = opened(folder)
    with terminal.aside.status("writing the report"):
        page = write_report(run)
        track(run, trackers)
    if not terminal.as_json:
        terminal.words.print(f"Report: [bold]{page}[/bold]", soft_wrap=True)
    if show:
        with contextlib.suppress(webbrowser.Error):
            show = not webbrowser.get().open(page.resolve().as_uri())
        if show:
            raise RunError(
                f"there is no browser to open here (no display?). The report is written: copy {str(page)!r} to a "
                "machine with a browser and open it there, or read it over the network: turnover serve "
                f"{page.parent}"
            )
    # Last, so that where no browser opens the error is the only JSON.
    if terminal.as_json:
        terminal.result({"report": str(page), "data": str(page.with_suffix(".json"))})


def serve(
    terminal: Terminal,
    folder: RunPath,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine, visitors need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="TURNOVER_TOKEN", help="Token that visitors must send; generated where one is needed."),
    ] = None,
) -> None:
    """Serve a live page that explains predictions.

    Type a sentence or upload an image to see the prediction and the training rows behind it; mark wrong labels and
    download the corrected file. Ctrl-C stops it.

    Example: turnover serve runs/reviews --port 8080
    """
    run = opened(folder)
    from turnover.ui.web import open_server  # the web server is an extra, which the other commands do without

    for path in run.changed_data():
        changed = f"{visible(path)} changed since the run, which knows its former rows only."
        terminal.aside.print(changed, style="yellow")
    server = open_server(run, host=host, port=port, token=token)
    if terminal.as_json:
        terminal.result({"run": str(folder), "address": server.address})
    else:
        terminal.words.print(f"Open in a browser: [bold]{server.address}[/bold]   (Ctrl-C stops it)", soft_wrap=True)
    server.run()


def audit(terminal: Terminal, folder: RunPath) -> None:
    """Measure what leaks from a training row into its flipped subnetwork.

    The flipped subnetwork of a row must never learn it. What leaks there makes scores too small.

    Example: turnover audit runs/reviews
    """
    run = opened(folder)
    audited = leak_audit(run.model, run.train_data)
    if terminal.as_json:
        terminal.result(audited.to_dict())
    else:
        _print_audit(audited, terminal)


def _print_audit(report: AuditReport, terminal: Terminal) -> None:
    style = "green" if report.clean else "yellow"
    terminal.words.print(Panel(plain(report.verdict), border_style=style, title="Leak audit"))
    if report.leaks:
        shares = (numbers("share of elements"), numbers("share of gradient"))
        table = Table("parameter", "cause", *shares, "what to change", title="Leaks", title_justify="left")
        for leak in sorted(report.leaks, key=lambda leak: -(leak.gradient_share or 0.0)):
            shares = ("?" if share is None else percent(share) for share in (leak.share, leak.gradient_share))
            table.add_row(leak.name, leak.cause, *shares, leak.cure)
        terminal.words.print(table)
    parameters = f"{report.parameters:,} trainable parameters"
    terminal.words.print(f"Measured on {count(report.rows, 'training row')}, {parameters}.", style="dim")


def evaluate(
    terminal: Terminal,
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
) -> None:
    """Compare the scores of a run, and of other methods on its rows, with retraining.

    LDS (linear datamodeling score): rank correlation of summed scores with the losses of models trained on random
    halves of the rows; 1 is perfect, 0 is chance. Finished trainings are kept in RUN/evaluation. The defaults take
    minutes on a small run; more subsets give a narrower interval. Methods beside the run's own train the network
    without masks, by the settings of the run.

    Example: turnover evaluate runs/reviews --subsets 50 --method kronfluence-ekfac --method trak
    """
    run = opened(folder, ray)
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
        # Each once, in the order given.
        methods=tuple(dict.fromkeys(name for one in method or () for name in (_runnable() if one == "all" else [one]))),
    )
    known_wrong(run, evaluation)  # rejects what cannot be measured before anything is trained
    if evaluation.trainings:
        trainings, own = count(evaluation.trainings, "training"), duration(run.about.seconds["training"])
        terminal.aside.print(f"{trainings} of this run's network; that of the run took {own}.")
    with resumable("stopped. Finished trainings are kept; the same command resumes."):
        table = evaluate_run(run, evaluation, progress=terminal.aside.is_terminal)
    if terminal.as_json:
        terminal.result(table.to_dict())
    else:
        _print_evaluation(run.rows.name, table, evaluation, terminal)


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


def _runnable() -> list[str]:
    """Return the names of all methods whose packages are installed."""
    names: list[str] = []
    for name in installed_methods():
        with contextlib.suppress(MissingExtraError):
            find_method(name)
            names.append(name)
    return names


def _print_evaluation(name: str, table: Measured, evaluation: RunEvaluation, terminal: Terminal) -> None:
    rows, columns = table.rows, _columns(table)
    heads = (numbers(head) for head, _ in columns)
    drawn = Table("", *heads, title=plain(f"{name}: scores against retraining"), title_justify="left")
    for place, row in enumerate(rows):
        drawn.add_row(plain(row.method), *(cells[place] for _, cells in columns))
    if table.ceiling is not None and any(row.lds for row in rows):
        drawn.add_row("ceiling set by retraining noise", f"{table.ceiling.value:.3f}", style="dim")
    terminal.words.print(drawn)
    for row in rows:
        for metric, why in row.problems.items():
            terminal.words.print(plain(f"{row.method}, {metric}: {why}"), style="yellow")
    retrained = "without masks" if table.view == "plain" else "with masks, evaluated in full view"
    used = f"Networks were retrained {retrained}; the LDS uses {evaluation.subsets} random halves of the rows."
    terminal.words.print(used, style="dim")


def _columns(table: Measured) -> list[tuple[str, list[str]]]:
    """Return what was measured: head, and a cell per method."""
    rows, columns = table.rows, list[tuple[str, list[str]]]()
    if any(row.lds for row in rows):
        found = (row.lds for row in rows)
        cells = [f"{lds.value:.3f} [{lds.interval.low:.3f}, {lds.interval.high:.3f}]" if lds else "–" for lds in found]
        columns.append(("LDS [95 % interval]", cells))
    for name, by in (("mislabels_mean", "by mean influence"), ("mislabels_self", "by self-influence")):
        found = [getattr(row, name) for row in rows]
        if any(found):
            cells = [f"{percent(one.found, 0)} in the first {percent(one.share, 0)}" if one else "–" for one in found]
            columns.append((f"label errors found {by}", cells))
    cells = ["–" if row.seconds is None else duration(row.seconds) for row in rows]
    return [*columns, ("time to train and score", cells)]
