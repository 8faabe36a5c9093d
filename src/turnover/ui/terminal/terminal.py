"""Where a command prints: results to standard output, progress and remarks to standard error; JSON where asked for."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from turnover.applications import plain

from .progress import Bars


class Terminal:
    """What a command prints to: `words` for people, `aside` for progress; with JSON, standard output is kept free."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.aside = Console(stderr=True, highlight=False)
        self.words = self.aside if as_json else Console(highlight=False)

    def bars(self) -> Bars:
        """Return a bar for a function that takes a watch; it shows only while someone looks."""
        return Bars(self.aside)

    def warn(self, sentence: str) -> None:
        """Print what to know before the rest is read; nothing for an empty sentence."""
        if sentence:
            self.words.print(Text(sentence, style="bold yellow"))
            self.words.print()

    def result(self, data: Mapping[str, Any]) -> None:
        """Print the result as JSON."""
        print_json(data)


def print_json(data: Mapping[str, Any]) -> None:
    """Print data as JSON on standard output; NaN and infinities become null, for JSON has neither."""
    content = plain(data)
    text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
    # A terminal or pipe that cannot hold every character gets escapes, not an error.
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(content, indent=2, allow_nan=False)
    print(text)
