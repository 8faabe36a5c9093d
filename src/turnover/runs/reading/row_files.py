"""Writing rows to a file: tables in the format that the file's name asks for, whole or not at all."""

import csv
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from turnover.errors import DataFileError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
WRITABLE = (*_SEPARATORS, ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
"""Endings of the tables that can be written."""


def table_bytes(frame: "pd.DataFrame", ending: str) -> bytes:
    r"""Return a table as the content of a file.

    Args:
        frame: the table.
        ending: of the file's name, which says the format; see `WRITABLE`.

    Raises:
        DataFileError: no such format.

    Example:
        >>> import pandas as pd
        >>> table_bytes(pd.DataFrame({"text": ["a, b"], "label": [1]}), ".csv")
        b'text,label\n"a, b",1\n'
    """
    ending = ending.lower()
    if ending in _SEPARATORS:
        text = frame.to_csv(index=False, sep=_SEPARATORS[ending], quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
        return text.encode()
    if ending in (".jsonl", ".ndjson"):
        return (frame.to_json(orient="records", lines=True, force_ascii=False, date_format="iso") or "").encode()
    if ending == ".json":
        return (frame.to_json(orient="records", force_ascii=False, date_format="iso", indent=1) or "[]").encode()
    if ending in (".parquet", ".pq"):
        held = io.BytesIO()
        try:
            frame.to_parquet(held, index=False)
        except ImportError as error:
            raise MissingExtraError("writing parquet needs pyarrow: pip install pyarrow") from error
        return held.getvalue()
    raise DataFileError(f"a file ending with {ending!r} cannot be written. Give one of {', '.join(WRITABLE)}.")


def write_bytes_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        DataFileError: it cannot be written there.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise DataFileError(
            f"cannot write {str(file)!r}: {error.strerror or error}. Give another file: --out FILE."
        ) from error
