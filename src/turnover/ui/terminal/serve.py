"""`turnover serve`: a live page on which a run can be asked."""

from typing import Annotated

import typer

from .opened import open_classifier
from .options import AsJson, Debug, RunPath
from .terminal import Terminal


def serve(
    folder: RunPath,
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TURNOVER_TOKEN", help="What visitors must know; made up where it is needed and not given."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Ask a run on a live page.

    Type a sentence or upload an image, see the prediction and the training rows behind it; mark rows as wrong and
    download the corrected file. Ctrl-C ends it.

    Example: turnover serve runs/reviews --port 8080
    """
    terminal = Terminal(as_json=as_json)
    run = open_classifier(folder)
    # The web server is an extra of its own, which the other commands do without.
    from turnover.ui.web.serving import open_server

    server = open_server(run, host=host, port=port, token=token)
    if as_json:
        terminal.result({"run": str(folder), "address": server.address})
    else:
        terminal.words.print(f"Ask the run here: [bold]{server.address}[/bold]   (Ctrl-C ends it)", soft_wrap=True)
    server.run()
