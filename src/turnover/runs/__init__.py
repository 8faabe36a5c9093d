"""Ready-made tasks for the command line: data, a sensible model and its training in one place.

Owns: loading data and training a wrapped model on it. Must not know: terminals and pages.
"""

from .cleaned_file import CleanedFile
from .config import Kind, RunConfig, Watch
from .digits import DigitsConfig, DigitsResult, run_digits
from .folder import RunFolder
from .inputs import Column, ColumnInputs, PixelInputs, checked_cells
from .language_modeling import LanguageModeling
from .language_models import END, ContextWindows, FeedForwardLM, Vocabulary, language_model_sites
from .networks import REPLICAS
from .reading import (
    WRITABLE,
    Table,
    label_text,
    nearest,
    need_pillow,
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
from .run import Run, open_run, start_run
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
from .run_memorized import run_duplicates, run_memorized
from .training import Curves

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
    "LanguageModeling",
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
    "estimated_seconds",
    "evaluate_run",
    "known_wrong",
    "label_text",
    "language_model_sites",
    "nearest",
    "need_pillow",
    "open_run",
    "prove_cleansing",
    "quotes_are_text",
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
    "start_run",
    "table_bytes",
    "text_encoding",
    "training_seconds",
    "write_cleansing",
]
