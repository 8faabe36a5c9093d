"""TRAK (the package traker) with one model or several."""

import contextlib
import io
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .answers import Answers
from .trainings import State, Trainings

_GRADIENT_BYTES = 4e8  # of the rows that are projected at once


def answer(trainings: Trainings, *, models: int) -> Answers:
    """Return what TRAK says; the features of the rows under each model count as a training.

    Self-influence is the score of each row as a target. Its projected gradient is that of the row itself, which is
    there already.

    Args:
        trainings: of the task and seed.
        models: how many it averages over.
    """
    ready, name = trainings.ready, f"{models} models"
    trained = [trainings.plain(number) for number in range(models)]
    with contextlib.redirect_stderr(io.StringIO()):  # it prints progress and has no option not to
        features = [
            trainings.once(("TRAK features", number), partial(_featurize, trainings, number))
            for number in range(models)
        ]
        traker = _traker(trainings)
        for number in range(models):
            traker.start_scoring_checkpoint(name, trained[number].states[-1], number, len(ready.validation[1]))
            for batch in _batches(ready.validation, traker.model):
                traker.score(batch=batch, num_samples=len(batch[1]))
        pairs = np.array(traker.finalize_scores(name, model_ids=list(range(models))))
    return Answers(pairs, {"self": _own(traker, models)}, (*trained, *features))


def _traker(trainings: Trainings) -> Any:
    from trak import TRAKer
    from trak.projectors import BasicProjector, ProjectionType

    ready = trainings.ready
    with torch.random.fork_rng(devices=[]):
        model = ready.plain.build()
    size = ready.config.projection
    kind: Any = ProjectionType.normal  # its values are words, its types say otherwise
    # In one block the projection is drawn once; in several, as it does by itself, anew for every batch.
    projector = BasicProjector(
        grad_dim=sum(value.numel() for value in model.parameters()),
        proj_dim=size,
        seed=trainings.seed,
        proj_type=kind,
        device=torch.device("cpu"),
        block_size=size,
    )
    return TRAKer(
        model=model,
        task="image_classification",
        train_set_size=len(ready.labels),
        save_dir=str(Path(trainings.scratch) / "trak"),
        device="cpu",
        projector=projector,
        use_half_precision=False,
        logging_level=logging.ERROR,
    )


def _featurize(trainings: Trainings, number: int) -> tuple[nn.Module, tuple[State, ...]]:
    ready, traker = trainings.ready, _traker(trainings)
    traker.load_checkpoint(trainings.plain(number).states[-1], model_id=number)
    for batch in _batches((ready.inputs, ready.labels), traker.model):
        traker.featurize(batch=batch, num_samples=len(batch[1]))
    traker.finalize_features(model_ids=[number])
    return traker.model, ()


def _own(traker: Any, models: int) -> np.ndarray:
    """Return the score of each row as a target, as `finalize_scores` would say it."""
    products, slopes = [], []
    for number in range(models):
        traker.saver.load_current_store(number)
        store = traker.saver.current_store
        products.append((store["features"] * store["grads"]).sum(1))
        slopes.append(store["out_to_loss"][:, 0])
    return np.mean(products, 0) * np.mean(slopes, 0)


def _batches(rows: tuple[Tensor, Tensor], model: nn.Module) -> list[tuple[Tensor, Tensor]]:
    at_once = max(1, int(_GRADIENT_BYTES / 4 / sum(value.numel() for value in model.parameters())))
    return list(zip(rows[0].split(at_once), rows[1].split(at_once), strict=True))
