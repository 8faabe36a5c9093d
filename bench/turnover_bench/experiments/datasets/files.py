"""Data files: the folder of all data sets, and files made of data sets on the Hugging Face hub.

Nothing is loaded unless the variable TURNOVER_HUB says so: "1" means the hub itself, a folder means data sets that
`datasets.load_dataset(NAME).save_to_disk(FOLDER/NAME)` wrote there, for machines without a network.
"""

import csv
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.errors import TurnOverError
from turnover.integrations import load_hub_data

if TYPE_CHECKING:
    import pandas as pd

Write = Callable[[Mapping[str, "pd.DataFrame"], Path], None]

_SENTIMENT = ("negative", "positive")
HUB_TOPICS = (
    "Society & Culture",
    "Science & Mathematics",
    "Health",
    "Education & Reference",
    "Computers & Internet",
    "Sports",
    "Business & Finance",
    "Entertainment & Music",
    "Family & Relationships",
    "Politics & Government",
)
_MOST_QUESTIONS = 20_000


@dataclass(frozen=True)
class HubFile:
    """How a file is made.

    Attributes:
        name: of the data set on the hub, a subset after a colon.
        write: gets its tables by split and the file.
    """

    name: str
    write: Write


def hub_asked() -> str | None:
    """Return what TURNOVER_HUB says; None: data sets are not to be loaded from the hub."""
    said = os.environ.get("TURNOVER_HUB", "").strip()
    return None if said in ("", "0") else said


def from_hub(name: str, path: Path) -> bool:
    """Make a data file, such as "sst2/train.tsv", of a data set on the hub; return whether it can be made."""
    asked, known = hub_asked(), FILES.get(name)
    if asked is None or known is None:
        return False
    tables = load_hub_data(known.name if asked == "1" else str(Path(asked) / known.name.replace(":", "/"))).frames
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when whole: another experiment may look for the same file.
    part = path.with_name(f".{os.getpid()}.{path.name}")
    known.write(tables, part)
    part.replace(path)
    return True


def _lines(split: str, columns: Mapping[str, Callable[[Any], object]], *, most: int | None = None) -> Write:
    """Return a writer of tab-separated lines: columns by name, each made of a row."""

    def write(tables: Mapping[str, "pd.DataFrame"], file: Path) -> None:
        table = tables[split]
        rows = [[make(row) for make in columns.values()] for _, row in table.iloc[:most].iterrows()]
        # White space within a text would be taken for the end of a column or of a row.
        texts = ["\t".join(" ".join(str(value).split()) for value in row) for row in rows]
        file.write_text("\n".join(["\t".join(columns), *texts]) + "\n", encoding="utf-8")

    return write


def _class(column: str, names: tuple[str, ...]) -> Callable[[Any], int]:
    return lambda row: names.index(row[column]) if isinstance(row[column], str) else int(row[column])


def _text(split: str) -> Write:
    """Return a writer of running text."""

    def write(tables: Mapping[str, "pd.DataFrame"], file: Path) -> None:
        file.write_text("".join(f"{line.rstrip()} \n" for line in tables[split]["text"]), encoding="utf-8")

    return write


def _pixels(tables: Mapping[str, "pd.DataFrame"], file: Path) -> None:
    """Write images and class numbers of both splits, in their order."""
    from PIL import Image

    from .images import CLASSES

    arrays = {}
    for split in ("train", "test"):
        table = tables[split]
        arrays[f"x_{split}"] = np.stack([np.asarray(Image.open(io.BytesIO(one["bytes"]))) for one in table["img"]])
        arrays[f"y_{split}"] = np.array([CLASSES.index(label) for label in table["label"]], np.int64)
    with file.open("wb") as out:
        np.savez_compressed(out, **arrays)


def _sst2(split: str) -> HubFile:
    columns = {"sentence": lambda row: row["sentence"], "label": _class("label", _SENTIMENT)}
    return HubFile("stanfordnlp/sst2", _lines(split, columns))


def _mnli(split: str) -> HubFile:
    columns = {name: lambda row, name=name: row[name] for name in ("premise", "hypothesis", "label")}
    return HubFile("nyu-mll/multi_nli", _lines(split, columns))


def _question(row: Any) -> str:
    return " ".join(str(row[part]) for part in ("question_title", "question_content", "best_answer") if row[part])


FILES = {
    "sst2/train.tsv": _sst2("train"),
    "sst2/dev.tsv": _sst2("validation"),
    # The test of GLUE has no labels; this copy does.
    "sst2/test.tsv": HubFile(
        "SetFit/sst2", _lines("test", {"sentence": lambda row: row["text"], "label": _class("label", _SENTIMENT)})
    ),
    "mnli/train.tsv": _mnli("train"),
    "mnli/validation.tsv": _mnli("validation_matched"),
    "yahoo-answers/yahoo_answers.tsv": HubFile(
        "community-datasets/yahoo_answers_topics",
        _lines("train", {"label": _class("topic", HUB_TOPICS), "text": _question}, most=_MOST_QUESTIONS),
    ),
    "wikitext-2/train.txt": HubFile("Salesforce/wikitext:wikitext-2-v1", _text("train")),
    "wikitext-2/valid.txt": HubFile("Salesforce/wikitext:wikitext-2-v1", _text("validation")),
    "wikitext-2/test.txt": HubFile("Salesforce/wikitext:wikitext-2-v1", _text("test")),
    "cifar10/cifar10_12k.npz": HubFile("uoft-cs/cifar10", _pixels),
}


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
