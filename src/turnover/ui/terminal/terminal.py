"""Where words go: results to standard output, or all words to standard error where the result is JSON."""

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from .bars import Bars


class Terminal:
    """What a command prints to.

    Args:
        as_json: standard output is kept free for the result as JSON.

    Attributes:
        as_json: whether the result is wanted as JSON.
        words: for everything that a person reads: standard output, or standard error where JSON goes there.
        aside: for progress and remarks: always standard error.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.aside = Console(stderr=True, highlight=False)
        self.words = self.aside if as_json else Console(highlight=False)

    def bars(self, *, advice: str = "") -> Bars:
        """Return bars for a function that takes a watch; they show only while someone looks.

        Args:
            advice: what to do where something takes long.
        """
        return Bars(self.aside, advice=advice)

    def result(self, data: Mapping[str, Any]) -> None:
        """Print the result as JSON."""
        print_json(data)


def print_json(data: Mapping[str, Any]) -> None:
    """Print data as JSON on standard output; what is no number becomes null, for JSON knows no NaN."""
    text = json.dumps(_without_nan(data), ensure_ascii=False, indent=2, allow_nan=False)
    # A terminal or pipe that cannot hold every character gets escapes, not an error.
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = json.dumps(_without_nan(data), indent=2, allow_nan=False)
    print(text)


def _without_nan(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(name): _without_nan(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
