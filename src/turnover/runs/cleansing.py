"""Cleansing the data of a run: which rows go and why; the data without them, in which what stays is copied as it is."""

import shlex
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnover.applications import (
    Cleansing,
    HarmfulExample,
    RetrainingCheck,
    check_by_retraining,
    cleanse,
    drop_amount,
)
from turnover.errors import ApplicationError, DataFileError
from turnover.influence import fingerprint_of
from turnover.storage import holds, write_atomically

from ._reading import is_saved
from .files import (
    JSON_LINES,
    PARQUET,
    WRITABLE,
    Table,
    as_format,
    need_pyarrow,
    read_table,
    rows_of_file,
    same_table,
    separated_bytes,
    table_bytes,
    text_encoding,
)
from .folder import check_apart
from .images import LABEL_FILES, arrays_without, images_named_by, npz_bytes
from .retraining import run_recipe
from .run import Run
from .table import Rows

REMOVED = "removed.csv"
_NO_TEST_ROWS = (
    "the retraining check needs test rows, which had no part in choosing, and this run has none. Run again with --test "
    "0.1."
)
_LINE_NAMES = ("row", "where", "label", "score", "stderr", "p_value", "significant", "reason")
_LINES = (".csv", ".tsv", ".tab", *JSON_LINES)


@dataclass(frozen=True)
class RemovedRow:
    """A row of the data that goes."""

    row: int
    name: str
    label: str | float | None
    why: HarmfulExample  # the scores of it, or of its group


@dataclass(frozen=True)
class CleanedFile:
    """A file or folder that was written, how many rows stayed, and a note for the user or ""."""

    path: Path
    rows: int
    note: str = ""


def check_cleansing_options(run: Run, *, drop: str, level: float, retrain: bool) -> None:
    """Raise, in words of the command line, where a run cannot be cleansed, before anything is computed or written."""
    try:
        drop_amount(drop, len(np.unique(run.train_data[2])))
    except ApplicationError as error:
        raise ApplicationError(f"--{error}") from error
    if not 0 < level < 1:
        raise ApplicationError(f"--level must be between 0 and 1, got {level:g}. Give one such as 0.05.")
    if retrain and not len(run.places("test")):
        raise ApplicationError(_NO_TEST_ROWS)


def run_cleansing(run: Run, *, drop: str = "1%", level: float = 0.05) -> Cleansing:
    """Return which training instances of a run harm its validation rows most."""
    return cleanse(
        run.influence_on_sets,
        run.mean_queries,
        drop=drop,
        level=level,
        mean=run.mean_influence,
        out_of_sample=run.out_of_sample,
        examples=run.examples,
    )


def check_cleansing(run: Run, cleansing: Cleansing, *, seeds: int, progress: bool = False) -> RetrainingCheck:
    """Return whether the plain network is better without the dropped rows, on the test rows of the run.

    Finished trainings are kept in the folder of the run.
    """
    test = run.data("test")
    if not len(test[1]):
        raise ApplicationError(_NO_TEST_ROWS)
    dropped = np.isin(run.train_data[2].numpy(), cleansing.dropped_ids)
    name = f"check-rows-{len(cleansing.dropped)}-{fingerprint_of([dropped, seeds])[:12]}"
    cache = run.folder.path / "evaluation" / name
    return check_by_retraining(run_recipe(run), dropped, test, seeds=seeds, cache=cache, progress=progress)


def removed_rows(run: Run, cleansing: Cleansing) -> list[RemovedRow]:
    """Return the rows of the data that go, the most harmful first; a group goes with all its training rows."""
    places = run.places("train")
    ids = run.ids[places]
    result: list[RemovedRow] = []
    for harmful in cleansing.dropped:
        for row in places[ids == harmful.id].tolist():
            result.append(RemovedRow(row, run.rows.names[int(row)], run.rows.label(row), harmful))
    return result


def cleaned_path(run: Run) -> Path:
    """Return where the cleaned data of a run goes when nobody said it."""
    return run.folder.path / f"cleaned{_ending_of(run.config.data, run.rows)}"


