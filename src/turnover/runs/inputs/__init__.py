"""From raw values to what a network takes: texts, columns of a table, pixels.

Owns: fitting on training rows, turning values into tensors, and the JSON that a run folder keeps of it. Must not know:
networks, runs.

| file | content |
| --- | --- |
| `inputs.py` | which inputs a run has; fitting, keeping and reading them |
| `_texts.py` | hashed pieces of words, features of a frozen encoder, token numbers |
| `columns.py` | columns of a table: standardized numbers, categories as one bit each; checking new cells |
| `pixels.py` | images, channels first and standardized |
"""

from .columns import Column, ColumnInputs, checked_cells
from .inputs import Inputs, fit_inputs, inputs_as_json, inputs_of_rows, read_inputs
from .pixels import PixelInputs

__all__ = [
    "Column",
    "ColumnInputs",
    "Inputs",
    "PixelInputs",
    "checked_cells",
    "fit_inputs",
    "inputs_as_json",
    "inputs_of_rows",
    "read_inputs",
]
