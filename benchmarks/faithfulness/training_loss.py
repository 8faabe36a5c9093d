"""The mean loss of a row over checkpoints of a training: the simplest rival that there is."""

import numpy as np
import torch
from torch.nn import functional

from .answers import Answers
from .trainings import Trainings


def answer(trainings: Trainings) -> Answers:
    """Return the mean training loss of every row over the checkpoints."""
    ready, trained = trainings.ready, trainings.plain()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = ready.plain.build().eval()
        losses = []
        for state in trained.states:
            model.load_state_dict(state)
            losses.append(functional.cross_entropy(model(ready.inputs), ready.labels, reduction="none").numpy())
    return Answers(None, {"self": np.mean(losses, 0)}, (trained,))
