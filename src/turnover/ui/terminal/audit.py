"""`turnover audit`: does a training row reach the subnetwork that must never learn it?"""

from rich.panel import Panel
from rich.table import Table

from turnover.applications import leak_audit
from turnover.runs import open_run
from turnover.ui.words import count, percent
from turnover.wrapping import AuditReport

from .drawing import numbers, plain
from .options import AsJson, Debug, OnDevice, RunPath
from .terminal import Terminal


def audit(folder: RunPath, as_json: AsJson = False, device: OnDevice = None, debug: Debug = False) -> None:
    """Measure what leaks from a training row into its flipped subnetwork.

    The flipped subnetwork of a row must never learn it. What leaks there makes scores too small.

    Example: turnover audit runs/reviews
    """
    terminal = Terminal(as_json=as_json)
    run = open_run(folder)
    report = leak_audit(run.model, run.train_data)
    if as_json:
        terminal.result(report.to_dict())
    else:
        _print(report, terminal)


def _print(report: AuditReport, terminal: Terminal) -> None:
    terminal.words.print(
        Panel(plain(report.verdict), border_style="green" if report.clean else "yellow", title="Leak audit")
    )
    if report.leaks:
        shares = (numbers("share of elements"), numbers("share of gradient"))
        table = Table("parameter", "cause", *shares, "what to change", title="Leaks", title_justify="left")
        for leak in sorted(report.leaks, key=lambda leak: -(leak.gradient_share or 0.0)):
            shares = ("?" if share is None else percent(share) for share in (leak.share, leak.gradient_share))
            table.add_row(leak.name, leak.cause, *shares, leak.cure)
        terminal.words.print(table)
    parameters = f"{report.parameters:,} trainable parameters"
    terminal.words.print(f"Measured on {count(report.rows, 'training row')}, {parameters}.", style="dim")
