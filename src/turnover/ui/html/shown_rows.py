"""Rows as readers see them, each once: texts shortened, images as small pictures, tables as their cells."""

import base64
import io
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turnover.errors import MissingExtraError
from turnover.runs import SPLITS
from turnover.ui.words import cell_text, shortened

from .data_rows import Cell, ShownRow

if TYPE_CHECKING:
    from turnover.runs import Run

_MOST_CELLS = 12
_LARGEST_PICTURE = 96
# Up to this size every pixel counts; larger pictures are photographs more often than not.
_EXACT_PICTURE = 20


class ShownRows:
    """The rows of a run that a report speaks of.

    Args:
        run: whose rows they are.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._shown: dict[int, ShownRow] = {}

    @cached_property
    def _columns(self) -> list[str]:
        return [str(name) for name in self._run.rows.values.columns[:_MOST_CELLS]]

    def __call__(self, number: int) -> ShownRow:
        """Return a row as it is shown; from now on it is one of those that are."""
        number = int(number)
        if number not in self._shown:
            self._shown[number] = self._made(number)
        return self._shown[number]

    @property
    def all(self) -> tuple[ShownRow, ...]:
        """Return all rows that were asked for, by their numbers."""
        return tuple(self._shown[number] for number in sorted(self._shown))

    def label(self, number: int) -> str | None:
        """Return the label of a row as it stands in the data."""
        label = int(self._run.rows.labels[number])
        return None if label < 0 else self._run.label_names[label]

    def _made(self, number: int) -> ShownRow:
        rows = self._run.rows
        return ShownRow(
            row=number,
            name=rows.names[number],
            split=SPLITS[int(self._run.splits[number])],
            label=self.label(number),
            text=shortened(rows.values[number]) if rows.kind == "text" else None,
            image=picture(rows.values[number]) if rows.kind == "image" else None,
            cells=self._cells(number) if rows.kind == "table" else (),
            group=rows.groups[number] if rows.groups else None,
            more_cells=max(rows.values.shape[1] - _MOST_CELLS, 0) if rows.kind == "table" else 0,
        )

    def _cells(self, number: int) -> tuple[Cell, ...]:
        values = self._run.rows.values.iloc[number]
        return tuple((name, cell_text(values.iloc[place])) for place, name in enumerate(self._columns))


def picture(pixels: np.ndarray) -> str:
    """Return an image, uint8 [height, width, channels], as a small picture in a data URI.

    Example:
        >>> picture(np.zeros((8, 8, 1), np.uint8))[:22]
        'data:image/png;base64,'
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pictures need pillow, which is not installed: pip install 'turnover[cli]'") from error
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((_LARGEST_PICTURE, _LARGEST_PICTURE))
    file = io.BytesIO()
    exact = max(image.size) <= _EXACT_PICTURE or image.mode not in ("L", "RGB")
    image.save(file, "PNG", optimize=True) if exact else image.save(file, "JPEG", quality=82)
    return f"data:image/{'png' if exact else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"
