"""Generated data files for every reader, each with an oracle: what was written, or what another library reads.

A case is judged twice: as the rows that were read, and as the copy of them that a run folder keeps.
"""

import csv
import io
import json
import math
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from PIL import Image

from tests.campaign.trial import Budget, Outcome, Tally, judged, try_generated
from turnover.runs import Rows, RunConfig, RunFolder, Table
from turnover.runs._reading import read_rows, read_table
from turnover.runs._splits import split_rows

Difference = Callable[[Any], str]
"""Says what is wrong with what was read; "" where nothing is."""

_SIZE = 6  # of images: none is scaled, so that every pixel is known
_NO_LABEL = ("", "nan", "<na>", "nat")
_MISSING = (*_NO_LABEL, "na", "n/a", "null", "none", "?", "-")


@dataclass(frozen=True)
class Case:
    files: Mapping[str, bytes]
    data: str  # which of the files, or "." for the folder
    difference: Difference
    settings: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # of a table, as they were written

    @property
    def good_rows(self) -> list[int]:
        """Return the places of the rows of a table that have a label, and a text where texts are learned."""
        needed = [self.columns[self.settings[name]] for name in ("label", "text") if self.settings.get(name)]
        return [place for place in range(len(needed[0])) if all(shown(cells[place]) for cells in needed)]

    def __str__(self) -> str:
        short = {name: content[:300] for name, content in list(self.files.items())[:3]}
        return f"{short} {dict(self.settings)}"


def try_case(case: Case) -> tuple[Outcome, str]:
    with tempfile.TemporaryDirectory(prefix="turnover-campaign-") as held:
        folder = Path(held) / "data"
        folder.mkdir()
        for name, content in case.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        config = {"data": str(folder / case.data), "image_size": _SIZE, **case.settings}
        return judged(lambda: _difference(case, config, Path(held) / "kept"))


def _difference(case: Case, settings: dict[str, Any], kept: Path) -> str:
    config = RunConfig(**settings)
    kept.mkdir()
    rows = read_rows(config)
    rows = rows.with_bytes(split_rows(rows, config) == 0)
    rows.save(RunFolder(kept))
    return case.difference(rows) or _of_copy(case.difference(Rows.open(RunFolder(kept))))


def _of_copy(difference: str) -> str:
    return difference and f"in the kept copy: {difference}"


# Cells: what people have in tables, and what breaks readers of them.
_ODD_WORDS = [
    *("=1+1", "-x", 'a"b', '"', '""', "a,b", "a;b", "a|b", "a\tb", "two\nlines", "two\r\nlines", "\u2028", "\\"),
    *("NULL", "true", "None", "null", "?", "-", "inf", "-Infinity", "1_000", "0x1F", "1,5", "1e999", "007", "1 000"),
    *("\uff11\uff12", "\u0661\u0662", "\ufeffx", "é", "e\u0301", "\U0001f600", "<b>x</b>", " padded ", "'quoted'"),
]
_ODD_NUMBERS = ["0", "-0.0", "1e-12", "5e-324", "1.7976931348623157e308", "+3", ".5", "5.", "1E5", "0.1", "1e-310"]
_letters = st.characters(exclude_categories=["Cs", "Cc"])
words = st.one_of(st.text(_letters, min_size=1, max_size=12), st.sampled_from(_ODD_WORDS))
finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(
    finite.map(repr),
    finite.map(lambda number: f"{number:.17e}"),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(_ODD_NUMBERS),
)
labels = st.one_of(st.sampled_from(["a", "b", "0", "1", "1.0", "-1", "yes", "No", " a", "ä"]), words)
missing = st.sampled_from(["", "NA", "nan", "NaN", "null", "?", "-", " "])
names = st.one_of(st.sampled_from(["x", "size", "<i>", "name", "text", "a b", "Größe", "id", "2"]), words)

# A mark of UTF-8 at the beginning of a file does not belong to its first name.
_column_names = names.map(lambda name: name.strip().lstrip("\ufeff").strip()).filter(bool)


def _is_number(text: str) -> bool | None:
    """Tell whether everybody would read a cell as a number, as none, or (None) whether that depends on the reader."""
    bare = text.strip()
    plain = bare.replace("+", "", 1).replace("-", "", 1) if bare[:1] in "+-" else bare
    if not plain.isascii() or "_" in plain:
        return None
    if plain.lower() in ("inf", "infinity") or plain.lower().startswith("0x"):
        return None
    try:
        return math.isfinite(float(bare)) or None
    except ValueError:
        return False


