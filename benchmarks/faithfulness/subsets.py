"""Feldman & Zhang: many models on random subsets of the rows."""

import numpy as np

from turnover.baselines import FeldmanZhang

from .answers import Answers
from .trainings import Trainings


def answer(trainings: Trainings) -> Answers:
    """Return what the models say; their trainings are within the seconds of scoring."""
    ready = trainings.ready
    method = FeldmanZhang(ready.plain, models=ready.config.subset_models, seed=trainings.seed)
    pairs = np.nan_to_num(method.pairwise(ready.validation, progress=False).values)
    own = np.nan_to_num(method.self_influence(progress=False).values)
    return Answers(pairs, {"self": own}, ())
