"""Rows in a run folder: everything that was read, so that a run can be asked when its file is gone."""

import gzip
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from turnover.errors import RunError

from .folder import RunFolder
from .rows import Rows

_ROWS, _IMAGES, _ABOUT = "rows.jsonl.gz", "images.npz", "rows.json"
FILES = (_ROWS, _IMAGES, _ABOUT)


def keep_rows(rows: Rows, folder: Path) -> None:
    """Write rows into a folder; rows.json comes last, so that half of it is never taken for all."""
    import pandas as pd

    values: list[Any] = [None] * len(rows)
    if rows.kind == "text":
        values = list(rows.values)
    elif rows.kind == "table":
        values = _records(rows.values)
    else:
        np.savez_compressed(folder / _IMAGES, images=rows.values)
    assert isinstance(rows.frame, pd.DataFrame)
    with gzip.open(folder / _ROWS, "wt", encoding="utf-8", compresslevel=3) as file:
        for place, (value, row) in enumerate(zip(values, _records(rows.frame), strict=True)):
            line = {"name": rows.names[place], "label": int(rows.labels[place]), "value": value, "row": row}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    about = {
        "kind": rows.kind,
        "rows": len(rows),
        "name": rows.name,
        "label_column": rows.label_column,
        "label_names": list(rows.label_names),
        "columns": [str(name) for name in rows.frame.columns],
        "fixed": rows.fixed.tolist(),
        "groups": list(rows.groups),
        "notes": list(rows.notes),
    }
    (folder / _ABOUT).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")


def are_kept(folder: Path) -> bool:
    """Tell whether a folder has all of its rows."""
    return (folder / _ABOUT).is_file()


def open_rows(folder: Path) -> Rows:
    """Return the rows of a folder."""
    import pandas as pd

    try:
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        with gzip.open(folder / _ROWS, "rt", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        if len(lines) != about["rows"]:
            raise ValueError(f"{len(lines)} of {about['rows']} rows")
        values: Any = [line["value"] for line in lines]
        if about["kind"] == "image":
            with (folder / _IMAGES).open("rb") as opened, np.load(opened) as kept:
                values = kept["images"]
        elif about["kind"] == "table":
            values = pd.DataFrame(values)
        return Rows(
            about["kind"],
            pd.DataFrame([line["row"] for line in lines], columns=about["columns"]),
            values,
            np.array([line["label"] for line in lines], np.int64),
            tuple(about["label_names"]),
            about["label_column"],
            about["name"],
            tuple(line["name"] for line in lines),
            np.array(about["fixed"], np.int8),
            tuple(about["groups"]),
            tuple(about["notes"]),
        )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RunError(
            f"the rows of {str(folder)!r} cannot be read ({type(error).__name__}: {error}): the folder is half written "
            f"or damaged. Run it again: {RunFolder(folder).again}"
        ) from error


def _records(table: Any) -> list[dict[str, Any]]:
    """Return the lines of a table as JSON data; what is missing becomes None."""
    return json.loads(table.to_json(orient="records", force_ascii=False, date_format="iso"))
