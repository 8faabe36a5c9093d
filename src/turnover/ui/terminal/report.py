"""`turnover report`: one HTML file with everything a run found."""

from typing import Annotated

import typer

from turnover.runs import open_any

from .browser import open_page
from .options import AsJson, Debug, RunPath
from .terminal import Terminal


def report(
    folder: RunPath,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    report.json beside it holds the same data.

    Example: turnover report runs/reviews --open
    """
    from turnover.ui.html.files import write_report

    terminal = Terminal(as_json=as_json)
    run = open_any(folder)
    with terminal.aside.status("writing the report"):
        page = write_report(run)
    if not as_json:
        terminal.words.print(f"The report: [bold]{page}[/bold]", soft_wrap=True)
    if show:
        open_page(page)
    # Last, so that where no browser opens the error is the only JSON.
    if as_json:
        terminal.result({"report": str(page), "data": str(page.with_suffix(".json"))})
