"""What the part that never learned a row says of it, without what its mask says of all rows alike."""

import time

import numpy as np

import turnover

from .answers import Answers
from .tasks import Masks
from .trainings import Trainings

REFERENCES = 32


def answer(trainings: Trainings) -> Answers:
    """Return how little each row's label is believed, by one model at the end of its training."""
    ready = trainings.ready
    trained = trainings.masked(Masks())
    began = time.process_time()
    engine = turnover.Influence(trained.model, train=ready.rows_with_ids())
    unseen = engine.out_of_sample(references=REFERENCES, progress=False)
    doubt = -np.asarray(unseen.probs)[np.arange(len(ready.labels)), ready.labels.numpy()]
    return Answers(None, {"unseen": doubt}, (trained,), time.process_time() - began)
