"""One training recipe, and many trainings of it on subsets of the rows.

Owns: how a model is trained from a seed on chosen rows, bit for bit the same each time, and retraining in worker
processes. Must not know: scores, or what the trained models are asked.
"""

from .recipe import TrainingRecipe
from .retrain import retrain

__all__ = ["TrainingRecipe", "retrain"]
