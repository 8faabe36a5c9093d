"""The data of a run without some rows, in the format it came in: what stays is copied as it stands."""

import io
import os
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from turnover.errors import DataFileError

from .reading.arrays import split_of
from .reading.encoding import text_encoding
from .reading.files import read_table
from .reading.images import LABEL_FILES
from .reading.row_files import WRITABLE, table_bytes, write_bytes_whole
from .reading.same_table import same_table
from .rows import Rows

_LINES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class CleanedFile:
    """What was written.

    Attributes:
        path: of the file or folder.
        rows: that stayed.
        note: what the user should know, or "".
    """

    path: Path
    rows: int
    note: str = ""


def ending_of(source: str, rows: Rows) -> str:
    """Return the ending that a cleaned file should have; "" for a folder of images."""
    if rows.kind == "image":
        return "" if Path(source).is_dir() else ".npz"
    ending = Path(source).suffix.lower()
    return ending if ending in WRITABLE else ".csv"


def write_cleaned(rows: Rows, source: str, removed: Collection[int], out: Path) -> CleanedFile:
    """Write the data of a run without some of its rows.

    A file whose lines are rows keeps all other lines byte for byte. Where the file is gone or changed since, the rows
    that the run kept are written.

    Args:
        rows: of the run.
        source: file or folder that they were read from.
        removed: numbers of the rows to leave out.
        out: file or folder to write; the ending says the format of a table.

    Raises:
        DataFileError: it cannot be written, or not in this format.
    """
    if rows.kind == "image":
        return _images(rows, Path(source), removed, out)
    if out.suffix.lower() not in WRITABLE:
        raise DataFileError(f"{str(out)!r} ends with none of {', '.join(WRITABLE)}. Give a file that does: --out FILE.")
    table = same_table(rows, source, removed)
    if table is None:
        # Rows of a file of validation or test rows have a split that is fixed, and are no part of the data itself.
        own = np.ones(len(rows), bool) if not len(rows.fixed) else rows.fixed <= 0
        own[list(removed)] = False
        write_bytes_whole(out, table_bytes(rows.frame.loc[own], out.suffix))
        note = f"{source!r} is gone or was changed since the run, so the rows that the run kept were written."
        return CleanedFile(out, int(own.sum()), note)
    names = {rows.names[row] for row in removed}
    stays = np.array([name not in names for name in table.names])
    ending = Path(source).suffix.lower()
    if ending == out.suffix.lower() and ending in _LINES and text_encoding(Path(source)) != "utf-16":
        content = _without_lines(Path(source).read_bytes(), table.names, stays)
    else:
        content = table_bytes(table.frame.loc[stays], out.suffix)
    write_bytes_whole(out, content)
    return CleanedFile(out, int(stays.sum()))


def _without_lines(content: bytes, names: list[str], stays: np.ndarray) -> bytes:
    """Return a file without some rows; a row goes from its first line up to that of the next."""
    lines = content.splitlines(keepends=True)
    starts = [int(name.removeprefix("line ")) - 1 for name in names]
    kept = np.ones(len(lines), bool)
    for start, end, stay in zip(starts, [*starts[1:], len(lines)], stays, strict=True):
        kept[start:end] = stay
    return b"".join(line for line, keep in zip(lines, kept, strict=True) if keep)


def _images(rows: Rows, source: Path, removed: Collection[int], out: Path) -> CleanedFile:
    names = {rows.names[row] for row in removed}
    if source.is_dir():
        return _folder(source, names, rows, out)
    own = np.ones(len(rows), bool) if not len(rows.fixed) else rows.fixed <= 0
    own[list(removed)] = False
    held = io.BytesIO()
    arrays = _same_arrays(source, names)
    if arrays is not None:
        np.savez_compressed(held, **arrays)  # pyright: ignore[reportArgumentType]
        write_bytes_whole(out, held.getvalue())
        return CleanedFile(out, int(own.sum()))
    labels = np.array([rows.label_names[number] for number in rows.labels[own]])
    np.savez_compressed(held, images=rows.values[own], labels=labels)
    write_bytes_whole(out, held.getvalue())
    note = f"{str(source)!r} is gone or was changed since the run, so the images were written as the run used them."
    return CleanedFile(out, int(own.sum()), note)


def _same_arrays(source: Path, names: set[str]) -> dict[str, np.ndarray] | None:
    """Return the arrays of an npz file without some training images; None: it is gone, or is another."""
    try:
        with np.load(source, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError):
        return None
    # "train 7" and "image 7" are the seventh row of the training images.
    gone = [int(name.rsplit(" ", 1)[1]) - 1 for name in names]
    trained = {name: len(array) for name, array in arrays.items() if array.ndim and split_of(name) <= 0}
    # Images and labels have one length; names of the classes have another.
    rows, count = Counter(trained.values()).most_common(1)[0] if trained else (0, 0)
    if count < 2 or rows <= max(gone, default=0):
        return None
    ours = [name for name, length in trained.items() if length == rows]
    return {name: np.delete(array, gone, axis=0) if name in ours else array for name, array in arrays.items()}


def _folder(source: Path, names: set[str], rows: Rows, out: Path) -> CleanedFile:
    """Copy a folder of images without some; a file of labels loses their lines."""
    if out.exists() and not out.is_dir():
        raise DataFileError(
            f"{str(out)!r} is a file, and a folder of images is to be written. Give another: --out DIR."
        )
    if source.resolve() in (out.resolve(), *out.resolve().parents):
        raise DataFileError(f"{str(out)!r} lies within the images themselves. Give a folder elsewhere: --out DIR.")
    # Beside the target, so that it takes its place in one step.
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, part, ignore=partial(_left_out, source, names))
        for labels in (part / name for name in LABEL_FILES):
            if labels.is_file():
                _shorten(labels, names)
        if out.exists():
            shutil.rmtree(out)
        part.replace(out)
    except OSError as error:
        raise DataFileError(
            f"cannot write {str(out)!r}: {error.strerror or error}. Give another: --out DIR."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    own = int((rows.fixed <= 0).sum()) if len(rows.fixed) else len(rows)
    return CleanedFile(out, own - len(names))


def _left_out(source: Path, names: set[str], folder: str, entries: list[str]) -> set[str]:
    """Return the entries of a folder that are not copied: hidden ones, and the images that go."""
    below = Path(folder).relative_to(source)
    relative = {entry: (below / entry).as_posix() for entry in entries}
    return {
        entry
        for entry, path in relative.items()
        if entry.startswith(".") or path in names or str(Path(path).with_suffix("")) in names
    }


def _shorten(labels: Path, names: set[str]) -> None:
    """Take the lines of some images out of a file of labels."""
    table = read_table(labels)
    stays = np.array([not any(str(cell) in names for cell in row) for row in table.frame.itertuples(index=False)])
    if labels.suffix.lower() in _LINES:
        labels.write_bytes(_without_lines(labels.read_bytes(), table.names, stays))
    else:
        labels.write_bytes(table_bytes(table.frame.loc[stays], labels.suffix))
