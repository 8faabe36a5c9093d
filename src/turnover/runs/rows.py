"""The rows of a run: what was read, in one form for texts, images and tables, and how a run folder keeps it.

A million rows are held as columns (Arrow's, where pyarrow is installed) and packed texts, and become Python objects
some thousand at a time.
"""

import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from turnover.errors import DataFileError
from turnover.ids import near_names
from turnover.storage import atomic_file, check_unpacked, open_arrays

from ._packed import PackedNumbers, PackedTexts
from ._pixel_scales import PixelScale, fit_scales, in_bytes, note_on
from .folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
TO_BE_SPLIT = -1
"""In `Rows.fixed`: no file assigned the row to a split."""

_ROWS, _IMAGES, _ABOUT = "rows.jsonl.gz", "images.npz", "rows.json"
# Numbers are split in proportion by bands of about equally many rows.
_BANDS, _ROWS_OF_A_BAND = 10, 20
# Rows that are Python objects at a time.
_AT_ONCE = 10_000
_DIGITS = 20  # int() rejects thousands of them


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their file. The number of a row is its instance id, unless rows have groups."""

    kind: Literal["text", "image", "table"]
    frame: "pd.DataFrame"  # all columns as they were read, one line per row; of images, their names and labels
    values: Any  # what is learned from: texts, uint8 pixels [rows, height, width, channels], or the columns of a table
    labels: np.ndarray  # class numbers [rows], -1 where a row has no label; or float64, numbers to be learned
    label_names: tuple[str, ...]  # of the classes; empty: labels are numbers
    label_column: str
    name: str
    names: Sequence[str]  # what to call a row: its line, or the file of an image
    # Where a row stands in the data: the number of its first line (of images, in their file of labels), of its row or
    # image from 1, or the file of an image; None for rows of other files, of validation or test rows.
    origins: Sequence[int | str | None]
    fixed: np.ndarray  # split of each row as index into SPLITS, int8; TO_BE_SPLIT for rows that no file assigned
    groups: Sequence[str] = ()  # group of each row, or empty
    notes: tuple[str, ...] = ()
    # Until `with_bytes`: what the pixels of each image are [rows], where some are not bytes; `values` are numbers then.
    depths: np.ndarray | None = None
    scales: Mapping[str, PixelScale] = field(default_factory=dict)  # of pixels that were not bytes, by kind

    def __post_init__(self) -> None:
        """Pack texts and numbers; where an image stands may be a number or a name."""
        for name in ("names", "groups", *(["values"] if self.kind == "text" else [])):
            object.__setattr__(self, name, PackedTexts.of(getattr(self, name)))
        if self.kind != "image":
            object.__setattr__(self, "origins", PackedNumbers.of(self.origins))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @property
    def numeric(self) -> bool:
        """Tell whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    def label(self, row: int) -> str | float | None:
        """Return the label of a row: the name of its class, or its number; None: it has none."""
        if self.numeric:
            return float(self.labels[row])
        return self.label_names[self.labels[row]] if self.labels[row] >= 0 else None

    @property
    def strata(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return classes that splits keep in proportion, and their names: those of the labels, or bands of numbers."""
        if not self.numeric:
            return self.labels, self.label_names
        edges = np.quantile(self.labels, np.linspace(0, 1, min(_BANDS, max(len(self) // _ROWS_OF_A_BAND, 1)) + 1))
        bands = np.searchsorted(np.unique(edges[1:-1]), self.labels, side="right")
        numbers, bands = np.unique(bands, return_inverse=True)
        return bands.reshape(-1), tuple(f"band {number + 1}" for number in range(len(numbers)))

    @property
    def own(self) -> np.ndarray:
        """Return which rows stand in the data itself, bool [rows], not in a file of validation or test rows."""
        return self.fixed <= 0

    def number_of(self, given: str) -> int:
        """Return the number of a row by its name, or by that number itself; raise and name near ones."""
        given = given.strip()
        if given in self.names:
            return list(self.names).index(given)
        if given.isdecimal() and len(given) < _DIGITS and int(given) < len(self):
            return int(given)
        near = near_names(given, self.names)
        raise DataFileError(
            f"there is no row {given!r}. {f'Did you mean {near}? ' if near else ''}Give the name of a row, such as "
            f"{self.names[0]!r}, or its number from 0 to {len(self) - 1:,}."
        )

    def taken(self, places: np.ndarray) -> "Rows":
        """Return some of the rows, in this order."""
        if self.kind == "text":
            values: Any = [self.values[place] for place in places]
        else:
            values = self.values[places] if self.kind == "image" else self.values.iloc[places].reset_index(drop=True)
        return replace(
            self,
            frame=self.frame.iloc[places].reset_index(drop=True),
            values=values,
            labels=self.labels[places],
            names=[self.names[place] for place in places],
            origins=[self.origins[place] for place in places],
            fixed=self.fixed[places],
            groups=[self.groups[place] for place in places] if self.groups else (),
            depths=None if self.depths is None else self.depths[places],
        )

    def with_bytes(self, train: np.ndarray) -> "Rows":
        """Return the rows with bytes as pixels, by one scale that is fitted on the training rows, bool [rows]."""
        if self.depths is None:
            return self
        scales = fit_scales(self.values, self.depths, train)
        pixels = np.empty(self.values.shape, np.uint8)
        for place, (image, depth) in enumerate(zip(self.values, self.depths.tolist(), strict=True)):
            pixels[place] = in_bytes(image, depth, scales)
        notes = (*self.notes, *note_on(self.values, self.depths, scales))
        return replace(self, values=pixels, depths=None, scales=scales, notes=notes)

    def save(self, folder: RunFolder) -> None:
        """Write all rows into a run folder; rows.json comes last, so that half of it is never taken for all."""
        if self.kind == "image":
            with folder.writing(), atomic_file(folder.path / _IMAGES) as file:
                np.savez_compressed(file, images=self.values)
        with (
            folder.writing(),
            atomic_file(folder.path / _ROWS) as file,
            gzip.open(file, "wb", compresslevel=3) as packed,
            io.TextIOWrapper(packed, encoding="utf-8") as lines,
        ):
            for line in self._lines():
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
        about = {
            "kind": self.kind,
            "rows": len(self),
            "name": self.name,
            "label_column": self.label_column,
            "label_names": list(self.label_names),
            "numeric": self.numeric,
            "columns": [str(name) for name in self.frame.columns],
            "fixed": self.fixed.tolist() if (self.fixed != TO_BE_SPLIT).any() else [],
            "groups": list(self.groups),
            "notes": list(self.notes),
            "pixel_scales": {name: [scale.low, scale.high] for name, scale in self.scales.items()},
        }
        folder.write(folder.path / _ABOUT, json.dumps(about, ensure_ascii=False) + "\n")

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield every row as JSON data."""
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            kept = records(self.frame.iloc[part])
            values: Sequence[Any] = [None] * len(kept)
            if self.kind != "image":
                values = self.values[part] if self.kind == "text" else records(self.values.iloc[part])
            columns = self.names[part], self.labels[part].tolist(), values, kept, self.origins[part]
            for cells in zip(*columns, strict=True):
                yield dict(zip(("name", "label", "value", "row", "origin"), cells, strict=True))

    @classmethod
    def open(cls, folder: RunFolder) -> "Rows":
        """Return the rows of a run folder."""
        with folder.reading(folder.path / _ROWS):
            about: dict[str, Any] = json.loads((folder.path / _ABOUT).read_text(encoding="utf-8"))
            lists = {name: about[name] for name in ("label_names", "columns", "fixed", "groups", "notes")}
            if wrong := [name for name, value in lists.items() if not isinstance(value, list)]:
                raise TypeError(f"values of the wrong type: {', '.join(wrong)}")
            check_unpacked(folder.path / _ROWS)
            with gzip.open(folder.path / _ROWS, "rt", encoding="utf-8") as file:
                lines = map(json.loads, file)
                parts = [_Part.of(part, about) for part in iter(lambda: list(islice(lines, _AT_ONCE)), [])]
            whole = _Part.joined(parts or [_Part.of([], about)])
            if len(whole.labels) != about["rows"]:
                raise ValueError(f"{len(whole.labels)} of {about['rows']} rows")
            classes = whole.labels[:0] if about["numeric"] else whole.labels
            if len(classes) and not -1 <= classes.min() <= classes.max() < len(about["label_names"]):
                raise ValueError("labels without a name")
            values = whole.values
            if about["kind"] == "image":
                with open_arrays(folder.path / _IMAGES) as kept:
                    values = kept["images"]
            return cls(
                about["kind"],
                whole.frame,
                values,
                whole.labels,
                tuple(about["label_names"]),
                about["label_column"],
                about["name"],
                whole.names,
                whole.origins,
                np.array(about["fixed"] or [TO_BE_SPLIT] * len(whole.labels), np.int8),
                groups=about["groups"],
                notes=tuple(about["notes"]),
                scales={name: PixelScale(*ends) for name, ends in about["pixel_scales"].items()},
            )


@dataclass(frozen=True)
class _Part:
    """Some lines of a run folder's rows, column by column."""

    frame: "pd.DataFrame"
    values: Any
    labels: np.ndarray
    names: PackedTexts
    origins: Any  # PackedNumbers; of images a tuple

    @classmethod
    def of(cls, lines: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> "_Part":
        import pandas as pd

        kind, values = about["kind"], [line["value"] for line in lines]
        origins = [line["origin"] for line in lines]
        return cls(
            pd.DataFrame([line["row"] for line in lines], columns=about["columns"]),
            pd.DataFrame(values) if kind == "table" else PackedTexts(values) if kind == "text" else None,
            np.array([line["label"] for line in lines], np.float64 if about["numeric"] else np.int64),
            PackedTexts(line["name"] for line in lines),
            tuple(origins) if kind == "image" else PackedNumbers.of(origins),
        )

    @classmethod
    def joined(cls, parts: "Sequence[_Part]") -> "_Part":
        columns = {part.name: [getattr(one, part.name) for one in parts] for part in fields(cls)}
        values, origins = columns["values"], columns["origins"]
        packed = isinstance(origins[0], PackedNumbers)
        if isinstance(values[0], PackedTexts):
            whole: Any = PackedTexts.joined(values)
        else:
            whole = None if values[0] is None else joined_frames(values)
        return cls(
            joined_frames(columns["frame"]),
            whole,
            np.concatenate(columns["labels"]),
            PackedTexts.joined(columns["names"]),
            PackedNumbers.joined(origins) if packed else tuple(chain.from_iterable(origins)),
        )


def joined_frames(frames: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    """Return the rows of tables below each other, with the types that all of them have as a whole.

    A part without any value of a column, or with whole numbers only, says nothing of the type of the others.
    """
    import pandas as pd

    if len(frames) == 1:
        return frames[0]
    names = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    if any(list(frame.columns) != names for frame in frames):
        frames = [frame.reindex(columns=names) for frame in frames]
    columns: dict[str, Any] = {}
    for name in names:
        parts = [frame[name] for frame in frames]
        if len({str(part.dtype) for part in parts}) == 1:
            columns[name] = pd.concat(parts, ignore_index=True)
        else:
            cells = chain.from_iterable(part.to_numpy(object).tolist() for part in parts)
            columns[name] = pd.Series(list(cells))
    return pd.DataFrame(columns, index=pd.RangeIndex(sum(map(len, frames))))


def records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the lines of a table as JSON data, numbers to their last bit; what is missing becomes None."""
    places = range(table.shape[1])
    columns = [[_plain(value) for value in table.iloc[:, place].to_numpy(object).tolist()] for place in places]
    names = [str(name) for name in table.columns]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)] or [{}] * len(table)


def _plain(value: Any) -> Any:
    """Return a cell as JSON can hold it; dates are written as ISO 8601."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return None if text in ("NaT", "<NA>") else text
