"""How commands end: 0 fine, 2 for what was given, 130 for Ctrl-C, 1 for what nobody foresaw; a sentence each."""

import functools
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from turnover.errors import TurnOverError

from .own_name import as_called
from .terminal import print_json

UNEXPECTED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a sentence that says how to go on."""


@contextmanager
def resumable(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end what is within with a sentence.

    Args:
        sentence: what is kept and how to go on; a function is asked when Ctrl-C comes.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise Stopped(sentence if isinstance(sentence, str) else sentence()) from error


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that ends with a sentence and a code, whatever happens in it.

    Args:
        command: takes `as_json` and `debug` by name.
    """

    @functools.wraps(command)
    def guard(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _remark
                command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every end gets a sentence
            if kwargs.get("debug"):
                traceback.print_exc()
            code, sentence = outcome(error)
            sentence = as_called(sentence)
            print(f"turnover: {sentence}", file=sys.stderr)
            if kwargs.get("as_json"):
                print_json({"error": sentence, "exit_code": code})
            raise typer.Exit(code) from None

    return guard


def outcome(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error and the sentence that a user reads."""
    if isinstance(error, TurnOverError):
        return BAD_INPUT, str(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, str(error) or "stopped. The same command starts it again."
    if isinstance(error, MemoryError):
        return UNEXPECTED, "there is not enough memory for this. Take fewer rows: turnover run ... --max-rows 100000"
    return UNEXPECTED, (
        f"something went wrong that should not have: {type(error).__name__}: {error}. The same command with --debug "
        "shows where."
    )


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
