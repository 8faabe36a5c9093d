"""What a user typed, edited or sent, checked, as the run takes it."""

import io
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from turnover.errors import DataFileError
from turnover.runs import (
    Column,
    ColumnInputs,
    Run,
    checked_cells,
    label_text,
    nearest,
    need_pillow,
)
from turnover.ui.pictures import pixels_for

from .security import MEGABYTE, UPLOAD_BYTES
from .shapes import MOST_LETTERS, Cell

MOST_PIXELS = 16_000_000
# What browsers show; decoders of rarer formats are rarely looked at.
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")


def checked_text(text: str) -> str:
    """Return a text that can be asked about, or raise."""
    stripped = text.strip()
    if not stripped:
        raise DataFileError("the text is empty. Type a sentence.")
    if len(stripped) > MOST_LETTERS:
        raise DataFileError(
            f"the text must have at most {MOST_LETTERS:,} characters, got {len(stripped):,}. Use a part of it."
        )
    try:
        stripped.encode()
    except UnicodeEncodeError as error:
        raise DataFileError("the text is not valid Unicode (a lone surrogate). Type it again.") from error
    return stripped


def columns_of(run: Run) -> tuple[Column, ...]:
    """Return the columns that a table is learned from."""
    assert isinstance(run.preparation, ColumnInputs)
    return run.preparation.columns


def checked_values(run: Run, values: Mapping[str, Any], row: int | None) -> dict[str, Any]:
    """Return values of a table's row: those of `row` (None: all missing), changed by what was given."""
    columns = columns_of(run)
    known = [column.name for column in columns]
    unknown = [name for name in values if name not in known]
    if unknown:
        near = nearest(unknown[0], known)
        hint = f"Did you mean {near!r}?" if near else f"There are {', '.join(map(repr, known[:12]))}."
        raise DataFileError(f"there is no feature column {unknown[0]!r}. {hint}")
    cells = dict.fromkeys(known) if row is None else dict(run.rows.values.iloc[row])
    return cells | checked_cells(columns, values)


def as_cells(values: Mapping[str, Any]) -> list[Cell]:
    """Return values as they are shown."""
    return [Cell(name=name, value=label_text(value)) for name, value in values.items()]


def read_upload(content: bytes, run: Run) -> np.ndarray:
    """Return an image as the run's images are: uint8 [height, width, channels]."""
    image_module = need_pillow()
    if not content:
        raise DataFileError("no image was uploaded. Choose a file.")
    if len(content) > UPLOAD_BYTES:
        raise DataFileError(f"the image must have at most {UPLOAD_BYTES // MEGABYTE} MB. Scale it down.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Only the header is read here.
            with image_module.open(io.BytesIO(content), formats=_FORMATS) as image:
                width, height = image.size
            if width * height > MOST_PIXELS:
                raise DataFileError(
                    f"the image must have at most {MOST_PIXELS // 10**6} million pixels, got {width:,} x {height:,}. "
                    "Scale it down."
                )
            return pixels_for(run, io.BytesIO(content))
    except DataFileError as error:
        raise DataFileError(f"the image cannot be used: {error}") from error
    except (Warning, OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        known = ", ".join(_FORMATS)
        raise DataFileError(f"this file cannot be read as an image. Upload an undamaged {known} file.") from error
