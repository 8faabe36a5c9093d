"""Turn-over dropout: the paper's estimate, each addition alone, and together."""

import inspect
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import nn

import turnover
from turnover.influence import Ridge

from .answers import Answers
from .further import shrunk_across_queries
from .tasks import Masks
from .trainings import Trainings


@dataclass(frozen=True)
class Ours:
    """One way to estimate.

    Attributes:
        masks: how the network is masked; None: with the benchmark's number of replicas.
        measure: of a query.
        denoise: ridge regression on features of the rows, or none.
        control: the linear control variate, or none.
        against: what the flipped network is compared with.
        all_layers: denoise on the features of all layers instead of the last.
        across_queries: shrink the scores of each row across queries.
    """

    masks: Masks | None = field(default_factory=Masks)
    measure: str = "loss"
    denoise: Ridge | None = None
    control: str | None = None
    against: str = "keep"
    all_layers: bool = False
    across_queries: bool = False


REPORTED: dict[str, Ours] = {
    "paper": Ours(),
    "replicas": Ours(None),
    "ridge": Ours(denoise=Ridge()),
    "control": Ours(control="linear"),
    "probability": Ours(measure="probability"),
    "replicas_ridge": Ours(None, denoise=Ridge()),
}
# What the default is chosen from; whichever wins is reported too.
CANDIDATES: dict[str, Ours] = {
    **REPORTED,
    "replicas_control": Ours(None, control="linear"),
    "replicas_control_ridge": Ours(None, denoise=Ridge(), control="linear"),
    "replicas_ridge_probability": Ours(None, "probability", Ridge()),
    "replicas_ridge_margin": Ours(None, "margin", Ridge()),
    "replicas_ridge_flip": Ours(None, denoise=Ridge(view="flip")),
    "replicas_ridge_gradients": Ours(None, denoise=Ridge(gradients=1, scale="query")),
    "replicas_ridge_gradients_margin": Ours(None, "margin", Ridge(gradients=1, scale="query")),
    "replicas_control_ridge_probability": Ours(None, "probability", Ridge(), "linear"),
}


def answer(how: Ours, trainings: Trainings, replicas: int) -> Answers:
    """Return what turn-over dropout says.

    Args:
        how: which estimate.
        trainings: of the task and seed.
        replicas: of the benchmark, for estimates that leave it open.
    """
    ready = trainings.ready
    trained = trainings.masked(how.masks or Masks(replicas))
    if how.all_layers:
        layers = tuple(name for name, part in ready.plain.build().named_modules() if isinstance(part, nn.Linear))
        how = replace(how, denoise=replace(how.denoise or Ridge(), layers=layers))
    influence = turnover.Influence(trained.model, **_options(how, ready.rows_with_ids()))
    pairs = np.asarray(influence.pairwise(ready.validation, progress=False).values, np.float64)
    if how.across_queries:
        pairs = shrunk_across_queries(pairs, np.asarray(influence.null(ready.validation).values, np.float64))
    own: dict[str, np.ndarray] = {}
    began = time.process_time()
    if how.denoise is None and how.control is None:  # neither changes what is said of the row itself
        unseen = influence.out_of_sample(progress=False)
        own = {
            "self": influence.self_influence(progress=False).values,
            "unseen": -np.asarray(unseen.probs)[np.arange(len(ready.labels)), ready.labels.numpy()],
        }
    return Answers(pairs, own, (trained,), time.process_time() - began if own else None)


def can(how: Ours) -> bool:
    """Return whether this version of turnover has what an estimate needs."""
    return how.control is None or "control" in inspect.signature(turnover.Influence).parameters


def _options(how: Ours, rows: object) -> dict[str, Any]:
    found: dict[str, Any] = {"train": rows, "measure": how.measure, "against": how.against}
    if how.denoise is not None:
        found["denoise"] = how.denoise
    if how.control is not None:
        found["control"] = how.control
    return found
