"""The baselines: methods of other packages, cleanlab's folds, training loss, and models on random subsets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover_bench.baselines import FeldmanZhang, PackageMethod, Trak

from .trainings import Answers, Trained, Trainings, margins_of


def packaged(trainings: Trainings, method: type[PackageMethod], *, models: int, options: Mapping[str, Any]) -> Answers:
    """Return scores of a method of another package; what it computes before the first question counts as a training.

    Args:
        trainings: of the task and seed.
        method: its class.
        models: how many trainings it explains together; of one it gets all checkpoints.
        options: those of the class.
    """
    ready = trainings.ready
    trained = [trainings.plain(number) for number in range(models)]
    weights = trained[0].states if method is not Trak else [one.states[-1] for one in trained]
    how = {**options, "projection": ready.config.projection} if method is Trak else options
    prepared = trainings.once(
        (method, models, *options.items()), lambda: (method(ready.plain, weights, seed=trainings.seed, **how), ())
    )
    asked: PackageMethod = prepared.model
    own = {"self": np.asarray(asked.self_influence().values)} if method.has_self_influence else {}
    return Answers(np.asarray(asked.pairwise(ready.validation).values), own, (*trained, prepared))


def untrained(trainings: Trainings) -> nn.Module:
    """Return a plain model for weights to be loaded into, drawn without touching the random generator."""
    with torch.random.fork_rng(devices=[]):
        return trainings.ready.plain.build()


def cleanlab(trainings: Trainings, *, folds: int) -> Answers:
    """Return cleanlab's label quality from held-out predictions, one training per fold."""
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
    # No trainings: those of the folds are within the seconds of scoring, being of no use to anyone else.
    return Answers(None, {"held_out": -np.asarray(quality)}, ())


def training_loss(trainings: Trainings) -> Answers:
    """Return the mean training loss of every row over the checkpoints."""
    trained, labels = trainings.plain(), trainings.ready.labels
    losses = [
        functional.cross_entropy(outputs, labels, reduction="none").numpy()
        for outputs in _row_outputs(trainings, trained)
    ]
    return Answers(None, {"self": np.mean(losses, 0)}, (trained,))


def area_under_margin(trainings: Trainings) -> Answers:
    """Return AUM (Pleiss et al. 2020), negated: the mean margin of the given label, taken after every epoch."""
    trained, labels = trainings.plain_by_epoch(), trainings.ready.labels
    margins = torch.stack([margins_of(outputs, labels) for outputs in _row_outputs(trainings, trained)])
    return Answers(None, {"self": -margins.mean(0).numpy()}, (trained,))


def forgetting(trainings: Trainings) -> Answers:
    """Return forgetting counts (Toneva et al. 2019) of every row, taken after every epoch."""
    trained, labels = trainings.plain_by_epoch(), trainings.ready.labels
    correct = torch.stack([outputs.argmax(1) == labels for outputs in _row_outputs(trainings, trained)])
    return Answers(None, {"self": forgetting_counts(correct.numpy())}, (trained,))


def forgetting_counts(correct: np.ndarray) -> np.ndarray:
    """Return how often each row goes from correct to wrong, [epochs, rows] being given.

    A row that is never correct has never been learned and counts more than any that is forgotten.
    """
    counts = (correct[:-1] & ~correct[1:]).sum(0).astype(np.float64)
    return np.where(correct.any(0), counts, len(correct))


def _row_outputs(trainings: Trainings, trained: Trained) -> list[Tensor]:
    """Return the outputs of all rows by the weights of every checkpoint."""
    model, found = untrained(trainings).eval(), []
    with torch.no_grad():
        for state in trained.states:
            model.load_state_dict(state)
            found.append(model(trainings.ready.inputs))
    return found


def feldman_zhang(trainings: Trainings) -> Answers:
    """Return scores of many models on random subsets; their trainings are within the seconds of scoring."""
    ready = trainings.ready
    method = FeldmanZhang(ready.plain, models=ready.config.subset_models, seed=trainings.seed)
    pairs = np.nan_to_num(method.pairwise(ready.validation, progress=False).values)
    own = np.nan_to_num(method.self_influence(progress=False).values)
    return Answers(pairs, {"self": own}, ())
