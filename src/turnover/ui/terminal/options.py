"""The arguments and options that commands share, and the run that they name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from turnover.errors import ApplicationError
from turnover.influence import Executor
from turnover.runs import Run, open_run

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, as made by turnover run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, to standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

OnRay = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Address of a Ray cluster that computes scores: HOST:6379, or auto."),
]

OnDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        show_default="$TURNOVER_DEVICE, else auto",
        help="Where to compute: auto, cpu, cuda, cuda:1 or mps. auto: an accelerator where there is one.",
    ),
]


def check_unused(options: Mapping[str, object], why: str) -> None:
    """Raise where options were given that would do nothing; None and False stand for options that were not."""
    if unused := [name for name, value in options.items() if value is not None and value is not False]:
        raise ApplicationError(f"{' and '.join(unused)} would do nothing: {why}")


def executor_at(address: str | None) -> Executor | None:
    """Return who computes scores: a Ray cluster where its address was given, else this process."""
    if address is None:
        return None
    from turnover.integrations import RayExecutor

    return RayExecutor(address)


def open_with_executor(folder: Path, *, ray: str | None = None) -> Run:
    """Return a finished run."""
    return open_run(folder, executor=executor_at(ray))
