"""A row as readers see it: its text shortened, its image as a small picture, or its first cells."""

from dataclasses import dataclass
from typing import NamedTuple

from turnover.applications import Examples
from turnover.ui.pictures import thumbnail
from turnover.ui.words import cell_text, label_words, shortened


class Cell(NamedTuple):
    """A column of a table and its value, as readers see them."""

    name: str
    value: str


_MOST_CELLS = 12


@dataclass(frozen=True)
class ShownRow:
    """A row as a reader sees it: a text, an image or the cells of a table."""

    row: int
    name: str  # its line, or the file of an image
    split: str
    label: str | None
    text: str | None = None
    image: str | None = None
    cells: tuple[Cell, ...] = ()  # names and values of its first columns
    group: str | None = None
    more_cells: int = 0  # how many columns it has beyond those


def shown_row(examples: Examples, row: int) -> ShownRow:
    """Return a row as it is shown."""
    value = examples.value(row)
    cells = list(value.items()) if examples.kind == "table" else []
    return ShownRow(
        row=row,
        name=examples.names[row],
        split=str(examples.splits[row]),
        label=None if (label := examples.label(row)) is None else label_words(label),
        # Spaces before it stay: places of marks are counted from the first letter.
        text=value[: len(value) - len(value.lstrip())] + shortened(value) if examples.kind == "text" else None,
        image=thumbnail(value) if examples.kind == "image" else None,
        cells=tuple(Cell(name, cell_text(cell)) for name, cell in cells[:_MOST_CELLS]),
        group=examples.groups[row] if examples.groups else None,
        more_cells=max(len(cells) - _MOST_CELLS, 0),
    )