def check_overwrite(run: Run, out: Path, *, force: bool = False) -> None:
    """Raise where anything would be overwritten; with `force`, where that is data, a file of the run or of others."""
    if not out.name:  # ".", "/" or ""
        raise ApplicationError(f"--out must name a file or a new folder, got {str(out)!r}. Give another: --out FILE.")
    listed = out.with_name(REMOVED)
    run.check_apart(out, listed)
    there = [str(file) for file in (out, listed) if file.exists()]
    if there and not force:
        raise ApplicationError(
            f"{' and '.join(map(repr, there))} would be overwritten. Give another file, --out FILE, or --force."
        )
    _check_new_folder(out)
    header = ",".join(_LINE_NAMES).encode()
    if listed.exists() and not (listed.is_file() and listed.read_bytes()[: len(header)] == header):
        raise ApplicationError(
            f"{str(listed)!r} would be overwritten, which no cleansing wrote. Move it away, or give a file elsewhere: "
            "--out FILE."
        )


def write_cleansing(run: Run, removed: list[RemovedRow], out: Path, *, raw: bool = False) -> CleanedFile:
    """Write the data without the removed rows, and the list of these with reasons, removed.csv, next to it.

    Texts of that list that a spreadsheet would take for formulas begin with a quote, unless they are to be `raw`.
    """
    numbers = [row.row for row in removed]
    own = run.rows.records(numbers)
    # A column of the data may have the name of one of ours; the data's own goes by another then.
    names = [*_LINE_NAMES, *(f"data_{name}" if name in _LINE_NAMES else name for name in run.rows.data.column_names)]
    lines = [[*_line(row), *cells.values()] for row, cells in zip(removed, own, strict=True)]
    if not raw:
        names, lines = [_no_formula(name) for name in names], [[_no_formula(cell) for cell in line] for line in lines]
    with run.folder.lock(out, wait=True):
        written = write_cleaned(run.rows, run.config.data, numbers, out, digest=run.data_digest)
        _write_output(out.with_name(REMOVED), separated_bytes(names, lines))
    return written


