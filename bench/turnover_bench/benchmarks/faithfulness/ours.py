"""Turn-over dropout: the original estimator, each addition alone and together, what else was tried, and row scores."""

import inspect
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import turnover
from turnover.applications import RowRecord, TrainingRecord, ridge_heads, wrong_labels
from turnover.influence import EstimatorOption, Ridge
from turnover.training import Step

from .tasks import Masks
from .trainings import Answers, State, Trainings, margins_of


@dataclass(frozen=True)
class Ours:
    """One way to estimate.

    Attributes:
        masks: how the network is masked; None: with the benchmark's number of replicas.
        measure: of a query.
        estimator: as `turnover.Influence` takes it.
        control: the linear control variate, or none.
        against: what the flipped subnetwork is compared with.
        all_layers: denoise on the features of all layers instead of the last.
        across_queries: shrink the scores of each row across queries.
    """

    masks: Masks | None = field(default_factory=Masks)
    measure: str = "loss"
    estimator: EstimatorOption = "tod"
    control: str | None = None
    against: str = "keep"
    all_layers: bool = False
    across_queries: bool = False


REPORTED: dict[str, Ours] = {
    "tod": Ours(),
    "replicas": Ours(None),
    "ridge": Ours(estimator=Ridge()),
    "control": Ours(control="linear"),
    "probability": Ours(measure="probability"),
    "replicas_ridge": Ours(None, estimator=Ridge()),
    "replicas_ridge_gradients": Ours(None, estimator=Ridge(gradients=1, scale="query")),
    "replicas_curvature": Ours(None, estimator="auto"),
}
# What the default is chosen from, on trainings of TRIED_ON that are not reported; whichever wins is reported too.
CANDIDATES: dict[str, Ours] = {
    **REPORTED,
    "replicas_control": Ours(None, control="linear"),
    "replicas_control_ridge": Ours(None, estimator=Ridge(), control="linear"),
    "replicas_ridge_probability": Ours(None, "probability", Ridge()),
    "replicas_ridge_margin": Ours(None, "margin", Ridge()),
    "replicas_ridge_flip": Ours(None, estimator=Ridge(view="flip")),
    "replicas_ridge_gradients_margin": Ours(None, "margin", Ridge(gradients=1, scale="query")),
    "replicas_control_ridge_probability": Ours(None, "probability", Ridge(), "linear"),
}


def estimate(how: Ours, trainings: Trainings, replicas: int) -> Answers:
    """Return the scores of turn-over dropout."""
    ready = trainings.ready
    trained = trainings.masked(how.masks or Masks(replicas))
    if how.all_layers:
        layers = tuple(name for name, part in ready.plain.build().named_modules() if isinstance(part, nn.Linear))
        ridge = how.estimator if isinstance(how.estimator, Ridge) else Ridge()
        how = replace(how, estimator=replace(ridge, layers=layers))
    influence = turnover.Influence(trained.model, **_options(how, ready.rows_with_ids()))
    pairs = np.asarray(influence.pairwise(ready.validation, progress=False).values, np.float64)
    if how.across_queries:
        pairs = shrunk_across_queries(pairs, np.asarray(influence.null(ready.validation).values, np.float64))
    mean = influence.mean(ready.validation, progress=False).values if how.estimator == "auto" else None
    own: dict[str, np.ndarray] = {}
    began = time.process_time()
    if how.estimator == "tod" and how.control is None:  # neither changes row scores
        held_out = influence.out_of_sample(progress=False)
        own = {
            "self": influence.self_influence(progress=False).values,
            "held_out": -np.asarray(held_out.probs)[np.arange(len(ready.labels)), ready.labels.numpy()],
        }
    return Answers(pairs, own, (trained,), time.process_time() - began if own else None, mean)


def without_masks(trainings: Trainings, *, models: int) -> Answers:
    """Return scores of the recommended estimator on plain networks, which were never wrapped."""
    ready = trainings.ready
    trained = [trainings.plain(number) for number in range(models)]
    influence = turnover.Influence([one.model for one in trained], train=ready.rows())
    pairs = np.asarray(influence.pairwise(ready.validation, progress=False).values, np.float64)
    mean = influence.mean(ready.validation, progress=False).values
    return Answers(pairs, {}, tuple(trained), mean=mean)


