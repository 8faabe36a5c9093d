"""The rows of a run: what was read, in one form for texts, images and tables."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their file. The number of a row is its instance id, unless rows have groups.

    Attributes:
        kind: what the rows are.
        frame: all columns as they were read, one line a row; of images, their names and labels.
        values: what is learned from: texts, uint8 pixels [rows, height, width, channels], or the columns of a table.
        labels: class numbers [rows]; -1 where a row has no label.
        label_names: the classes, as they stand in the data.
        label_column: name of the label's column in `frame`.
        name: what to call the data.
        names: what to call a row: its line, or the file of an image.
        fixed: split of each row that was given by separate files, as index into SPLITS, -1 for rows that no file
            assigned; empty: there were no separate files.
        groups: group of each row, or empty.
        notes: what was found and done while reading, a sentence each, for the report.
    """

    kind: Literal["text", "image", "table"]
    frame: "pd.DataFrame"
    values: Any
    labels: np.ndarray
    label_names: tuple[str, ...]
    label_column: str
    name: str
    names: tuple[str, ...]
    fixed: np.ndarray = field(default_factory=lambda: np.empty(0, np.int8))
    groups: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    def taken(self, places: np.ndarray) -> "Rows":
        """Return only some rows, in this order."""
        values = [self.values[place] for place in places] if self.kind == "text" else None
        if values is None:
            values = self.values[places] if self.kind == "image" else self.values.iloc[places].reset_index(drop=True)
        return Rows(
            self.kind,
            self.frame.iloc[places].reset_index(drop=True),
            values,
            self.labels[places],
            self.label_names,
            self.label_column,
            self.name,
            tuple(self.names[place] for place in places),
            self.fixed[places] if len(self.fixed) else self.fixed,
            tuple(self.groups[place] for place in places) if self.groups else (),
            self.notes,
        )