def _no_formula(cell: Any) -> Any:
    """Return a cell that no spreadsheet computes; what is a number stays one."""
    if not isinstance(cell, str) or not cell.lstrip().startswith(("=", "+", "-", "@")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _line(row: RemovedRow) -> list[Any]:
    why = row.why
    return [row.row, row.name, row.label, why.score, why.stderr, why.p_value, why.significant, str(why)]


def _ending_of(source: str, rows: Rows) -> str:
    """Return the ending that a cleaned file should have; "" for a folder of images."""
    if rows.kind == "image":
        return "" if Path(source).is_dir() and not is_saved(Path(source)) else ".npz"
    ending = Path(source).suffix.lower()
    return ending if ending in WRITABLE else ".csv"


def write_cleaned(rows: Rows, source: str, removed: Collection[int], out: Path, *, digest: str | None) -> CleanedFile:
    """Write the data of a run without some of its rows.

    A file whose lines are rows keeps all other lines byte for byte. Where the file is gone or changed since, by its
    SHA-256 `digest`, the rows that the run kept are written.
    """
    if rows.kind == "image":
        return _images(rows, Path(source), removed, out, digest)
    if out.suffix.lower() not in WRITABLE:
        raise DataFileError(f"{str(out)!r} ends with none of {', '.join(WRITABLE)}. Give a file that does: --out FILE.")
    table = same_table(source, digest)
    if table is None:
        own = _stay(rows, removed)
        kept = rows.data.filter(need_pyarrow().array(own))
        _write_output(out, table_bytes(as_format(kept, source, out.suffix), out.suffix))
        note = f"{source!r} is gone or was changed since the run, so the rows that the run kept were written."
        return CleanedFile(out, int(own.sum()), note)
    gone = {rows.origin(row) for row in removed}
    stays = np.array([number not in gone for number in table.numbers.tolist()])
    _write_output(out, _shortened(Path(source), table, stays, out.suffix))
    return CleanedFile(out, int(stays.sum()))


def _stay(rows: Rows, removed: Collection[int]) -> np.ndarray:
    """Return which rows of the data itself stay, bool [rows]."""
    stay = rows.own.copy()
    stay[list(removed)] = False
    return stay


def _write_output(file: Path, content: bytes) -> None:
    """Write a file that the user named, whole or not at all."""
    try:
        write_atomically(file, content)
    except OSError as error:
        raise DataFileError(
            f"cannot write {str(file)!r}: {error.strerror or error}. Give another file: --out FILE."
        ) from error


def _shortened(path: Path, table: Table, stays: np.ndarray, ending: str) -> bytes:
    """Return a table without some rows; where its lines are rows and the format stays, all others are as they were."""
    ending = ending.lower()
    if path.suffix.lower() == ending and ending in _LINES and text_encoding(path) != "utf-16":
        return _without_lines(path.read_bytes(), table, stays)
    if _format(path.suffix) == _format(ending) in (".json", ".parquet"):
        return rows_of_file(path, stays)
    kept = table.data.filter(need_pyarrow().array(stays))
    return table_bytes(as_format(kept, str(path), ending), ending)


def _format(ending: str) -> str:
    return ".parquet" if ending.lower() in PARQUET else ending.lower()


def _without_lines(content: bytes, table: Table, stays: np.ndarray) -> bytes:
    """Return a file without some rows; a row goes from its first line up to that of the next."""
    lines = content.splitlines(keepends=True)
    starts = (table.numbers - 1).tolist()
    kept = np.ones(len(lines), bool)
    for start, end, stay in zip(starts, [*starts[1:], len(lines)], stays, strict=True):
        kept[start:end] = stay
    return b"".join(line for line, keep in zip(lines, kept, strict=True) if keep)


def _images(rows: Rows, source: Path, removed: Collection[int], out: Path, digest: str | None) -> CleanedFile:
    if source.is_dir() and not is_saved(source):
        if digest is not None and not holds(source, digest):
            raise DataFileError(
                f"{str(source)!r} changed since the run, so that its images may not be those that were judged. Put the "
                f"former ones back, or run again: turnover run {shlex.quote(str(source))} --out NEW"
            )
        return CleanedFile(out, _folder(rows, source, removed, out))
    gone = {rows.origin(row) for row in removed}
    own, note = _stay(rows, removed), ""
    if digest is not None and source.is_file() and holds(source, digest):
        arrays = arrays_without(source, [int(number) - 1 for number in gone if number is not None])
    else:
        labels = np.array([rows.label_names[number] for number in rows.labels[own]])
        arrays = {"images": rows.values[own], "labels": labels}
        why = "a saved data set" if source.is_dir() else "gone or was changed since the run"
        note = f"{str(source)!r} is {why}, so the images were written as the run used them."
    _write_output(out, npz_bytes(arrays))
    return CleanedFile(out, int(own.sum()), note)


def _folder(rows: Rows, source: Path, removed: Collection[int], out: Path) -> int:
    """Copy a folder of images without some; return how many rows stay. A file of labels loses their lines, by number.

    An image goes when no line that stays names it.
    """
    check_apart(out, source)
    _check_new_folder(out)
    if out.exists():
        raise DataFileError(
            f"{str(out)!r} is a file, and a folder of images is to be written. Give another: --out DIR."
        )
    gone = {rows.origin(row) for row in removed}
    files = {source / name for name in gone if isinstance(name, str)}
    shortened: dict[str, bytes] = {}
    for labels in (source / name for name in LABEL_FILES if (source / name).is_file()):
        table = read_table(labels)
        named, images = images_named_by(table, source)
        if not shortened:  # the file that the run read; others follow it
            places = zip(table.numbers.tolist(), named, strict=True)
            stays = np.array([number not in gone and name not in gone for number, name in places])
            files = {image for image, stay in zip(images, stays, strict=True) if image is not None and not stay}
            files -= {image for image, stay in zip(images, stays, strict=True) if stay}
        else:
            stays = np.array([image not in files for image in images])
        shortened[labels.name] = _shortened(labels, table, stays, labels.suffix)
    try:
        _copy_folder(source, out, without=files, replaced=shortened)
    except OSError as error:
        raise DataFileError(
            f"cannot write {str(out)!r}: {error.strerror or error}. Give another: --out DIR."
        ) from error
    return int(_stay(rows, removed).sum())


def _copy_folder(source: Path, out: Path, *, without: Collection[Path], replaced: Mapping[str, bytes]) -> None:
    """Copy a folder without its hidden files and some others, to a folder that is there whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that it takes its place in one step.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.", suffix=".part") as held:
        new = Path(held) / "new"
        shutil.copytree(source, new, ignore=partial(_not_copied, without))
        for name, content in replaced.items():
            (new / name).write_bytes(content)
        new.replace(out)


def _check_new_folder(out: Path) -> None:
    if out.is_dir():
        raise DataFileError(
            f"{str(out)!r} is there already, and no cleansing replaces a folder. Move it away, or give a new one: "
            "--out DIR."
        )


def _not_copied(without: Collection[Path], folder: str, entries: list[str]) -> set[str]:
    """Return the entries of a folder that are not copied: hidden ones, and the images that go."""
    return {entry for entry in entries if entry.startswith(".") or Path(folder) / entry in without}