def shown(value: Any) -> str:
    """Return a cell as text: what a label or category of that value is called."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if math.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    text = str(value).strip()
    return "" if text.lower() in _NO_LABEL else text


def _same_number(one: Any, other: float) -> bool:
    return isinstance(one, float) and (one == other or (one != one and other != other))


def _column_difference(name: str, cells: Sequence[Any], found: Sequence[Any]) -> str:
    """Return where a column differs from what its cells say: numbers to the last bit, categories to the last letter."""
    texts = [shown(cell) for cell in cells]
    kinds = [None if text.lower() in _MISSING else _is_number(text) for text in texts]
    gaps = [text.lower() in _MISSING for text in texts]
    as_numbers = all(isinstance(value, float) for value in found) and not all(gaps)
    if as_numbers:
        for text, kind, gap, value in zip(texts, kinds, gaps, found, strict=True):
            if kind is False and not gap:
                return f"column {name!r}: {text!r} became the number {value!r}"
            if gap and value == value:
                return f"column {name!r}: the missing {text!r} became {value!r}"
            if kind and not _same_number(value, float(text)):
                return f"column {name!r}: {text!r} became {value!r}"
            if kind is None and not gap and value == value and not _same_number(value, float(text)):
                return f"column {name!r}: {text!r} became {value!r}"
        return ""
    for text, value in zip(texts, found, strict=True):
        if (value if value is not None and value == value else "") != text:
            return f"column {name!r}: {text!r} became {value!r}"
    if all(kind or gap for kind, gap in zip(kinds, gaps, strict=True)) and not all(gaps):
        return f"column {name!r} of numbers became categories"
    return ""


def _table_difference(
    columns: Mapping[str, Sequence[Any]], label: str, text: str | None, *, skipped: bool, as_written: bool
) -> Difference:
    shown_labels = [shown(cell) for cell in columns[label]]
    shown_texts = [shown(cell) for cell in columns[text]] if text else []
    good = [place for place, shown in enumerate(shown_labels) if shown and (not text or shown_texts[place])]

    def difference(rows: Rows) -> str:
        if len(good) < len(shown_labels) and not skipped:
            return f"{len(shown_labels) - len(good)} rows without a label or text were accepted"
        if len(rows) != len(good):
            return f"{len(rows)} rows in place of {len(good)}"
        found = [rows.label_names[number] for number in rows.labels]
        if found != [shown_labels[place] for place in good]:
            return f"labels {found} in place of {[shown_labels[place] for place in good]}"
        if text:
            kept = [shown_texts[place] for place in good]
            return "" if list(rows.values) == kept else f"texts {list(rows.values)} in place of {kept}"
        said = " ".join(rows.notes)
        for name, cells in columns.items():
            own = [cells[place] for place in good]
            if as_written and rows.data.column(name).to_pylist() != own:
                return f"column {name!r} as it stands: {rows.data.column(name).to_pylist()} in place of {own}"
            if name == label:
                continue
            if name not in rows.values.columns:
                if repr(name) not in said:
                    return f"column {name!r} went without a word"
                continue
            if problem := _column_difference(name, own, rows.values[name].to_numpy(object).tolist()):
                return problem
        return ""

    return difference


@st.composite
def _tables(draw: st.DrawFn, cells: Mapping[str, st.SearchStrategy[Any]]) -> tuple[dict[str, list[Any]], str]:
    rows = draw(st.integers(4, 12))
    chosen = draw(st.lists(_column_names, min_size=2, max_size=4, unique=True))
    label, *others = chosen
    holes = draw(st.sampled_from([False, False, False, True]))
    few = draw(st.lists(cells["label"], min_size=2, max_size=3, unique=True))
    columns = {label: [draw(st.sampled_from(few)) for _ in range(rows)]}
    for name in others:
        kind = cells[draw(st.sampled_from([kind for kind in cells if kind not in ("label", "missing")]))]
        kind = st.one_of(kind, kind, kind, cells["missing"]) if draw(st.booleans()) else kind
        columns[name] = [draw(kind) for _ in range(rows)]
    if holes:
        columns[label][draw(st.integers(0, rows - 1))] = draw(cells["missing"])
    return {name: columns[name] for name in draw(st.permutations(chosen))}, label


def _settings(draw: st.DrawFn, columns: Mapping[str, Sequence[Any]], label: str) -> tuple[dict[str, Any], str | None]:
    """Draw whether a table or one of its columns of strings as texts is learned, and whether bad rows are skipped."""
    strings = [name for name, cells in columns.items() if name != label and all(isinstance(c, str) for c in cells)]
    text = draw(st.sampled_from([None, None, *strings])) if strings else None
    settings: dict[str, Any] = {"label": label, "skip_bad": draw(st.booleans())}
    return settings | ({"text": text} if text else {"task": "table"}), text


@st.composite
def separated(draw: st.DrawFn) -> Case:
    columns, label = draw(_tables({"number": numbers, "word": words, "label": labels, "missing": missing}))
    ending = draw(st.sampled_from([".csv", ".csv", ".tsv", ".tab"]))
    held = io.StringIO(newline="")
    writer = csv.writer(
        held,
        delimiter="\t" if ending != ".csv" else draw(st.sampled_from([",", ",", ";", "|", "\t"])),
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
    )
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    settings, text = _settings(draw, columns, label)
    difference = _table_difference(columns, label, text, skipped=settings["skip_bad"], as_written=True)
    return Case({f"data{ending}": held.getvalue().encode(encoding)}, f"data{ending}", difference, settings, columns)


_json_cells = {
    "number": st.one_of(finite, st.integers(-(10**20), 10**20)),
    "word": st.one_of(words, numbers),
    "mixed": st.one_of(words, finite, st.booleans(), st.none()),
    "label": st.one_of(labels, st.integers(-2, 3), st.booleans(), st.sampled_from([0.5, 1.0])),
    "missing": st.one_of(st.none(), missing),
}


@st.composite
def json_files(draw: st.DrawFn) -> Case:
    columns, label = draw(_tables(_json_cells))
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    ascii_only = draw(st.booleans())
    form = draw(st.sampled_from(["list", "within", "columns", "lines"]))
    if form == "lines":
        ending, content = ".jsonl", "".join(f"{json.dumps(row, ensure_ascii=ascii_only)}\n" for row in rows)
    else:
        held = {"list": rows, "within": {"version": 1, "data": rows}, "columns": columns}[form]
        ending, content = ".json", json.dumps(held, ensure_ascii=ascii_only)
    settings, text = _settings(draw, columns, label)
    difference = _table_difference(columns, label, text, skipped=settings["skip_bad"], as_written=False)
    return Case({f"data{ending}": content.encode()}, f"data{ending}", difference, settings, columns)


_PARQUET_TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32, allow_infinity=False, allow_nan=False)),
    "float64": (pa.float64(), finite),
    "string": (pa.string(), st.one_of(words, numbers)),
    "large_string": (pa.large_string(), words),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["red", "green", "blue"])),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
}


@st.composite
def parquet_files(draw: st.DrawFn) -> Case:
    rows = draw(st.integers(4, 12))
    chosen = draw(st.lists(_column_names, min_size=2, max_size=4, unique=True))
    arrays: dict[str, pa.Array] = {}
    for place, name in enumerate(chosen):
        kind, cells = _PARQUET_TYPES[
            draw(st.sampled_from(["int8", "string", "bool"] if not place else [*_PARQUET_TYPES]))
        ]
        if not place:
            cells = st.sampled_from(draw(st.lists(cells, min_size=2, max_size=3, unique=True)))
        values = [
            draw(st.one_of(cells, cells, cells, st.none()) if place and draw(st.booleans()) else cells)
            for _ in range(rows)
        ]
        arrays[name] = pa.array(values, kind)
    held = io.BytesIO()
    pq.write_table(pa.table(arrays), held, row_group_size=draw(st.sampled_from([3, 100])))
    columns = {name: [_plain_cell(value) for value in array.to_pylist()] for name, array in arrays.items()}
    settings = {"label": chosen[0], "task": "table", "skip_bad": draw(st.booleans())}
    difference = _table_difference(columns, chosen[0], None, skipped=settings["skip_bad"], as_written=False)
    return Case({"data.parquet": held.getvalue()}, "data.parquet", difference, settings, columns)


def _plain_cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else str(value)


_depths = st.sampled_from(["uint8", "bool", "uint16", "int32", "float32", "float64"])


@st.composite
def npz_files(draw: st.DrawFn) -> Case:
    """Draw images and labels in an npz file, some of them with splits of their own, of bytes or other numbers."""
    depth, count = draw(_depths), draw(st.integers(6, 14))
    channels = draw(st.sampled_from([None, 1, 3]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (count, _SIZE, _SIZE, *(() if channels is None else (channels,)))
    scale = draw(st.sampled_from([1.0, 1.0, 255.0, 1e-3, 4000.0]))
    images = (random.random(shape) * (255 if depth == "uint8" else 65000 if depth == "uint16" else scale)).astype(depth)
    if depth == "bool":
        images = random.random(shape) < 0.5
    given = draw(st.sampled_from(["integers", "strings", "floats", "one hot"]))
    numbers_ = np.arange(count) % 2 if draw(st.booleans()) else random.integers(0, 3, count)
    gap = draw(st.sampled_from([None, None, 2]))
    shown = [str(number) for number in numbers_]
    if given == "strings":
        array: Any = np.array([f"class {number}" for number in numbers_])
        shown = array.tolist()
    elif given == "one hot":
        array = np.eye(3, dtype=np.float32)[numbers_]
    else:
        array = numbers_.astype(np.float32 if given == "floats" else np.int64)
    if gap is not None and given in ("integers", "floats"):
        array[gap] = -1 if given == "integers" else np.nan
        shown[gap] = ""
    skip = draw(st.booleans())
    first, second = draw(st.sampled_from([("images", "labels"), ("x", "y"), ("data", "targets")]))
    parts = draw(st.sampled_from(["one", "train and test"]))
    arrays = {first: images, second: array}
    if parts != "one":
        arrays = {f"{first}_train": images[:-2], f"{second}_train": array[:-2]}
        arrays |= {f"{first}_test": images[-2:], f"{second}_test": array[-2:]}
    held = io.BytesIO()
    (np.savez if draw(st.booleans()) else np.savez_compressed)(held, **arrays)
    # Nothing can predict a class that stands in a test part only.
    known = shown if parts == "one" else [label if label in shown[:-2] else "" for label in shown]
    difference = _pixels_difference(images, known, skipped=skip)
    return Case({"data.npz": held.getvalue()}, "data.npz", difference, {"skip_bad": skip})


def _pixels_difference(images: np.ndarray, shown: list[str], *, skipped: bool) -> Difference:
    """Return what compares rows with images [n, ...]: bytes as they are, other numbers by one rising function."""
    good = [place for place, label in enumerate(shown) if label]
    images = images.reshape(*images.shape[:3], -1)[good]

    def difference(rows: Rows) -> str:
        if len(good) < len(shown) and not skipped:
            return "images without a label were accepted"
        found = [rows.label_names[number] for number in rows.labels]
        if found != [shown[place] for place in good]:
            return f"labels {found} in place of {[shown[place] for place in good]}"
        pixels = np.broadcast_to(rows.values, np.broadcast_shapes(rows.values.shape, images.shape))
        own = np.broadcast_to(images, pixels.shape)
        if images.dtype == np.uint8:
            return "" if np.array_equal(pixels, own) else "other pixels"
        if images.dtype == bool:
            return "" if np.array_equal(pixels, own * np.uint8(255)) else "other pixels"
        order = np.argsort(own, axis=None, kind="stable")
        values, became = own.reshape(-1)[order].astype(np.float64), pixels.reshape(-1)[order].astype(int)
        if (np.diff(became) < 0).any():
            return "a greater number became a darker pixel"
        if ((np.diff(values) == 0) & (np.diff(became) != 0)).any():
            return "one number became two pixels"
        if values[0] >= 0 and values[-1] <= 1 and not np.array_equal(became, (values * 255).round().astype(int)):
            return "numbers from 0 to 1 are not scaled by 255"
        return ""

    return difference


_file_names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\\0"), min_size=1, max_size=10
).filter(lambda name: not name.startswith((".", "__MACOSX")) and len(name.encode()) < 100)
_FORMATS = {".png": "PNG", ".bmp": "BMP", ".tif": "TIFF", ".ppm": "PPM", ".gif": "GIF", ".webp": "WEBP"}


def _encoded(pixels: np.ndarray, ending: str) -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, _FORMATS[ending], **({"lossless": True} if ending == ".webp" else {}))
    return held.getvalue()


@st.composite
def image_folders(draw: st.DrawFn) -> Case:
    endings = st.sampled_from([".png", ".png", ".bmp", ".tif", ".ppm"])
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    classes = draw(
        st.lists(_file_names.map(str.strip).filter(_is_class), min_size=2, max_size=3, unique_by=str.casefold)
    )
    count = draw(st.integers(4, 9))
    color = draw(st.booleans())
    by_file = draw(st.booleans())
    stems = draw(
        st.lists(_file_names.map(str.strip).filter(_is_class), min_size=count, max_size=count, unique_by=str.casefold)
    )
    files: dict[str, bytes] = {}
    truth: dict[str, tuple[str, np.ndarray]] = {}
    for place, stem in enumerate(stems):
        label = classes[place % len(classes)]
        pixels = random.integers(0, 256, (_SIZE, _SIZE, 3) if color else (_SIZE, _SIZE)).astype(np.uint8)
        ending = draw(endings)
        if ending == ".ppm" and not color:
            ending = ".png"
        name = f"{stem}{ending}" if by_file else f"{label}/{stem}{ending}"
        files[name] = _encoded(pixels, ending)
        truth[name] = label, pixels
    if by_file:
        held = io.StringIO(newline="")
        writer = csv.writer(held)
        writer.writerow([draw(st.sampled_from(["file", "filename", "path"])), "label"])
        writer.writerows((name, label) for name, (label, _) in truth.items())
        files["labels.csv"] = held.getvalue().encode()

    def difference(rows: Rows) -> str:
        if sorted(rows.names) != sorted(truth):
            return f"images {sorted(rows.names)} in place of {sorted(truth)}"
        for place, name in enumerate(rows.names):
            label, pixels = truth[name]
            if rows.label_names[rows.labels[place]] != label.strip():
                return f"{name!r} has the label {rows.label_names[rows.labels[place]]!r} in place of {label!r}"
            own = pixels if pixels.ndim == 3 else pixels[..., None]
            if not np.array_equal(
                np.broadcast_to(rows.values[place], np.broadcast_shapes(rows.values[place].shape, own.shape)),
                np.broadcast_to(own, np.broadcast_shapes(rows.values[place].shape, own.shape)),
            ):
                return f"{name!r} has other pixels"
        return ""

    return Case(files, ".", difference, {"skip_bad": draw(st.booleans())})


def _is_class(name: str) -> bool:
    return bool(name) and shown(name) == name and name.casefold() not in ("labels", "metadata", "train", "val", "test")


@st.composite
def _damage(draw: st.DrawFn, content: bytes) -> bytes:
    kind = draw(st.sampled_from(["cut", "flip", "insert", "delete", "repeat"]))
    place = draw(st.integers(0, max(0, len(content) - 1)))
    if kind == "cut":
        return content[:place]
    if kind == "insert":
        return content[:place] + draw(st.binary(min_size=1, max_size=8)) + content[place:]
    length = draw(st.integers(1, 20))
    if kind == "delete":
        return content[:place] + content[place + length :]
    if kind == "repeat":
        return content[: place + length] + content[place:]
    changed = bytearray(content)
    changed[place : place + 1] = bytes(byte ^ (1 << draw(st.integers(0, 7))) for byte in changed[place : place + 1])
    return bytes(changed)


@st.composite
def damaged_files(draw: st.DrawFn) -> Case:
    """Draw a damaged table; what is read of it must be what another library reads."""
    case = draw(st.one_of(separated(), json_files(), parquet_files()))
    content = draw(_damage(case.files[case.data]))
    return Case({case.data: content}, case.data, case.difference, case.settings)


def try_damaged_table(case: Case) -> tuple[Outcome, str]:
    with tempfile.TemporaryDirectory(prefix="turnover-campaign-") as held:
        file = Path(held) / case.data
        file.write_bytes(case.files[case.data])
        return judged(lambda: _unlike_other_readers(read_table(file), file))


def _unlike_other_readers(table: Table, file: Path) -> str:
    own = [[name.strip() for name in table.columns], *(list(row.values()) for row in table.data.to_pylist())]
    if file.suffix == ".parquet":  # integers with gaps are floats in pandas, and compared as such
        own = [[_plain_cell(_as_float(cell)) for cell in row] for row in own]
    try:
        others = READ_BY_OTHERS[file.suffix](file)
    except Exception as error:  # noqa: BLE001 - each of the libraries has errors of its own
        return f"read, though another library says {type(error).__name__}: {error}"
    own = [[comparable(cell) for cell in row] for row in own]
    if file.suffix in (".json", ".jsonl"):
        columns = [[_of_one_type(list(cells)) for cells in zip(*rows, strict=True)] for _, *rows in others]
        others = [[names, *zip(*cells, strict=True)] for (names, *_), cells in zip(others, columns, strict=True)]
    if file.suffix == ".parquet":
        others = [[[_as_float(cell) for cell in row] for row in other] for other in others]
    same = any([[comparable(cell) for cell in row] for row in other] == own for other in others)
    return "" if same else f"read as {own}, by others as {others}"


def _as_float(cell: Any) -> Any:
    return float(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell


def comparable(cell: Any) -> Any:
    """Return a cell as it is compared: with its type; what is missing is None."""
    return None if cell is None or (isinstance(cell, float) and cell != cell) else f"{type(cell).__name__} {cell!r}"


def _by_pandas(file: Path) -> list[list[list[Any]]]:
    content = file.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    readings = []
    for separator in ",\t;|":
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            try:
                frame = pd.read_csv(
                    file,
                    sep=separator,
                    quoting=quoting,
                    encoding=encoding,
                    dtype=str,
                    header=None,
                    na_filter=False,
                    engine="python",
                )
                read = frame.to_numpy(object).tolist()
            except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError):
                read = _without_ends(content, encoding, separator, quoting)
                if read is None:
                    continue
            names, *rows = read
            readings.append([[str(name).strip() or f"Unnamed: {place}" for place, name in enumerate(names)], *rows])
    return readings


def _without_ends(content: bytes, encoding: str, separator: str, quoting: Any) -> list[list[str]] | None:
    try:
        text = io.StringIO(content.decode(encoding), newline="")
        rows = [row for row in csv.reader(text, delimiter=separator, quoting=quoting, strict=True) if row]
    except (csv.Error, UnicodeDecodeError):
        return None
    wide = len(rows[0]) if rows else 0
    rows = [row[:-1] if len(row) == wide + 1 and not row[-1] else row for row in rows]
    return rows if rows and all(len(row) == wide for row in rows) else None


def _by_json(file: Path) -> list[list[list[Any]]]:
    text = file.read_text(encoding="utf-8-sig")
    if file.suffix == ".jsonl":
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    else:
        rows = json.loads(text)
        held = [value for value in rows.values() if isinstance(value, list)] if isinstance(rows, dict) else []
        if len(held) == 1 and all(isinstance(row, dict) for row in held[0]):  # the only list, whatever its name
            rows = held[0]
        if isinstance(rows, dict):
            rows = [dict(zip(rows, cells, strict=True)) for cells in zip(*rows.values(), strict=True)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [[[name.strip() for name in columns], *([row.get(name) for name in columns] for row in rows)]]


def _of_one_type(cells: list[Any]) -> list[Any]:
    kinds = {type(cell) for cell in cells} - {type(None)}
    large = [cell for cell in cells if type(cell) is int and abs(cell) >= (2**53 if float in kinds else 2**63)]
    if kinds == {int, float} and not large:
        return [None if cell is None else float(cell) for cell in cells]
    if len(kinds) < 2 and not large:
        return cells
    return [None if cell is None else _cell_text(cell) for cell in cells]


def _cell_text(cell: Any) -> str:
    if isinstance(cell, list | dict):
        return json.dumps(cell, ensure_ascii=False)
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _by_pyarrow(file: Path) -> list[list[list[Any]]]:
    rows = pq.read_table(file)
    columns = [[_plain_cell(value) for value in column.to_pylist()] for column in rows.columns]
    return [[[name.strip() for name in rows.column_names], *map(list, zip(*columns, strict=True))]]


READ_BY_OTHERS: dict[str, Callable[[Path], list[list[list[Any]]]]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), _by_pandas),
    **dict.fromkeys((".json", ".jsonl"), _by_json),
    ".parquet": _by_pyarrow,
}


@st.composite
def damaged_images(draw: st.DrawFn) -> Case:
    """Draw a folder of images or an npz file of which one file is damaged; other images stay as they are."""
    case = draw(st.one_of(image_folders(), npz_files()))
    name = draw(st.sampled_from([name for name in case.files if name != "labels.csv"]))
    content = draw(_damage(case.files[name]))
    return Case({**case.files, name: content}, case.data, _whole_images(case, name, content), case.settings)


def _whole_images(case: Case, damaged: str, content: bytes) -> Difference:
    """Return what compares images that were not damaged; the damaged one must be as Pillow or numpy open it."""

    def difference(rows: Rows) -> str:
        if case.data == "data.npz":
            with np.load(io.BytesIO(content)) as arrays:  # raises where there is nothing to read
                shapes = {name: arrays[name].shape for name in arrays.files}
            return "" if shapes else "read from nothing"
        if damaged in rows.names:
            try:
                with Image.open(io.BytesIO(content)) as image:
                    own = np.asarray(image.convert("RGB"))
            except Exception as error:  # noqa: BLE001 - Pillow raises many
                return f"{damaged!r} was read, though Pillow says {error}"
            found = rows.values[rows.names.index(damaged)]
            if own.shape[:2] == found.shape[:2] and not np.array_equal(np.broadcast_to(found, own.shape), own):
                return f"{damaged!r} has other pixels than Pillow reads"
        elif not case.settings["skip_bad"]:
            return f"{damaged!r} was skipped though nobody asked for that"
        elif damaged not in " ".join(rows.notes):
            return f"{damaged!r} was skipped without a word"
        return ""

    return difference


_config_values: dict[str, st.SearchStrategy[Any]] = {
    "data": words,
    "task": st.sampled_from(["text", "image", "table", "video"]),
    "columns": st.lists(words, max_size=3),
    "validation": st.floats(-0.5, 1.5),
    "test": st.floats(-0.5, 1.5),
    "seed": st.integers(-(2**40), 2**40),
    "epochs": st.integers(-5, 10**12),
    "hidden": st.integers(-5, 10**12),
    "learning_rate": st.floats(),
    "keep": st.floats(-1, 2),
    "balance": st.booleans(),
    "label": words,
    "nonsense": words,
}
_any_value = st.one_of(st.booleans(), st.integers(-(10**6), 10**6), st.floats(), words, st.lists(words, max_size=2))


@st.composite
def config_files(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    chosen = draw(st.lists(st.sampled_from([*_config_values]), max_size=6, unique=True))
    wrong = draw(st.sampled_from([None, None, *chosen]))
    values = {"data": "data.csv"} if draw(st.sampled_from([True, True, True, False])) else {}
    values |= {name: draw(_any_value if name == wrong else _config_values[name]) for name in chosen}
    written = "".join(f"{json.dumps(name)} = {_toml(value)}\n" for name, value in values.items())
    return draw(
        st.one_of(st.just(written), st.just(written), _damage(written.encode()).map(lambda b: b.decode("latin-1")))
    ), values


def _toml(value: Any) -> str:
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else str(value).replace("Infinity", "inf")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def try_config(case: tuple[str, dict[str, Any]]) -> tuple[Outcome, str]:

    def difference() -> str:
        with tempfile.TemporaryDirectory(prefix="turnover-campaign-") as held:
            file = Path(held) / "config.toml"
            file.write_text(case[0], encoding="utf-8")
            config = RunConfig.read(file)
            values = tomllib.loads(case[0])
            again = tomllib.loads(config.as_toml())
        for name, value in values.items():
            if config.as_dict()[name] != value or again[name] != value:
                return f"{name}: {config.as_dict()[name]!r}, written again {again[name]!r}, in place of {value!r}"
        unasked = [part.name for part in fields(RunConfig) if part.name not in values and part.name != "data"]
        changed = [name for name in unasked if getattr(config, name) != getattr(RunConfig("x"), name)]
        return f"{changed} were set by nobody" if changed else ""

    return judged(difference)


@dataclass(frozen=True)
class Reader:
    cases: st.SearchStrategy[Any]
    most: int
    one: Callable[[Any], tuple[Outcome, str]] = try_case

    def __call__(self, budget: Budget, tally: Tally) -> None:
        try_generated(self.cases, self.most, self.one, budget, tally)


READERS = {
    "csv and tsv": Reader(separated(), 2000),
    "json and jsonl": Reader(json_files(), 1500),
    "parquet": Reader(parquet_files(), 1000),
    "npz": Reader(npz_files(), 1000),
    "image folders, labels.csv": Reader(image_folders(), 1000),
    "config files": Reader(config_files(), 2000, try_config),
    "damaged tables": Reader(damaged_files(), 3000, try_damaged_table),
    "damaged images": Reader(damaged_images(), 1500),
}
