"""The page that shows the help of every command: `python -m turnover.ui.terminal.help_page > docs/commands.md`."""

import os
from collections.abc import Iterator

_WIDTH = "100"

_HEAD = """\
# Commands

What every command says when it is asked for help. This page is made by `python -m turnover.ui.terminal.help_page`.

Every command has `--json` (the result as JSON on standard output, and nothing else there) and `--debug` (the traceback
of an error). Words and progress go to standard error where JSON is wanted.

| exit code | |
| --- | --- |
| 0 | it is done |
| 1 | something went wrong that should not have; `--debug` shows where |
| 2 | what was given cannot be used; the sentence on standard error says what to do |
| 130 | stopped by Ctrl-C; the sentence says how to go on |

`turnover --install-completion` teaches your shell to complete commands and options.

## What counts as bad data

`turnover run` reads all of the data before it makes a folder. What cannot be learned from is refused with exit code 2,
a count, the first lines or files concerned, and what to do; nothing is written. `--skip-bad` leaves such rows out,
notes it in the report, and is kept in `config.toml`, so that a replay does the same.

| what | without `--skip-bad` | with it |
| --- | --- | --- |
| a text that is empty, NaN or only spaces | refused | left out |
| a label that is empty or NaN | refused | left out |
| an image that cannot be opened | refused | left out; refused where half of them are |
| an image in an npz file with NaN or infinite pixels | refused | left out |
| a label of validation or test data that no training row has | refused | left out |
| an empty, NaN or infinite cell of a table's columns | learned from, with a note | the same |
| an empty cell of the column of `--group` | a group of its own, with a note | the same |
| a few words in a column of numbers | taken as categories, with a note | the same |
| no text or no label in any row; lines with too many or too few columns; another encoding | refused | refused |

Missing cells are ordinary in tables, so they are no bad rows: a missing number becomes the mean of the training rows, a
missing category none of the known ones, and the model is told of either by a switch of its own. In a question
(`turnover explain --query`) a word in a column of numbers is refused: counted as missing it would answer another one.
"""


def help_page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    from typer.testing import CliRunner

    from .app import make_app

    app = make_app()
    names = ["", *(command.name or "" for command in app.registered_commands)]
    # A fixed width and no colors: the page must not depend on who makes it.
    width = {"COLUMNS": _WIDTH, "LINES": "50", "NO_COLOR": "1", "TERM": "xterm"}
    for name in names:
        shown = CliRunner().invoke(app, [*name.split(), "--help"], env={**os.environ, **width}, prog_name="turnover")
        text = "\n".join(line.rstrip() for line in shown.output.strip("\n").splitlines()).strip("\n")
        yield f"## turnover {name}".rstrip() + f"\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    print(help_page(), end="")
