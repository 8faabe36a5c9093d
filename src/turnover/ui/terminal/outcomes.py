"""How commands end: 0 fine, 2 for what was given, 130 for Ctrl-C, 1 for what nobody foresaw; a sentence each."""

import functools
import os
import re
import shlex
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer

from turnover.errors import TurnOverError

from .terminal import print_json

_UNEXPECTED, _BAD_INPUT, _INTERRUPTED = 1, 2, 130
_COMMANDS = re.compile(r"(?:(?<=: )|(?<=, or ))turnover (?=[a-z]+ )")


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence that says how to go on."""


@contextmanager
def resumable(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end what is within with a sentence on what is kept; a function is asked when Ctrl-C comes."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Stopped(sentence if isinstance(sentence, str) else sentence()) from error


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that ends with a sentence and a code, whatever happens in it."""

    @functools.wraps(command)
    def guard(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _remark
                if device := kwargs.get("device"):
                    from turnover.layers import PREFERRED, preferred_device

                    # Worker processes inherit it.
                    os.environ[PREFERRED] = str(preferred_device(device))
                command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every end gets a sentence
            if kwargs.get("debug"):
                traceback.print_exc()
            code, sentence = _outcome(error)
            sentence = as_called(sentence)
            print(f"turnover: {sentence}", file=sys.stderr)
            if kwargs.get("as_json"):
                print_json({"error": sentence, "exit_code": code})
            raise typer.Exit(code) from None

    return guard


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


def as_called(sentence: str) -> str:
    """Return a sentence in which commands to type begin as this program was called; in prose it keeps its name."""
    return _COMMANDS.sub(lambda _: f"{own_name()} ", sentence)


def _remark(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as a remark, without the line of code that it comes from."""
    print(f"note: {message}", file=sys.stderr)
