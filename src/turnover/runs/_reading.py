"""From what a user has to the rows of a run: which kind of data it is, who reads it, and notes on the rows."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.errors import DataFileError
from turnover.integrations import HubData, load_hub_data

from ._splits import copies_of, draw_rows
from .columns import BadRows, check_labels, check_numbers, choose_label, label_text, nearest, rows_of_tables
from .config import LANGUAGE_MODELS, RunConfig, Watch, unwatched
from .files import TABLE_ENDINGS, Table, need_pyarrow, read_table
from .folder import check_regular
from .images import SPLIT_NAMES, Images, rows_of_arrays, rows_of_folder, rows_of_images
from .table import SPLITS, TO_BE_SPLIT, Rows

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT_ENDINGS = (".txt", ".text", ".tokens", ".raw")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]+)?")


def read_rows(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the rows of a run: texts, images or a table.

    What was detected and skipped stands in `Rows.notes`.
    """
    rows = _read(config, watch)
    trained = rows.splits < 1
    notes = list(rows.notes)
    if rows.numeric:
        check_numbers(rows.labels, trained, column=rows.label_column, source=config.data)
    else:
        check_labels(rows.labels[trained], rows.label_names, column=rows.label_column, source=config.data)
        if untrained := _untrained_labels(rows, trained, config).notes():
            notes += untrained
            rows = rows.taken(np.flatnonzero(np.isin(rows.labels, rows.labels[trained])))
            trained = rows.splits < 1
    if config.max_rows is not None and trained.sum() > config.max_rows:
        drawn = np.flatnonzero(trained)[draw_rows(rows.strata[0][trained], config.max_rows, seed=config.seed)]
        kinds = "labels" if rows.numeric else "classes"
        notes.append(f"{config.max_rows:,} of {int(trained.sum()):,} rows drawn at random, {kinds} in proportion.")
        rows = rows.taken(np.sort(np.concatenate([drawn, np.flatnonzero(~trained)])))
    copies = copies_of(rows)
    return replace(rows, notes=(*notes, *_notes_on(rows, copies)), copies=copies)


def _read(config: RunConfig, watch: Watch) -> Rows:
    path = Path(config.data)
    ending = path.suffix.lower()
    check_regular(path)
    if ending in _TEXT_ENDINGS:
        raise DataFileError(f"{config.data!r} {LANGUAGE_MODELS}")
    if config.task == "regression" and (ending == ".npz" or (path.is_dir() and not is_saved(path))):
        raise DataFileError(
            f"{config.data!r} holds images, whose labels are learned as classes. A regression learns from a table or "
            "from texts: give a csv, tsv, jsonl, json or parquet file with a column of numbers: --label NAME."
        )
    if path.is_dir():
        return (_rows_of_hub if is_saved(path) else rows_of_folder)(config, watch=watch)
    if not path.exists():
        if ending in (*TABLE_ENDINGS, ".npz") or not _HUB_NAME.fullmatch(config.data):
            _existing(config.data)
        return _rows_of_hub(config, watch=watch)
    if ending == ".npz":
        return rows_of_arrays(config, watch=watch)
    if ending not in TABLE_ENDINGS:
        raise DataFileError(
            f"{config.data!r} has an ending that is not known, {ending or 'none'!r}. Known are "
            f"{', '.join(TABLE_ENDINGS)} for rows, .npz and folders for images. Rename the file to what it is."
        )
    if config.task == "image":
        raise DataFileError(
            f"{config.data!r} is a table. For images give their folder: a sub-folder for each class, or images and a "
            "labels.csv beside them."
        )
    files = [(TO_BE_SPLIT, path), *((split, _existing(file)) for split, file in config.split_files)]
    tables = [read_table(file, watch=watch) for _, file in files]
    return rows_of_tables(tables, [split for split, _ in files], config, name=path.name)


def _existing(file: str) -> Path:
    """Return the path of a file or folder that is there; raise and name the nearest."""
    path = Path(file)
    if path.exists():
        check_regular(path)
        return path
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = nearest(path.name, beside)
    suggestion = f" Did you mean {str(path.parent / near)!r}?" if near else ""
    folder = "" if path.parent.is_dir() else f" There is no folder {str(path.parent)!r} either."
    raise DataFileError(f"there is no file {file!r}.{suggestion}{folder}")


def _untrained_labels(rows: Rows, trained: np.ndarray, config: RunConfig) -> BadRows:
    """Return the rows of classes that stand in validation or test files only: nothing could predict them."""
    untrained = np.setdiff1d(rows.labels[~trained], rows.labels[trained])
    places = np.flatnonzero(np.isin(rows.labels, untrained))
    labels = ", ".join(repr(rows.label_names[number]) for number in untrained[:5])
    cure = "Correct or remove them, add training rows of that class"
    bad = BadRows("the validation or test data", config.skip_bad, cure=cure)
    bad.add([rows.names[place] for place in places.tolist()], f"with a label that no training row has, {labels},")
    return bad


