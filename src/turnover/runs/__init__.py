"""Runs: data, a sensible model, its training and its scores in one folder, resumed where they were interrupted.

Owns: reading data, run folders, networks and trainings of runs, cleaned files, the demo's run. Offers: `start_run` and
`open_run` with `Run` and `RunConfig`; reading and writing of single tables, images and cells; cleansing and retraining
of a run. Must not know: terminals and pages.

| file | content |
| --- | --- |
| `config.py`, `folder.py` | settings; names and checksums of files, run.json, the lock, safe reading and writing |
| `rows.py`, `_packed.py` | rows in one form; many short texts in a few blocks of memory |
| `_splits.py` | which rows train, validate and test, and which are copies |
| `_pixel_scales.py` | pixels that are not bytes, scaled by the training images |
| `reading/`, `inputs/` | files to rows; values to tensors |
| `_labeled_rows.py` | the task of learning labels: data, networks, results |
| `run.py`, `start.py` | `Run`, `open_run`; `start_run`: from settings to a finished run |
| `networks.py`, `training.py` | masked networks by the kind of inputs; the training, with curves |
| `retraining.py` | the training of a run as a recipe; its scores checked against retraining |
| `cleansing.py` | harmful rows of a run; its data without some rows |
| `digits.py` | the demo's run, on digits with changed labels |
"""

from .cleansing import (
    REMOVED,
    CleanedFile,
    RemovedRow,
    check_apart,
    check_cleansing,
    check_cleansing_options,
    check_overwrite,
    cleaned_path,
    removed_rows,
    run_cleansing,
    write_cleansing,
)
from .config import KINDS, PATHS, Kind, RunConfig, Watch
from .digits import DigitsConfig, DigitsResult, run_digits
from .folder import RunFolder, changed_data
from .inputs import Column, ColumnInputs, PixelInputs, checked_cells
from .networks import REPLICAS
from .reading import (
    PARQUET,
    WRITABLE,
    Table,
    label_text,
    nearest,
    need_pillow,
    parquet_rows,
    quotes_are_text,
    read_image,
    same_table,
    separator_of,
    table_bytes,
    text_encoding,
)
from .retraining import (
    RunEvaluation,
    estimated_seconds,
    evaluate_run,
    known_wrong,
    run_recipe,
    training_seconds,
)
from .rows import SPLITS, Rows
from .run import Run, open_run
from .start import start_run
from .training import Curves

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
    "Watch",
    "changed_data",
    "check_apart",
    "check_cleansing",
    "check_cleansing_options",
    "check_overwrite",
    "checked_cells",
    "cleaned_path",
    "estimated_seconds",
    "evaluate_run",
    "known_wrong",
    "label_text",
    "nearest",
    "need_pillow",
    "open_run",
    "parquet_rows",
    "quotes_are_text",
    "read_image",
    "removed_rows",
    "run_cleansing",
    "run_digits",
    "run_recipe",
    "same_table",
    "separator_of",
    "start_run",
    "table_bytes",
    "text_encoding",
    "training_seconds",
    "write_cleansing",
]
