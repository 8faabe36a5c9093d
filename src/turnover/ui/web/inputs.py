"""What a user typed, edited or sent, checked, as the run takes it."""

import base64
import io
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from turnover.errors import DataFileError
from turnover.runs import (
    Column,
    ColumnInputs,
    PixelInputs,
    Run,
    checked_cells,
    label_text,
    nearest,
    need_pillow,
    read_image,
)

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
    found = dict.fromkeys(known) if row is None else dict(run.rows.values.iloc[row])
    return found | checked_cells(columns, values)


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
            assert isinstance(run.preparation, PixelInputs)
            size, channels = run.preparation.size, run.preparation.channels
            pixels = read_image(io.BytesIO(content), size=size[0])
    except DataFileError as error:
        raise DataFileError(f"the image cannot be used: {error}") from error
    except (Warning, OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        known = ", ".join(_FORMATS)
        raise DataFileError(f"this file cannot be read as an image. Upload an undamaged {known} file.") from error
    if pixels.shape[:2] != size:
        pixels = _fitted(pixels, size)
    # A copy: what Pillow hands over cannot be written to, which torch warns of.
    return np.array(_gray(pixels) if channels == 1 else pixels)


def as_png(pixels: np.ndarray) -> bytes:
    """Return uint8 [height, width, channels] as a PNG file."""
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(held, "PNG")
    return held.getvalue()


def as_data_uri(pixels: np.ndarray) -> str:
    """Return an image as a page can hold it within itself."""
    return f"data:image/png;base64,{base64.b64encode(as_png(pixels)).decode()}"


def _fitted(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return an image in the height and width of arrays that are not square."""
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def _gray(pixels: np.ndarray) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).convert("L"))[..., None]
