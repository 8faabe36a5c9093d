"""One training recipe, and many trainings of it on subsets of the rows.

Owns: how a model is trained from a seed on chosen rows, bit for bit the same each time; what results of a recipe depend
on; retraining in worker processes, cached. Must not know: scores, or how methods use the trained models.

| file | content |
| --- | --- |
| `recipe.py` | `TrainingRecipe`: training as a function of rows and seed; digests of rows and weights |
| `retrain.py` | `retrain`: many trainings in processes, cached; `RowMeasure`: losses and predictions of rows |
| `checkpoint.py` | `Checkpoint`: the state of a training in a file, to resume from |
"""

from .checkpoint import Checkpoint, read_state, write_state
from .recipe import Inputs, Step, TrainingRecipe, digest_of, plain_text, scale_problem, seed_step, weights_digest
from .retrain import RowMeasure, check_processes, retrain

__all__ = [
    "Checkpoint",
    "Inputs",
    "RowMeasure",
    "Step",
    "TrainingRecipe",
    "check_processes",
    "digest_of",
    "plain_text",
    "read_state",
    "retrain",
    "scale_problem",
    "seed_step",
    "weights_digest",
    "write_state",
]
