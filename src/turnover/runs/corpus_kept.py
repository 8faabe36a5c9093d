"""A text in a run folder, so that a run can be asked when its file is gone."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from turnover.errors import RunError

from .folder import RunFolder
from .reading.corpus import Corpus
from .token_data import Vocabulary

FILE = "corpus.json.gz"


def keep_corpus(corpus: Corpus, folder: Path) -> None:
    """Write a text into a folder, whole or not at all."""
    about = {
        "name": corpus.name,
        "notes": list(corpus.notes),
        "words": list(corpus.vocabulary.words),
        "splits": corpus.splits.tolist(),
        "lines": list(corpus.lines),
    }
    part = folder / f".{FILE}.part"
    with gzip.open(part, "wt", encoding="utf-8", compresslevel=3) as file:
        json.dump(about, file, ensure_ascii=False)
    part.replace(folder / FILE)


def open_corpus(folder: Path) -> Corpus:
    """Return the text of a folder."""
    try:
        with gzip.open(folder / FILE, "rt", encoding="utf-8") as file:
            about: dict[str, Any] = json.load(file)
        return Corpus(
            tuple(about["lines"]),
            np.array(about["splits"], np.int8),
            Vocabulary(tuple(about["words"])),
            about["name"],
            tuple(about["notes"]),
        )
    except (OSError, ValueError, KeyError, EOFError, zlib.error) as error:
        raise RunError(
            f"the text of {str(folder)!r} cannot be read ({type(error).__name__}: {error}): the folder is half written "
            f"or damaged. Run it again: {RunFolder(folder).again}"
        ) from error
