"""The rows of a run: one Arrow table with roles (name, text or cells, label, split, group), kept in the run folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as schema

from turnover.errors import DataFileError
from turnover.ids import near_names
from turnover.storage import atomic_file, open_arrays

from .files import need_pyarrow, plain_cell
from .folder import RunFolder

if TYPE_CHECKING:
    import pyarrow as pa

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
TO_BE_SPLIT = -1
"""In `Rows.splits`: no file assigned the row to a split."""

BYTES, INTEGERS, FLOATS = 0, 1, 2
"""What the pixels of an image are."""

# Numbers are split in proportion by bands of about equally many rows.
_BANDS, _ROWS_OF_A_BAND = 10, 20
_DIGITS = 20  # int() rejects thousands of them
_PIXEL_KINDS = {INTEGERS: "integers", FLOATS: "floats"}
_SAMPLE, _TAIL = 2_000_000, 0.001


@schema(config=ConfigDict(strict=True, extra="forbid"))
class _About:
    """What a run folder keeps of rows beside their table."""

    kind: Literal["text", "image", "table"]
    name: str
    label_column: str
    label_names: tuple[str, ...]
    notes: tuple[str, ...]
    scales: dict[str, tuple[float, float]]
    format: Literal[1] = 1


class Texts(Sequence[str]):
    """A column of texts: each becomes a string when it is asked for, a slice a list of strings."""

    def __init__(self, column: "pa.ChunkedArray") -> None:
        self.column = column

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: Any) -> Any:
        """Return the text at a place, or those of a slice."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return self.column.slice(start, max(stop - start, 0)).to_pylist()[::step]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no text {place}: there are {len(self):,}.")
        return self.column[int(place) % len(self)].as_py()

    def __iter__(self) -> Iterator[str]:
        """Yield all texts."""
        for start in range(0, len(self), 16_384):
            yield from self.column.slice(start, 16_384).to_pylist()

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same texts."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their file. The number of a row is its instance id, unless rows have groups.

    Attributes:
        table: roles "name" (what to call a row: its line, or the file of an image), "origin" (where it stands in the
            data: its first line, or its row or image from 1; None for rows of other files), "file" (of an image in a
            folder), "own" (whether it stands in the data itself, not in a file of validation or test rows), "split",
            "label" (class number, −1 without a label; or a number) and "group"; "text" or "cell NAME", from which is
            learned; and "data NAME", all columns as they were read.
        label_names: of the classes; empty: labels are numbers.
        pixels: of images, uint8 [rows, height, width, channels]; until `with_bytes` any numbers.
        depths: until `with_bytes`, what the pixels of each image are, where some are not bytes.
        copies: number of each row, the same for rows that repeat each other; None: they were not looked for.
        scales: lowest and highest number of pixels that were not bytes, by kind; those became 0 and 255.
    """

    kind: Literal["text", "image", "table"]
    name: str
    label_column: str
    label_names: tuple[str, ...]
    table: "pa.Table"
    notes: tuple[str, ...] = ()
    pixels: np.ndarray | None = None
    depths: np.ndarray | None = None
    copies: np.ndarray | None = None
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        kind: Literal["text", "image", "table"],
        data: "pa.Table",
        values: Any,
        labels: np.ndarray,
        label_names: Sequence[str],
        *,
        name: str,
        label_column: str,
        names: Sequence[str],
        origins: Sequence[int | str | None] | np.ndarray,
        splits: np.ndarray,
        groups: Sequence[str] = (),
        notes: Sequence[str] = (),
        depths: np.ndarray | None = None,
    ) -> "Rows":
        """Return rows of their columns; values are texts, pixels, or a table of cells."""
        pa = need_pyarrow()
        text = pa.large_string()
        splits = np.asarray(splits, np.int8)
        roles: dict[str, Any] = {
            "name": pa.array(names, text),
            "origin": pa.array([one if isinstance(one, int | np.integer) else None for one in origins], pa.int64()),
            "file": pa.array([one if isinstance(one, str) else None for one in origins], text),
            "own": pa.array(splits <= 0),
            "split": pa.array(splits),
            "label": pa.array(labels),
        }
        if len(groups):
            roles["group"] = pa.array(groups, text)
        if kind == "text":
            roles["text"] = pa.array(values, text)
        elif kind == "table":
            roles |= {f"cell {column}": values.column(column) for column in values.column_names}
        roles |= {f"data {column}": data.column(column) for column in data.column_names}
        pixels = values if kind == "image" else None
        about = kind, name, label_column, tuple(label_names), pa.table(roles), tuple(notes)
        return cls(*about, pixels, depths)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.table.num_rows

    @property
    def numeric(self) -> bool:
        """Tell whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    @cached_property
    def labels(self) -> np.ndarray:
        """Return class numbers, int64, −1 where a row has no label; or numbers, float64."""
        return np.array(self.table.column("label").to_numpy())

    @cached_property
    def splits(self) -> np.ndarray:
        """Return the split of each row, as index into SPLITS; TO_BE_SPLIT where no file assigned it."""
        return np.array(self.table.column("split").to_numpy())

    @cached_property
    def own(self) -> np.ndarray:
        """Return which rows stand in the data itself, bool [rows], not in a file of validation or test rows."""
        return np.array(self.table.column("own").to_numpy())

    @cached_property
    def names(self) -> Texts:
        """Return what to call each row."""
        return Texts(self.table.column("name"))

    @cached_property
    def groups(self) -> Sequence[str]:
        """Return the group of each row, or nothing."""
        return Texts(self.table.column("group")) if "group" in self.table.column_names else ()

    @cached_property
    def values(self) -> Any:
        """Return what is learned from: texts, pixels, or the cells of a table as a DataFrame."""
        if self.kind == "text":
            return Texts(self.table.column("text"))
        return self.pixels if self.kind == "image" else self.cells.to_pandas()

    @property
    def cells(self) -> "pa.Table":
        """Return what a table is learned from: numbers as float64, categories as strings, null where one is missing."""
        return self._part("cell ")

    @property
    def data(self) -> "pa.Table":
        """Return all columns as they were read; of images, their names and labels."""
        return self._part("data ")

    def _part(self, prefix: str) -> "pa.Table":
        names = [name for name in self.table.column_names if name.startswith(prefix)]
        return self.table.select(names).rename_columns([name.removeprefix(prefix) for name in names])

    def origin(self, row: int) -> int | str | None:
        """Return where a row stands in the data: its number from 1, or its file; None for rows of other files."""
        number = self.table.column("origin")[row].as_py()
        return self.table.column("file")[row].as_py() if number is None else number

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

    def number_of(self, given: str) -> int:
        """Return the number of a row by its name, or by that number itself; raise and name near ones."""
        given, names = given.strip(), list(self.names)
        if given in names:
            return names.index(given)
        if given.isdecimal() and len(given) < _DIGITS and int(given) < len(self):
            return int(given)
        near = near_names(given, names)
        raise DataFileError(
            f"there is no row {given!r}. {f'Did you mean {near}? ' if near else ''}Give the name of a row, such as "
            f"{names[0]!r}, or its number from 0 to {len(self) - 1:,}."
        )

    def taken(self, places: np.ndarray) -> "Rows":
        """Return some of the rows, in this order, without classes that have none among them."""
        pixels, depths = (None if part is None else part[places] for part in (self.pixels, self.depths))
        rows = replace(self, table=self.table.take(places), pixels=pixels, depths=depths, copies=None)
        if self.numeric:
            return rows
        used, labels = np.unique(np.append(rows.labels, -1), return_inverse=True)
        names = tuple(self.label_names[number] for number in used[1:])
        return replace(rows._with("label", labels.reshape(-1)[:-1] - 1), label_names=names)

    def with_splits(self, splits: np.ndarray) -> "Rows":
        """Return the rows with the split of each."""
        return self._with("split", splits.astype(np.int8))

    def _with(self, role: str, values: np.ndarray) -> "Rows":
        place = self.table.column_names.index(role)
        return replace(self, table=self.table.set_column(place, role, need_pyarrow().array(values)))

    def with_bytes(self, train: np.ndarray) -> "Rows":
        """Return the rows with bytes as pixels, by one scale that is fitted on the training rows, bool [rows]."""
        if self.depths is None or self.pixels is None:
            return self
        pixels = np.empty(self.pixels.shape, np.uint8)
        scales: dict[str, tuple[float, float]] = {}
        notes: list[str] = []
        for depth, name in _PIXEL_KINDS.items():
            values = self.pixels[(self.depths == depth) & train]
            if len(values):
                low, high = scales[name] = _scale_of(values)
                every = self.pixels[self.depths == depth]
                outside = int(((every < low) | (every > high)).sum())
                clipped = f"; {outside:,} of {every.size:,} lie beyond and are clipped" if outside else ""
                notes.append(f"Pixels from {low:g} to {high:g} became 0 to 255, by training images{clipped}.")
        for place, (image, depth) in enumerate(zip(self.pixels, self.depths.tolist(), strict=True)):
            pixels[place] = in_bytes(image, depth, scales)
        return replace(self, pixels=pixels, depths=None, scales=scales, notes=(*self.notes, *notes))

    def records(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return all columns of some rows as they were read, as JSON can hold them."""
        found = self.data.take(need_pyarrow().array(rows, "int64")).to_pylist()
        return [{name: plain_cell(cell) for name, cell in row.items()} for row in found]

    def save(self, folder: RunFolder) -> None:
        """Write all rows into a run folder."""
        import pyarrow.parquet as pq

        if self.pixels is not None:
            with folder.writing(), atomic_file(folder.images) as file:
                np.savez_compressed(file, images=self.pixels)
        names = self.kind, self.name, self.label_column, self.label_names
        about = asdict(_About(*names, self.notes, dict(self.scales)))
        table = self.table.replace_schema_metadata({"turnover": json.dumps(about, ensure_ascii=False)})
        with folder.writing(), atomic_file(folder.rows) as file:
            pq.write_table(table, file, compression="zstd")

    @classmethod
    def open(cls, folder: RunFolder) -> "Rows":
        """Return the rows of a run folder."""
        pa = need_pyarrow()
        import pyarrow.parquet as pq

        with folder.reading(folder.rows):
            try:
                table = pq.read_table(folder.rows)
            except pa.ArrowException as error:
                raise ValueError(str(error)) from error
            about = TypeAdapter(_About).validate_json(table.schema.metadata[b"turnover"])
            pixels = None
            if about.kind == "image":
                with open_arrays(folder.images) as kept:
                    pixels = kept["images"]
            names = about.kind, about.name, about.label_column, about.label_names
            rows = cls(*names, table, about.notes, pixels, scales=about.scales)
            if (
                not rows.numeric
                and len(rows)
                and not -1 <= rows.labels.min() <= rows.labels.max() < len(about.label_names)
            ):
                raise ValueError("labels without a name")
            return rows


def _scale_of(pixels: np.ndarray) -> tuple[float, float]:
    """Return which numbers become 0 and 255: 0 to 1 or 0 to 255 where pixels suit that, else the least and greatest.

    A few pixels far beyond all others do not count: they would leave one gray value to the rest.
    """
    values = pixels.reshape(-1)
    low, high = float(values.min()), float(values.max())
    inner = np.quantile(values[:: max(1, len(values) // _SAMPLE)], [_TAIL, 1 - _TAIL]).tolist()
    width = inner[1] - inner[0]
    if 0 < width < inner[0] - low:
        low = inner[0]
    if 0 < width < high - inner[1]:
        high = inner[1]
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if low >= 0 and 16 < high <= 255:
        return 0.0, 255.0
    return low, high if high > low else low + 1


def in_bytes(pixels: np.ndarray, depth: int, scales: Mapping[str, tuple[float, float]]) -> np.ndarray:
    """Return pixels of a kind as bytes; a kind that no training image had takes its full range."""
    if depth == BYTES:
        return pixels.astype(np.uint8)
    low, high = scales.get(_PIXEL_KINDS[depth], (0.0, 65535.0 if depth == INTEGERS else 1.0))
    share = (pixels.astype(np.float64) - low) / (high - low)
    return (share.clip(0, 1) * 255).round().astype(np.uint8)
