"""`turnover report`: one HTML file with everything a run found."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from turnover.errors import RunError
from turnover.runs import open_run

from .options import AsJson, Debug, OnDevice, RunPath
from .terminal import Terminal
from .tracking import Track, check_trackers, track


def report(
    folder: RunPath,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    trackers: Track = None,
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    report.json beside it holds the same data. With --track, learning curves, accuracy, the share of likely label errors
    and the audit are logged to an experiment tracker, too.

    Example: turnover report runs/reviews --open
    """
    from turnover.ui.html import write_report

    terminal = Terminal(as_json=as_json)
    check_trackers(trackers)
    run = open_run(folder)
    with terminal.aside.status("writing the report"):
        page = write_report(run)
        track(run, trackers)
    if not as_json:
        terminal.words.print(f"Report: [bold]{page}[/bold]", soft_wrap=True)
    if show:
        _open_page(page)
    # Last, so that where no browser opens the error is the only JSON.
    if as_json:
        terminal.result({"report": str(page), "data": str(page.with_suffix(".json"))})


def _open_page(page: Path) -> None:
    """Open a file in the user's browser."""
    address = page.resolve().as_uri()
    try:
        opened = webbrowser.get().open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        raise RunError(
            f"there is no browser to open here (no display?). The report is written: copy {str(page)!r} to a machine "
            f"with a browser and open it there, or read it over the network: turnover serve {page.parent}"
        )
