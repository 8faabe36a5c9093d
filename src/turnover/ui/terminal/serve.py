"""`turnover serve`: a live page on which a run can be queried."""

from typing import Annotated

import typer

from turnover.runs import open_run

from .drawing import visible
from .options import AsJson, Debug, OnDevice, RunPath
from .terminal import Terminal


def serve(
    folder: RunPath,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine, visitors need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="TURNOVER_TOKEN", help="Token that visitors must send; generated where one is needed."),
    ] = None,
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
) -> None:
    """Serve a live page that explains predictions.

    Type a sentence or upload an image to see the prediction and the training rows behind it; mark wrong labels and
    download the corrected file. Ctrl-C stops it.

    Example: turnover serve runs/reviews --port 8080
    """
    terminal = Terminal(as_json=as_json)
    run = open_run(folder)
    # The web server is an extra of its own, which the other commands do without.
    from turnover.ui.web import open_server

    for path in run.changed_data():
        terminal.aside.print(
            f"{visible(path)} changed since the run, which knows its former rows only.", style="yellow"
        )
    server = open_server(run, host=host, port=port, token=token)
    if as_json:
        terminal.result({"run": str(folder), "address": server.address})
    else:
        terminal.words.print(f"Open in a browser: [bold]{server.address}[/bold]   (Ctrl-C stops it)", soft_wrap=True)
    server.run()