def can(how: Ours) -> bool:
    """Return whether this version of turnover has what an estimate needs."""
    return how.control is None or "control" in inspect.signature(turnover.Influence).parameters


def _options(how: Ours, rows: object) -> dict[str, Any]:
    options = {"train": rows, "estimator": how.estimator, "measure": how.measure, "against": how.against}
    return options | ({} if how.control is None else {"control": how.control})


TRIED_ON = ("digits", "sst2")
_RIDGE = Ridge()
ALONE = "8 replicas, influence functions alone"

EXPLORED: dict[str, Ours] = {
    "keep .3, ridge": Ours(Masks(keep=0.3), estimator=_RIDGE),
    "keep .7, ridge": Ours(Masks(keep=0.7), estimator=_RIDGE),
    "against the full network, ridge": Ours(estimator=_RIDGE, against="full"),
    "layers twice as wide": Ours(Masks(wider=2)),
    "layers twice as wide, ridge": Ours(Masks(wider=2), estimator=_RIDGE),
    "ridge on features of the flipped view": Ours(estimator=Ridge(view="flip")),
    "ridge on features of all layers": Ours(estimator=_RIDGE, all_layers=True),
    "ridge, strength by cross-validation": Ours(estimator=Ridge(choose="gcv")),
    "ridge, strength by likelihood": Ours(estimator=Ridge(choose="likelihood")),
    "ridge, margin instead of loss": Ours(measure="margin", estimator=_RIDGE),
    "shrinkage across queries": Ours(across_queries=True),
    "ridge, shrinkage across queries": Ours(estimator=_RIDGE, across_queries=True),
    "ridge, scaled by query": Ours(estimator=Ridge(scale="query")),
    "ridge and influence functions": Ours(estimator=Ridge(gradients=1)),
    "ridge and influence functions, scaled by query": Ours(estimator=Ridge(gradients=1, scale="query")),
    "ridge and twice as much of them, scaled by query": Ours(estimator=Ridge(gradients=2, scale="query")),
    "ridge on the flipped view and influence functions": Ours(estimator=Ridge(view="flip", gradients=1, scale="query")),
    "ridge and influence functions of all layers": Ours(estimator=Ridge(gradients=1, scale="query"), all_layers=True),
    # More of them follow retraining better; but the null grows with them, until no row is significant.
    "8 replicas, ridge and twice the influence functions": Ours(None, estimator=Ridge(gradients=2, scale="query")),
    "8 replicas, ridge and four times the influence functions": Ours(None, estimator=Ridge(gradients=4, scale="query")),
    # The default without the scores of masks, which are a thousandth of it.
    ALONE: Ours(None, estimator=Ridge(gradients=1000, scale="query")),
}


def shrunk_across_queries(scores: np.ndarray, null: np.ndarray) -> np.ndarray:
    """Return the posterior mean of scores, rows being draws of one normal distribution over the queries.

    The covariance of the noise is that of null ids; what the covariance of the scores has beyond it is signal.

    Args:
        scores: [rows, queries].
        null: scores of null ids, [ids, queries].
    """
    both = scores.T @ scores / len(scores)
    values, vectors = np.linalg.eigh(both - null.T @ null / len(null))
    signal = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return scores @ np.linalg.solve(both + 1e-9 * np.trace(both) * np.eye(len(both)), signal)


REPLICAS, CHECKPOINTS = 2, 4
FLIPPED, FULL = "flipped", "whole"


def two_views(trainings: Trainings, views: tuple[str, ...] = (FLIPPED, FULL)) -> Answers:
    """Return the mean loss of every row over the views and all checkpoints."""
    ready = trainings.ready
    trained = trainings.masked(Masks(REPLICAS), checkpoints=CHECKPOINTS)
    model, rows, labels = trained.model, ready.rows_with_ids(), ready.labels.numpy()
    began = time.process_time()
    losses = []
    for state in trained.states:
        model.load_state_dict(state)
        if FLIPPED in views:
            held_out = np.asarray(turnover.Influence(model, train=rows).out_of_sample(progress=False).probs)
            losses.append(-np.log(np.maximum(held_out[np.arange(len(labels)), labels], 1e-12)))
        if FULL in views:
            with torch.no_grad():
                losses.append(functional.cross_entropy(model(ready.inputs), ready.labels, reduction="none").numpy())
    # The full network was trained on the row: alone, its loss compares with the training loss of others.
    kind = "held_out" if FLIPPED in views else "self"
    return Answers(None, {kind: np.mean(losses, 0)}, (trained,), time.process_time() - began)


