"""TRAK (the package traker) with one model or several."""

import contextlib
import io
import logging
import tempfile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .answers import Answers
from .trainings import State, Trainings

# Its projector draws the projection anew for every batch, so that batches should be large; gradients limit that.
_GRADIENT_BYTES = 1.2e9


def answer(trainings: Trainings, *, models: int) -> Answers:
    """Return what TRAK says; self-influence is the score of each row as a target.

    Args:
        trainings: of the task and seed.
        models: how many it averages over.
    """
    from trak import TRAKer

    ready = trainings.ready
    trained = tuple(trainings.plain(number) for number in range(models))
    states = [one.states[-1] for one in trained]
    with torch.random.fork_rng(devices=[]):
        model = ready.plain.build()
    at_once = max(1, int(_GRADIENT_BYTES / 4 / sum(value.numel() for value in model.parameters())))
    targets = torch.cat([ready.validation[0], ready.inputs]), torch.cat([ready.validation[1], ready.labels])
    # It prints progress and has no option not to.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        traker: Any = TRAKer(
            model=model,
            task="image_classification",
            train_set_size=len(ready.labels),
            save_dir=folder,
            device="cpu",
            proj_dim=ready.config.projection,
            use_half_precision=False,
            projector_seed=trainings.seed,
            logging_level=logging.ERROR,
        )
        for number, state in enumerate(states):
            traker.load_checkpoint(state, model_id=number)
            for batch in _batches((ready.inputs, ready.labels), at_once):
                traker.featurize(batch=batch, num_samples=len(batch[1]))
        traker.finalize_features()
        scores = _scores(traker, states, targets, at_once)
    count = len(ready.validation[1])
    return Answers(scores[:, :count], {"self": scores[:, count:].diagonal().copy()}, trained)


def _scores(traker: Any, states: list[State], targets: tuple[Tensor, Tensor], at_once: int) -> np.ndarray:
    for number, state in enumerate(states):
        traker.start_scoring_checkpoint("targets", state, number, len(targets[1]))
        for batch in _batches(targets, at_once):
            traker.score(batch=batch, num_samples=len(batch[1]))
    return np.array(traker.finalize_scores("targets"))


def _batches(rows: tuple[Tensor, Tensor], at_once: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(rows[0].split(at_once), rows[1].split(at_once), strict=True))
