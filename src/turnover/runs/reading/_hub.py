"""Data sets of the Hugging Face hub as rows: texts, tables or images, with the splits they come with."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnover.errors import DataFileError
from turnover.integrations import HubData, load_hub_data
from turnover.runs.config import RunConfig, Watch, unwatched
from turnover.runs.rows import SPLITS, TO_BE_SPLIT, Rows

from ._table_rows import Part, rows_of_tables
from .columns import choose_label, label_text
from .images import SPLIT_NAMES, Images, rows_of_images
from .tables import Table, counted_from_1, values_of

if TYPE_CHECKING:
    import pandas as pd

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]+)?")


def could_be_name(where: str) -> bool:
    """Tell whether this could name a data set on the hub."""
    return _NAME.fullmatch(where) is not None


def is_saved(folder: Path) -> bool:
    """Tell whether a folder was written by `save_to_disk` of the package datasets."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    )


def rows_of_hub(config: RunConfig, *, watch: Watch = unwatched) -> Rows:
    """Return the rows of a data set by its name on the hub, or from a folder of `save_to_disk`.

    Splits that it comes with are kept: train, validation and test; others are skipped, and so are splits
    without labels.
    """
    if config.validation_data or config.test_data:
        raise DataFileError(
            f"{config.data!r} is a data set of the hub, which brings its own splits. Omit --validation-data and "
            "--test-data, or give files for all of them."
        )
    data = load_hub_data(config.data)
    frames, notes = _by_split(data, config)
    name = config.data.rstrip("/").rsplit("/", 1)[-1]
    possible = config.task in (None, "image", "classification") and config.text is None and not config.columns
    as_images = data.images and possible
    if as_images:
        rows = rows_of_images(_images(frames, data.images[0], config), config, name=name, watch=watch)
    else:
        plain = {split: frame.drop(columns=list(data.images)) for split, frame in frames.items()}
        parts = [Part(_table(frame, split, config), split) for split, frame in plain.items()]
        rows = rows_of_tables(parts, config, name=name)
    return replace(rows, notes=(*notes, *rows.notes))


def _by_split(data: HubData, config: RunConfig) -> "tuple[dict[int, pd.DataFrame], list[str]]":
    """Return a table for each split that has labels, training first; one split alone is still to be split."""
    known = {SPLIT_NAMES[name]: frame for name, frame in data.frames.items() if name in SPLIT_NAMES}
    others = [name for name in data.frames if name not in SPLIT_NAMES]
    if 0 not in known:
        if len(data.frames) > 1:
            raise DataFileError(
                f"{config.data!r} has the splits {', '.join(map(repr, data.frames))} and none called 'train'. Save the "
                "one you want: dataset['NAME'].save_to_disk(folder), and give that folder."
            )
        return {TO_BE_SPLIT: next(iter(data.frames.values()))}, []
    notes = [f"Splits skipped: {', '.join(map(repr, others))}."] if others else []
    label = choose_label(_table(known[0], 0, config), config)
    for split, name in ((1, "validation"), (2, "test")):
        if split in known and (label not in known[split] or bool(known[split][label].isna().all())):
            del known[split]
            notes.append(f"The {name} split has no labels and is skipped.")
    if len(known) == 1:
        return {TO_BE_SPLIT: known[0]}, notes
    # What the data set does not come with is taken from its training rows.
    train = TO_BE_SPLIT if len(known) < 3 else 0
    return {train: known.pop(0), **dict(sorted(known.items()))}, notes


def _table(frame: "pd.DataFrame", split: int, config: RunConfig) -> Table:
    # Names of rows of later parts begin with the last word of the source.
    source = f"{config.data}/{SPLITS[split]}" if split > 0 else config.data
    return Table(frame, counted_from_1(frame), source)


def _images(frames: "dict[int, pd.DataFrame]", column: str, config: RunConfig) -> Images:
    import pandas as pd

    label = choose_label(_table(next(iter(frames.values())), 0, config), config)
    places = [(split, place) for split, frame in frames.items() for place in range(1, len(frame) + 1)]
    joined = pd.concat(list(frames.values()), ignore_index=True)
    return Images(
        [_file(encoded) for encoded in values_of(joined, column)],
        [f"{SPLITS[split]} row {place}" if split > 0 else f"row {place}" for split, place in places],
        [place if split <= 0 else None for split, place in places],
        [label_text(value) for value in values_of(joined, label)],
        [split for split, _ in places],
        {name: values_of(joined, name) for name in joined.columns if name != column},
        label,
    )


def _file(encoded: Any) -> Path | io.BytesIO:
    if isinstance(encoded, dict) and encoded.get("bytes") is not None:
        return io.BytesIO(encoded["bytes"])
    return Path(str(encoded.get("path")) if isinstance(encoded, dict) else str(encoded))