def _notes_on(rows: Rows, copies: np.ndarray) -> list[str]:
    """Return notes on rows that repeat others and on classes with a single row."""
    notes = []
    repeated = len(copies) - len(np.unique(copies))
    if repeated:
        pairs = np.unique(np.stack([copies, rows.labels]), axis=1)
        torn = int((np.bincount(pairs[0].astype(np.int64)) > 1).sum())
        among = f"; {torn:,} of what is repeated has different labels" if torn else ""
        repeat = "row repeats" if repeated == 1 else "rows repeat"
        notes.append(f"{repeated:,} {repeat} another one{among}. Copies stay in one split.")
    for split in (1, 2):
        both = int(np.isin(copies[rows.splits == split], copies[rows.splits < 1]).sum())
        if both:
            looks = "errors look smaller" if rows.numeric else "accuracy looks better"
            notes.append(f"{both:,} {SPLITS[split]} rows also stand among the training rows: {looks}.")
    if rows.numeric:
        return notes
    single = int((np.bincount(rows.labels, minlength=len(rows.label_names)) == 1).sum())
    if single:
        notes.append(f"{single} of {len(rows.label_names)} classes have a single row, which is trained on.")
    return notes


# Data sets of the Hugging Face hub: texts, tables or images, with the splits they come with


def is_saved(folder: Path) -> bool:
    """Tell whether a folder was written by `save_to_disk` of the package datasets."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    )


def _rows_of_hub(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the rows of a data set by its name on the hub, or from a folder of `save_to_disk`.

    Splits that it comes with are kept: train, validation and test; others are skipped, and so are splits without
    labels.
    """
    if config.split_files:
        raise DataFileError(
            f"{config.data!r} is a data set of the hub, which brings its own splits. Omit --validation-data and "
            "--test-data, or give files for all of them."
        )
    data = load_hub_data(config.data)
    tables, notes = _by_split(data, config)
    name = config.data.rstrip("/").rsplit("/", 1)[-1]
    possible = config.task in (None, "image", "classification") and config.text is None and not config.columns
    if data.images and possible:
        rows = rows_of_images(_hub_images(tables, data.images[0], config), config, name=name, watch=watch)
    else:
        plain = [replace(table, data=table.data.drop_columns(list(data.images))) for table in tables.values()]
        rows = rows_of_tables(plain, list(tables), config, name=name)
    return replace(rows, notes=(*notes, *rows.notes))


def _by_split(data: HubData, config: RunConfig) -> tuple[dict[int, Table], list[str]]:
    """Return a table for each split that has labels, training first; one split alone is still to be split."""
    pa = need_pyarrow()

    def table(split: int, data: "pa.Table") -> Table:
        # Names of rows of later parts begin with the last word of the source.
        return Table.of(data, f"{config.data}/{SPLITS[split]}" if split > 0 else config.data)

    held = {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in data.frames.items()}
    known = {SPLIT_NAMES[name]: data for name, data in held.items() if name in SPLIT_NAMES}
    if 0 not in known:
        if len(held) > 1:
            raise DataFileError(
                f"{config.data!r} has the splits {', '.join(map(repr, held))} and none called 'train'. Save the one "
                "you want: dataset['NAME'].save_to_disk(folder), and give that folder."
            )
        return {TO_BE_SPLIT: table(0, next(iter(held.values())))}, []
    others = [name for name in held if name not in SPLIT_NAMES]
    notes = [f"Splits skipped: {', '.join(map(repr, others))}."] if others else []
    label = choose_label(table(0, known[0]), config)
    for split in (1, 2):
        columns = known[split].column_names if split in known else [label]
        if split in known and (label not in columns or known[split].column(label).null_count == len(known[split])):
            del known[split]
            notes.append(f"The {SPLITS[split]} split has no labels and is skipped.")
    # What the data set does not come with is taken from its training rows.
    train = TO_BE_SPLIT if len(known) < len(SPLITS) else 0
    ordered = {train: known.pop(0), **dict(sorted(known.items()))}
    return {split: table(split, data) for split, data in ordered.items()}, notes


def _hub_images(tables: dict[int, Table], column: str, config: RunConfig) -> Images:
    label = choose_label(next(iter(tables.values())), config)
    places = [(split, place) for split, table in tables.items() for place in range(1, len(table.numbers) + 1)]
    names = next(iter(tables.values())).columns
    columns: dict[str, list[Any]] = {
        name: [cell for table in tables.values() for cell in table.data.column(name).to_pylist()] for name in names
    }
    return Images(
        [_hub_file(encoded) for encoded in columns.pop(column)],
        [f"{SPLITS[split]} row {place}" if split > 0 else f"row {place}" for split, place in places],
        [place if split <= 0 else None for split, place in places],
        [label_text(value) for value in columns[label]],
        [split for split, _ in places],
        columns,
        label,
    )


def _hub_file(encoded: Any) -> Path | io.BytesIO:
    if isinstance(encoded, dict) and encoded.get("bytes") is not None:
        return io.BytesIO(encoded["bytes"])
    return Path(str(encoded.get("path")) if isinstance(encoded, dict) else str(encoded))
