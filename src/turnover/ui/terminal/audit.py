"""`turnover audit`: does a training row reach the part of the network that must never learn it?"""

from rich.panel import Panel
from rich.table import Table

import turnover
from turnover.runs import LmRun, open_any
from turnover.wrapping import AuditReport

from .options import AsJson, Debug, RunPath
from .phrases import count, percent, plain
from .terminal import Terminal

# Rows of the audit: each takes two backward passes.
_ROWS = 8


def audit(folder: RunPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Say what leaks from a training row into the part that must not know it.

    What leaks makes scores too small. A clean audit means that the flipped half really never learned the row.

    Example: turnover audit runs/reviews
    """
    terminal = Terminal(as_json=as_json)
    run = open_any(folder)
    model = run.models[0] if isinstance(run, LmRun) else run.model
    report = turnover.audit(model, tuple(part[:_ROWS] for part in run.train_data), rows=_ROWS)
    if as_json:
        terminal.result(report.to_dict())
    else:
        _print(report, terminal)


def _print(report: AuditReport, terminal: Terminal) -> None:
    terminal.words.print(
        Panel(plain(report.verdict), border_style="green" if report.clean else "yellow", title="Audit")
    )
    if report.leaks:
        table = Table(title="What leaks", title_justify="left")
        table.add_column("parameter")
        table.add_column("cause")
        table.add_column("elements", justify="right")
        table.add_column("gradient", justify="right")
        table.add_column("what to change")
        for leak in sorted(report.leaks, key=lambda leak: -(leak.gradient_share or 0.0)):
            shares = ("?" if share is None else percent(share) for share in (leak.share, leak.gradient_share))
            table.add_row(leak.name, leak.cause, *shares, leak.cure)
        terminal.words.print(table)
    measured = f"Measured on {count(report.rows, 'row')}, {report.parameters:,} trainable numbers."
    terminal.words.print(measured, style="dim")