REFERENCES = 32


def mask_bias_corrected(trainings: Trainings) -> Answers:
    """Return how unlikely each label is by one model's held-out predictions, corrected for mask bias."""
    ready = trainings.ready
    trained = trainings.masked(Masks())
    began = time.process_time()
    engine = turnover.Influence(trained.model, train=ready.rows_with_ids())
    held_out = engine.out_of_sample(references=REFERENCES, progress=False)
    doubt = -np.asarray(held_out.probs)[np.arange(len(ready.labels)), ready.labels.numpy()]
    return Answers(None, {"held_out": doubt}, (trained,), time.process_time() - began)


STRENGTHS = np.geomspace(1e-3, 1e2, 11)  # of ridge, as shares of the mean eigenvalue


def leave_one_out_head(trainings: Trainings, *, replicas: int) -> Answers:
    """Return how far the label of every row is below the best other class, by linear heads that never saw that label.

    The head is a ridge regression of the labels on the full view's last features, without the row, for every replica
    and checkpoint. The features were trained on the row, so that the head's own errors would call for too little
    ridge where labels were memorized. The flipped view was not: the strength is the one at which heads agree best with
    its held-out predictions.
    """
    ready = trainings.ready
    trained = trainings.masked(Masks(replicas), checkpoints=CHECKPOINTS)
    model, rows, labels = trained.model, ready.rows_with_ids(), ready.labels
    one_hot = functional.one_hot(labels, ready.size[2]).double().numpy()
    began = time.process_time()
    predictions = []
    for state in trained.states:
        model.load_state_dict(state)
        heads = np.mean(
            [ridge_heads(one, one_hot, STRENGTHS)[0] for one in _last_features(model, ready.inputs, replicas)],
            0,
        )
        held_out = np.asarray(turnover.Influence(model, train=rows).out_of_sample(progress=False).probs)
        flipped = np.eye(one_hot.shape[1])[held_out.argmax(1)]
        predictions.append(heads[np.square(heads - flipped).mean((1, 2)).argmin()])
    margins = margins_of(torch.from_numpy(np.mean(predictions, 0)), labels)
    return Answers(None, {"self": -margins.numpy()}, (trained,), time.process_time() - began)


def record_of_training(trainings: Trainings, *, replicas: int) -> Answers:
    """Return how probably every label is wrong by the record of one training, as `turnover run` lists label errors.

    Of all row scores this one alone looks at labels of validation rows: it weighs its two predictions by them.
    """
    ready, recipe = trainings.ready, trainings.ready.masked(trainings.seed, Masks(replicas))
    batches = -(-len(ready.labels) // recipe.batch_size)
    kept: list[RowRecord] = []

    def train() -> tuple[nn.Module, tuple[State, ...]]:
        records: list[TrainingRecord] = []

        def note(step: Step) -> None:
            if step.number == 0:
                rows = ready.inputs, ready.labels, torch.arange(len(ready.labels))
                records.append(TrainingRecord(step.model, train=rows, validation=ready.validation))
            elif step.number % batches == 0:
                records[0](step.model)

        model = recipe.fit(seed=trainings.seed, on_step=note)
        records[0](model)
        kept.append(records[0].finish())
        return model, ()

    trained = trainings.once(("record", replicas), train)
    began = time.process_time()
    suspicion = np.empty(len(ready.labels))
    suspicion[wrong_labels(kept[0]).order] = -np.arange(len(suspicion))
    return Answers(None, {"self": suspicion}, (trained,), time.process_time() - began)


def _last_features(model: nn.Module, inputs: torch.Tensor, replicas: int) -> np.ndarray:
    """Return the inputs of the last layer in full view, [replicas, rows, features]."""
    (*_, last) = model.children()
    features: list[torch.Tensor] = []
    handle = last.register_forward_pre_hook(lambda _, given: features.append(given[0]))
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        handle.remove()
    return features[0].unflatten(0, (replicas, -1)).double().numpy()
