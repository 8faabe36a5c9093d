"""Runs: data, a sensible model, its training and its scores in one folder, resumed where they were interrupted.

Owns: reading data, run folders, networks and trainings of runs, cleaned files, the demo's run. Offers: `start_run` and
`open_run` with `Run` and `RunConfig`; reading and writing of single tables, images and cells; cleansing and retraining
of a run. Must not know: terminals and pages. Needs the extra `cli`: pyarrow holds tables, pydantic declares what is
read from files.

| file | content |
| --- | --- |
| `config.py`, `folder.py` | settings; names and checksums of files, run.json, the lock, safe reading and writing |
| `files.py` | tables as files: csv, tsv, jsonl, json, parquet |
| `table.py` | `Rows`: one Arrow table with roles (name, text or cells, label, split, group), kept in the folder |
| `columns.py`, `images.py` | tables as rows, with labels as classes or numbers; images as rows |
| `_reading.py`, `_splits.py` | which kind of data it is, and who reads it; which rows train, validate and test |
| `inputs.py` | values to tensors, and the network that suits them |
| `tasks.py` | what is learned, classes or numbers: targets, losses, predictions, results |
| `training.py`, `run.py` | the training, with curves; `Run`, `start_run`, `open_run` |
| `retraining.py` | the training of a run as a recipe; its scores checked against retraining |
| `cleansing.py` | harmful rows of a run; its data without some rows |
| `digits.py` | the demo's run, on digits with changed labels |

Data flows one way: `read_rows` gives `Rows`, `fit_inputs` tensors, `fit` a network, `Run.score` scores; each hands on
what it computed, and a resume reads it from the folder.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .columns import label_text, nearest
from .config import KINDS, PATHS, Kind, RunConfig, Watch
from .files import (
    PARQUET,
    WRITABLE,
    Table,
    quotes_are_text,
    rows_of_file,
    same_table,
    separator_of,
    table_bytes,
    text_encoding,
    with_values,
)
from .folder import RunFolder, changed_data
from .images import need_pillow, read_image
from .inputs import REPLICAS, Column, ColumnInputs, PixelInputs, checked_cells
from .run import Run, open_run, start_run
from .table import SPLITS, Rows
from .tasks import Task
from .training import Curves

if TYPE_CHECKING:
    from .cleansing import (
        REMOVED,
        CleanedFile,
        RemovedRow,
        check_cleansing,
        check_cleansing_options,
        check_overwrite,
        cleaned_path,
        removed_rows,
        run_cleansing,
        write_cleansing,
    )
    from .digits import DigitsConfig, DigitsResult, run_digits
    from .retraining import (
        RunEvaluation,
        evaluate_run,
        known_wrong,
        run_recipe,
    )

__all__ = [
    "KINDS",
    "PARQUET",
    "PATHS",
    "REMOVED",
    "REPLICAS",
    "SPLITS",
    "WRITABLE",
    "CleanedFile",
    "Column",
    "ColumnInputs",
    "Curves",
    "DigitsConfig",
    "DigitsResult",
    "Kind",
    "PixelInputs",
    "RemovedRow",
    "Rows",
    "Run",
    "RunConfig",
    "RunEvaluation",
    "RunFolder",
    "Table",
    "Task",
    "Watch",
    "changed_data",
    "check_cleansing",
    "check_cleansing_options",
    "check_overwrite",
    "checked_cells",
    "cleaned_path",
    "evaluate_run",
    "known_wrong",
    "label_text",
    "nearest",
    "need_pillow",
    "open_run",
    "quotes_are_text",
    "read_image",
    "removed_rows",
    "rows_of_file",
    "run_cleansing",
    "run_digits",
    "run_recipe",
    "same_table",
    "separator_of",
    "start_run",
    "table_bytes",
    "text_encoding",
    "with_values",
    "write_cleansing",
]

# What a run does not need is loaded when it is first used.
_LATER = ("digits", "retraining", "cleansing")


def __getattr__(name: str) -> Any:
    """Load the file of a name when the name is first used."""
    if name in __all__:
        for file in _LATER:
            if hasattr(module := import_module(f".{file}", __name__), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
