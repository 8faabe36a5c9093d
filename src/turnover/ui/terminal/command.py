"""What makes a function a command: the options that all have, where it prints, its bar, and how it ends."""

import functools
import inspect
import json
import os
import shlex
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from turnover.applications import plain
from turnover.errors import ApplicationError, TurnOverError
from turnover.influence import Executor
from turnover.layers import PREFERRED, preferred_device
from turnover.runs import Run, open_run

_UNEXPECTED, _BAD_INPUT, _INTERRUPTED = 1, 2, 130

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, as made by turnover run.")]
OnRay = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Address of a Ray cluster that computes scores: HOST:6379, or auto."),
]
# Every command has these.
_AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else, to standard output.")
]
_OnDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        show_default="$TURNOVER_DEVICE, else auto",
        help="Where to compute: auto, cpu, cuda, cuda:1 or mps. auto: an accelerator where there is one.",
    ),
]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
_COMMON = (("as_json", _AsJson, False), ("device", _OnDevice, None), ("debug", _Debug, False))


class Terminal:
    """What a command prints to: `words` for people, `aside` for progress; with JSON, standard output is kept free."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.aside = Console(stderr=True, highlight=False)
        self.words = self.aside if as_json else Console(highlight=False)

    def warn(self, sentence: str) -> None:
        """Print what to know before the rest is read; nothing for an empty sentence."""
        if sentence:
            self.words.print(Text(sentence, style="bold yellow"))
            self.words.print()

    def result(self, data: Mapping[str, Any]) -> None:
        """Print data as JSON on standard output; NaN and infinities become null, for JSON has neither."""
        # A terminal or pipe that cannot hold every character gets escapes, not an error.
        as_ascii = (sys.stdout.encoding or "ascii").lower() not in ("utf-8", "utf8")
        print(json.dumps(plain(data), ensure_ascii=as_ascii, indent=2, allow_nan=False))


class Bars:
    """A watch that draws one bar on a terminal, with the time left of the stage under way; nothing elsewhere."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("", visible=False, note="")
        self._stage = ""

    def __enter__(self) -> "Bars":
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take the bar away."""
        if not self._progress.disable:  # rich 13 and 14 would print an empty line
            self._progress.stop()

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        if stage != self._stage:
            self._stage = stage
            # What an earlier process did counts as done, and tells nothing of how long the rest takes.
            self._progress.reset(self._bar, completed=done)
        note = escape(f"{done:,}/{total:,}  {note}".strip() if total > 1 else note)
        self._progress.update(
            self._bar, description=escape(stage), completed=done, total=total, note=note, visible=True
        )


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function of a `Terminal` and options as a command, which ends with a sentence and a code."""

    @functools.wraps(function)
    def called(*args: Any, as_json: bool = False, device: str | None = None, debug: bool = False, **given: Any) -> None:
        terminal = Terminal(as_json=as_json)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
                if device:  # worker processes inherit it
                    os.environ[PREFERRED] = str(preferred_device(device))
                function(terminal, *args, **given)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every end gets a sentence
            if debug:
                traceback.print_exc()
            code, sentence = _outcome(error)
            print(f"turnover: {sentence}", file=sys.stderr)
            if as_json:
                terminal.result({"error": sentence, "exit_code": code})
            raise typer.Exit(code) from None

    # Typer reads the options of a command from its signature.
    _, *own = inspect.signature(function).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    common = [inspect.Parameter(name, kind, default=default, annotation=of) for name, of, default in _COMMON]
    setattr(called, "__signature__", inspect.Signature([*own, *common]))  # noqa: B010
    return called


def _outcome(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error and the sentence that a user reads."""
    if isinstance(error, TurnOverError):
        return _BAD_INPUT, str(error)
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED, str(error) or "stopped. The same command starts again."
    if isinstance(error, MemoryError):
        return _UNEXPECTED, "not enough memory. Use fewer rows: turnover run ... --max-rows 100000"
    return _UNEXPECTED, (
        f"unexpected error: {type(error).__name__}: {error}. The same command with --debug shows the traceback."
    )


@contextmanager
def resumable(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end what is within with a sentence on what is kept; a function is asked when Ctrl-C comes."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(sentence if isinstance(sentence, str) else sentence()) from error


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


def opened(folder: Path, ray: str | None = None) -> Run:
    """Return a finished run."""
    return open_run(folder, executor=executor_at(ray))


def own_name() -> str:
    """Return what to type for `turnover` here: the name where the shell finds it by that, else its path.

    In a clone that nobody activated, `make demo` calls `.venv/bin/turnover`, and the bare name would not be found.
    """
    called = Path(sys.argv[0])
    if called.stem != "turnover" or not called.is_file():
        return "turnover"
    on_path = shutil.which("turnover")
    if on_path is not None and Path(on_path).samefile(called):
        return "turnover"
    # Not resolved: in a .venv the path itself says which environment is meant.
    path, here = Path(os.path.abspath(called)), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
