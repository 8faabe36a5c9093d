"""The arguments and options that commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, as turnover run made it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Where something fails, show the whole traceback.")]
