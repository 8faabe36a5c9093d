"""The page that shows the help of every command: `python -m turnover.cli.help_page > docs/commands.md`."""

import os
from collections.abc import Iterator

_WIDTH = "100"

_HEAD = """\
# Commands

What every command says when it is asked for help. This page is made by `python -m turnover.cli.help_page`.

Every command has `--json` (the result as JSON on standard output, and nothing else there) and `--debug` (the traceback
of an error). Words and progress go to standard error where JSON is wanted.

| exit code | |
| --- | --- |
| 0 | it is done |
| 1 | something went wrong that should not have; `--debug` shows where |
| 2 | what was given cannot be used; the sentence on standard error says what to do |
| 130 | stopped by Ctrl-C; the sentence says how to go on |

`turnover --install-completion` teaches your shell to complete commands and options.
"""


def help_page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    from typer.testing import CliRunner

    from .app import make_app

    app = make_app()
    names = ["", *(command.name or "" for command in app.registered_commands)]
    # A fixed width and no colours: the page must not depend on who makes it.
    width = {"COLUMNS": _WIDTH, "LINES": "50", "NO_COLOR": "1", "TERM": "xterm"}
    for name in names:
        shown = CliRunner().invoke(app, [*name.split(), "--help"], env={**os.environ, **width}, prog_name="turnover")
        text = "\n".join(line.rstrip() for line in shown.output.strip("\n").splitlines()).strip("\n")
        yield f"## turnover {name}".rstrip() + f"\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    print(help_page(), end="")
