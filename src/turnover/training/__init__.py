"""One training recipe, and many trainings of it on subsets of the rows.

Owns: how a model is trained from a seed on chosen rows, bit for bit the same each time, and retraining in worker
processes. Must not know: scores, or what the trained models are asked.
"""

from .identity import data_digest, described, digest_of, ids_of, plain_text, weights_digest
from .recipe import Inputs, Step, TrainingRecipe, seed_step
from .retrain import check_processes, retrain

__all__ = [
    "Inputs",
    "Step",
    "TrainingRecipe",
    "check_processes",
    "data_digest",
    "described",
    "digest_of",
    "ids_of",
    "plain_text",
    "retrain",
    "seed_step",
    "weights_digest",
]
