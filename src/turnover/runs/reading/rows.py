"""From what a user has to the rows of a run: which kind of data it is, and who reads it."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from turnover.errors import DataFileError
from turnover.runs._splits import copies_of, draw_rows
from turnover.runs.config import LANGUAGE_MODELS, RunConfig, Watch, unwatched
from turnover.runs.folder import check_regular
from turnover.runs.rows import SPLITS, Rows

from ._hub import could_be_name, is_saved, rows_of_hub
from ._table_rows import Part, rows_of_tables
from .arrays import rows_of_arrays
from .columns import BadRows, check_labels, check_numbers, check_scale, nearest
from .images import rows_of_folder
from .tables import TABLE_ENDINGS, read_table

_TEXT_ENDINGS = (".txt", ".text", ".tokens", ".raw")


def read_rows(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the rows of a run: texts, images or a table.

    What was detected and skipped stands in `Rows.notes`.
    """
    rows = _read(config, watch)
    trained = rows.fixed < 1
    notes = list(rows.notes)
    if rows.numeric:
        check_scale(rows.labels, column=rows.label_column, source=config.data)
        check_numbers(rows.labels[trained], column=rows.label_column, source=config.data)
    else:
        check_labels(rows.labels[trained], rows.label_names, column=rows.label_column, source=config.data)
        untrained = _untrained_labels(rows, trained, config).notes()
        notes += untrained
        if untrained:
            rows = _fewer(rows, np.flatnonzero(np.isin(rows.labels, rows.labels[trained])))
            trained = rows.fixed < 1
    if config.max_rows is not None and trained.sum() > config.max_rows:
        drawn = np.flatnonzero(trained)[draw_rows(rows.strata[0][trained], config.max_rows, seed=config.seed)]
        kinds = "labels" if rows.numeric else "classes"
        notes.append(f"{config.max_rows:,} of {int(trained.sum()):,} rows drawn at random, {kinds} in proportion.")
        rows = _fewer(rows, np.sort(np.concatenate([drawn, np.flatnonzero(~trained)])))
    return replace(rows, notes=(*notes, *_notes_on(rows)))


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
        return (rows_of_hub if is_saved(path) else rows_of_folder)(config, watch=watch)
    if not path.exists():
        if ending in (*TABLE_ENDINGS, ".npz") or not could_be_name(config.data):
            existing(config.data)
        return rows_of_hub(config, watch=watch)
    if ending == ".npz":
        return rows_of_arrays(config, watch=watch)
    if ending in TABLE_ENDINGS:
        if config.task == "image":
            raise DataFileError(
                f"{config.data!r} is a table. For images give their folder: a sub-folder for each class, or images and "
                "a labels.csv beside them."
            )
        parts = [Part(read_table(path, watch=watch))]
        for split, file in ((1, config.validation_data), (2, config.test_data)):
            if file is not None:
                parts.append(Part(read_table(existing(file), watch=watch), split))
        return rows_of_tables(parts, config, name=path.name)
    raise DataFileError(
        f"{config.data!r} has an ending that is not known, {ending or 'none'!r}. Known are "
        f"{', '.join(TABLE_ENDINGS)} for rows, .npz and folders for images. Rename the file to what it is."
    )


def existing(file: str) -> Path:
    """Return the path of a file or folder that is there."""
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
    bad = BadRows(
        "the validation or test data",
        config.skip_bad,
        cure="Correct or remove them, add training rows of that class",
    )
    bad.add([rows.names[place] for place in places.tolist()], f"with a label that no training row has, {labels},")
    return bad


def _fewer(rows: Rows, places: np.ndarray) -> Rows:
    """Return some of the rows, without classes that have none among them."""
    rows = rows.taken(places)
    if rows.numeric:
        return rows
    numbers, labels = np.unique(rows.labels, return_inverse=True)
    return replace(rows, labels=labels.reshape(-1), label_names=tuple(rows.label_names[number] for number in numbers))


def _notes_on(rows: Rows) -> list[str]:
    """Return notes on rows that repeat others and on classes with a single row."""
    notes = []
    copies = copies_of(rows)
    repeated = len(copies) - len(np.unique(copies))
    if repeated:
        pairs = np.unique(np.stack([copies, rows.labels]), axis=1)
        torn = int((np.bincount(pairs[0].astype(np.int64)) > 1).sum())
        among = f"; {torn:,} of what is repeated has different labels" if torn else ""
        repeat = "row repeats" if repeated == 1 else "rows repeat"
        notes.append(f"{repeated:,} {repeat} another one{among}. Copies stay in one split.")
    for split in (1, 2):
        both = int(np.isin(copies[rows.fixed == split], copies[rows.fixed < 1]).sum())
        if both:
            looks = "errors look smaller" if rows.numeric else "accuracy looks better"
            notes.append(f"{both:,} {SPLITS[split]} rows also stand among the training rows: {looks}.")
    if rows.numeric:
        return notes
    single = int((np.bincount(rows.labels, minlength=len(rows.label_names)) == 1).sum())
    if single:
        notes.append(f"{single} of {len(rows.label_names)} classes have a single row, which is trained on.")
    return notes
