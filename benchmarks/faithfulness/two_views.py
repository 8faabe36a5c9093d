"""The loss of a row by the part that never learned it and by the whole network, over checkpoints of one training.

The flipped part knows what other rows say of it; the whole network, while it learns, which rows it learns late.
Replicas, checkpoints and the plain sum were chosen on trainings 100 to 102, which are not reported: with two replicas
.918 of digits' wrong labels were found, .530 of SST-2's and .530 of CIFAR-10's; by the flipped part alone .890, .524
and .522, and by it at the end of the training .892, .526 and .473. Each view alone is reported beside both.
"""

import time

import numpy as np
import torch
from torch.nn import functional

import turnover

from .answers import Answers
from .tasks import Masks
from .trainings import Trainings

REPLICAS, CHECKPOINTS = 2, 4
FLIPPED, WHOLE = "flipped", "whole"


def answer(trainings: Trainings, views: tuple[str, ...] = (FLIPPED, WHOLE)) -> Answers:
    """Return the mean loss of every row over the views and all checkpoints.

    Args:
        trainings: of the task.
        views: the part that never learned a row, the whole network, or both.
    """
    ready = trainings.ready
    trained = trainings.masked(Masks(REPLICAS), checkpoints=CHECKPOINTS)
    model, rows, labels = trained.model, ready.rows_with_ids(), ready.labels.numpy()
    began = time.process_time()
    losses = []
    for state in trained.states:
        model.load_state_dict(state)
        if FLIPPED in views:
            unseen = np.asarray(turnover.Influence(model, train=rows).out_of_sample(progress=False).probs)
            losses.append(-np.log(np.maximum(unseen[np.arange(len(labels)), labels], 1e-12)))
        if WHOLE in views:
            with torch.no_grad():
                losses.append(functional.cross_entropy(model(ready.inputs), ready.labels, reduction="none").numpy())
    # The whole network has seen the row: what it says alone stands beside the training loss of others.
    kind = "unseen" if FLIPPED in views else "self"
    return Answers(None, {kind: np.mean(losses, 0)}, (trained,), time.process_time() - began)
