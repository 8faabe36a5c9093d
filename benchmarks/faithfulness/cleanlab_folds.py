"""cleanlab's label quality from predictions of models that did not see a row: one training a fold."""

import numpy as np
import torch

from .answers import Answers
from .trainings import Trained, Trainings


def answer(trainings: Trainings, *, folds: int) -> Answers:
    """Return what cleanlab says.

    Args:
        trainings: of the task and seed; the folds are trained by the same recipe.
        folds: how many.
    """
    from cleanlab.rank import get_label_quality_scores

    ready, seed = trainings.ready, trainings.seed
    fold = np.random.default_rng(seed).permutation(len(ready.labels)) % folds
    probs = np.zeros((len(ready.labels), ready.size[2]), np.float32)
    for number in range(folds):
        # Batches keep their places for rows that are left out, as everywhere in this comparison.
        model = ready.plain.fit(torch.from_numpy(fold != number), seed=seed + 1000 * number)
        with torch.no_grad():
            probs[fold == number] = model(ready.inputs[torch.from_numpy(fold == number)]).softmax(1).numpy()
    quality = get_label_quality_scores(ready.labels.numpy(), probs)
    return Answers(None, {"unseen": -np.asarray(quality)}, _no_training())


def _no_training() -> tuple[Trained, ...]:
    """Return no trainings: those of the folds are within the seconds of scoring, being of no use to anyone else."""
    return ()
