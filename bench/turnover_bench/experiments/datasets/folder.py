"""Where the data sets are, and what to do if they are not there."""

import csv
import os
from pathlib import Path

from turnover.errors import TurnOverError

from .hub import FILES, from_hub


class MissingDataError(TurnOverError, FileNotFoundError):
    """A data set is not in the data folder; the message says where to get it."""


def data_folder() -> Path:
    """Return the folder of all data sets: the variable TURNOVER_DATA, or ./data.

    Example:
        >>> data_folder().name != ""
        True
    """
    return Path(os.environ.get("TURNOVER_DATA") or "data")


def data_file(name: str, *, source: str) -> Path:
    """Return the path of a data file, such as "sst2/train.tsv"; with TURNOVER_HUB=1 it is made of the hub's first.

    Where it is missing, a MissingDataError says by `source` where to get it and in which form.
    """
    path = data_folder() / name
    if not path.is_file() and not from_hub(name, path):
        loaded = " With a network it is loaded from the hub: export TURNOVER_HUB=1." if name in FILES else ""
        raise MissingDataError(
            f"there is no file {path}. {source} Put it there, or point to the folder that has {name}: "
            f"export TURNOVER_DATA=/path/to/data.{loaded}"
        )
    return path


def read_tsv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a tab-separated file with a header, by column; quotes are text like any other."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    short = [number for number, row in enumerate(rows, start=2) if None in row or None in row.values()]
    if short:
        raise MissingDataError(
            f"{path} has {len(short)} lines with more or fewer columns than its header, the first is line {short[0]}. "
            "Give one row a line, with tabs between the columns and none within."
        )
    return rows
