"""Ready-made tasks for the command line: data, a sensible model and its training in one place.

Owns: loading data and training a wrapped model on it. Must not know: terminals and pages.
"""

from .cleaned_file import CleanedFile
from .config import Kind, RunConfig
from .digits import DigitsConfig, DigitsResult, run_digits
from .feed_forward_lm import FeedForwardLM, language_model_sites
from .fitting import Curves
from .folder import RunFolder, read_about, write_whole
from .inputs.columns import Column, ColumnInputs, checked_cells
from .inputs.pixels import PixelInputs
from .lm_runs import LmRun
from .networks import REPLICAS
from .opening import open_any, start_any
from .reading.columns import nearest
from .reading.encoding import text_encoding
from .reading.files import Table, quotes_are_text, separator_of
from .reading.labels import label_text
from .reading.pixels import need_pillow, read_image
from .reading.row_files import WRITABLE, table_bytes
from .reading.same_table import same_table
from .rows import SPLITS, Rows
from .run_cleanse import (
    REMOVED,
    RemovedRow,
    cleaned_path,
    prove_cleansing,
    refuse_cleansing,
    refuse_to_overwrite,
    removed_rows,
    run_cleansing,
    write_cleansing,
)
from .run_evaluation import RunEvaluation, evaluate_run, foretold_seconds, known_wrong
from .run_memorized import run_duplicates, run_memorized
from .run_recipe import run_recipe, training_seconds
from .runs import Run
from .starting import fitting_of, start_run
from .token_data import END, ContextWindows, Vocabulary
from .watching import Watch

__all__ = [
    "END",
    "REMOVED",
    "REPLICAS",
    "SPLITS",
    "WRITABLE",
    "CleanedFile",
    "Column",
    "ColumnInputs",
    "ContextWindows",
    "Curves",
    "DigitsConfig",
    "DigitsResult",
    "FeedForwardLM",
    "Kind",
    "LmRun",
    "PixelInputs",
    "RemovedRow",
    "Rows",
    "Run",
    "RunConfig",
    "RunEvaluation",
    "RunFolder",
    "Table",
    "Vocabulary",
    "Watch",
    "checked_cells",
    "cleaned_path",
    "evaluate_run",
    "fitting_of",
    "foretold_seconds",
    "known_wrong",
    "label_text",
    "language_model_sites",
    "nearest",
    "need_pillow",
    "open_any",
    "prove_cleansing",
    "quotes_are_text",
    "read_about",
    "read_image",
    "refuse_cleansing",
    "refuse_to_overwrite",
    "removed_rows",
    "run_cleansing",
    "run_digits",
    "run_duplicates",
    "run_memorized",
    "run_recipe",
    "same_table",
    "separator_of",
    "start_any",
    "start_run",
    "table_bytes",
    "text_encoding",
    "training_seconds",
    "write_cleansing",
    "write_whole",
]
