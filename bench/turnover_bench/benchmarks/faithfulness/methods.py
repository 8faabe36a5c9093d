"""All methods: turn-over dropout, its row scores, methods of other packages, and what finds wrong labels otherwise."""

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.applications import RowRecord, TrainingRecord, ridge_heads, wrong_labels
from turnover.training import Step
from turnover_bench.baselines import (
    DATTRI_SOLVERS,
    CaptumArnoldi,
    CaptumSimilarity,
    CaptumTracIn,
    DattriInfluenceFunctions,
    DattriLoGra,
    FeldmanZhang,
    KronfluenceEkfac,
    PackageMethod,
    Trak,
)

from .tasks import Config
from .trainings import Answers, State, Trained, Trainings, margins_of

DEFAULT = "replicas_curvature"
_DEFAULT_DAMPING = 1e-8  # of kronfluence's ScoreArguments


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes:
        title: for the page.
        answer: trains what it needs and says what it can.
        needs: a package that must be installed; None: none.
        more_seeds: it is judged by row scores, over more seeds.
        once: too expensive for more than one seed.
    """

    title: str
    answer: Callable[[Trainings], Answers]
    needs: str | None = None
    more_seeds: bool = False
    once: bool = False

    def seeds(self, config: Config) -> tuple[int, ...]:
        """Return the seeds that are reported."""
        if self.once:
            return config.seeds[:1]
        return config.own_seeds if self.more_seeds else config.seeds

    @property
    def missing(self) -> bool:
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


def methods(config: Config) -> dict[str, Method]:
    return our_methods(config.replicas) | baseline_methods(config)


def our_methods(replicas: int) -> dict[str, Method]:
    """Return turn-over dropout by estimator, the recommended one without masks, and row scores."""
    over_checkpoints = {
        "two_views": ("flipped and full loss", (_FLIPPED, _FULL)),
        "flipped_loss": ("flipped loss", (_FLIPPED,)),
        "whole_loss": ("full loss", (_FULL,)),
    }
    return {
        "tod": Method("original estimator, one model", estimate, more_seeds=True),
        "replicas": Method(f"{replicas} replicas", partial(estimate, replicas=replicas), more_seeds=True),
        "probability": Method("one model, probability instead of loss", partial(estimate, measure="probability")),
        DEFAULT: Method(f"{replicas} replicas, curvature", partial(estimate, replicas=replicas, estimator="auto")),
        **{
            f"plain_curvature_{models}": Method(
                f"curvature, {models} plain network{'s' if models > 1 else ''}, no masks",
                partial(without_masks, models=models),
            )
            for models in (1, 5)
        },
        **{
            name: Method(
                f"{_FEW_REPLICAS} replicas, {what} over {_CHECKPOINTS} checkpoints",
                partial(losses_by_view, views=views),
                more_seeds=True,
            )
            for name, (what, views) in over_checkpoints.items()
        },
        "record": Method(
            f"{replicas} replicas, record of the training (`turnover run`'s list)",
            partial(record_of_training, replicas=replicas),
            more_seeds=True,
        ),
        "mask_bias": Method(
            f"one model, mask-bias correction by {_REFERENCES} reference rows", mask_bias_corrected, more_seeds=True
        ),
        "leave_one_out_head": Method(
            f"{replicas} replicas, leave-one-out heads over {_CHECKPOINTS} checkpoints",
            partial(leave_one_out_head, replicas=replicas),
            more_seeds=True,
        ),
    }


def baseline_methods(config: Config) -> dict[str, Method]:
    """Return the methods that are not ours."""
    return {
        "tracin": _packaged("TracInCP", CaptumTracIn),
        "tracin_fast": _packaged("TracInCPFast", CaptumTracIn, fast=True),
        "arnoldi": _packaged("Arnoldi influence", CaptumArnoldi),
        "similarity": _packaged("cosine similarity", CaptumSimilarity),
        "trak_1": _packaged("TRAK, 1 model", Trak),
        "trak_5": _packaged("TRAK, 5 models", Trak, models=5),
        "ekfac": _packaged("EK-FAC", KronfluenceEkfac, damping=_DEFAULT_DAMPING),
        "ekfac_damped": _packaged("EK-FAC, damping_factor=None", KronfluenceEkfac),
        **{
            name: _packaged(solver.title, DattriInfluenceFunctions, solver=name)
            for name, solver in DATTRI_SOLVERS.items()
        },
        "logra": _packaged("LoGra", DattriLoGra),
        "subsets": Method("Feldman & Zhang", feldman_zhang, once=True),
        "cleanlab": Method(
            f"cleanlab, {config.folds} folds",
            partial(cleanlab, folds=config.folds),
            "cleanlab",
            more_seeds=True,
        ),
        "training_loss": Method(
            f"mean training loss, {config.checkpoints} checkpoints", training_loss, more_seeds=True
        ),
        "aum": Method("AUM, every epoch", area_under_margin, more_seeds=True),
        "forgetting": Method("forgetting counts, every epoch", forgetting, more_seeds=True),
    }


def _packaged(title: str, method: type[PackageMethod], *, models: int = 1, **options: Any) -> Method:
    answer = partial(packaged, method=method, models=models, options=options)
    return Method(f"{title} ({method.distribution})", answer, method.package)


def estimate(
    trainings: Trainings, *, replicas: int = 1, estimator: Literal["tod", "auto"] = "tod", measure: str = "loss"
) -> Answers:
    """Return the scores of turn-over dropout."""
    ready = trainings.ready
    trained = trainings.masked(replicas)
    influence = turnover.Influence(trained.model, train=ready.rows_with_ids(), estimator=estimator, measure=measure)
    pairs = np.asarray(influence.pairwise(ready.validation, progress=False).values, np.float64)
    mean = influence.mean(ready.validation, progress=False).values if estimator == "auto" else None
    own: dict[str, np.ndarray] = {}
    began = time.process_time()
    if estimator == "tod":
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


_FEW_REPLICAS, _CHECKPOINTS = 2, 4
_FLIPPED, _FULL = "flipped", "whole"


def losses_by_view(trainings: Trainings, views: tuple[str, ...] = (_FLIPPED, _FULL)) -> Answers:
    """Return the mean loss of every row over the views and all checkpoints."""
    ready = trainings.ready
    trained = trainings.masked(_FEW_REPLICAS, checkpoints=_CHECKPOINTS)
    model, rows, labels = trained.model, ready.rows_with_ids(), ready.labels.numpy()
    began = time.process_time()
    losses = []
    for state in trained.states:
        model.load_state_dict(state)
        if _FLIPPED in views:
            held_out = np.asarray(turnover.Influence(model, train=rows).out_of_sample(progress=False).probs)
            losses.append(-np.log(np.maximum(held_out[np.arange(len(labels)), labels], 1e-12)))
        if _FULL in views:
            with torch.no_grad():
                losses.append(functional.cross_entropy(model(ready.inputs), ready.labels, reduction="none").numpy())
    # The full network was trained on the row: alone, its loss compares with the training loss of others.
    kind = "held_out" if _FLIPPED in views else "self"
    return Answers(None, {kind: np.mean(losses, 0)}, (trained,), time.process_time() - began)


_REFERENCES = 32


def mask_bias_corrected(trainings: Trainings) -> Answers:
    """Return how unlikely each label is by one model's held-out predictions, corrected for mask bias."""
    ready = trainings.ready
    trained = trainings.masked(1)
    began = time.process_time()
    engine = turnover.Influence(trained.model, train=ready.rows_with_ids())
    held_out = engine.out_of_sample(references=_REFERENCES, progress=False)
    doubt = -np.asarray(held_out.probs)[np.arange(len(ready.labels)), ready.labels.numpy()]
    return Answers(None, {"held_out": doubt}, (trained,), time.process_time() - began)


_STRENGTHS = np.geomspace(1e-3, 1e2, 11)  # of the regression, as shares of the mean eigenvalue


def leave_one_out_head(trainings: Trainings, *, replicas: int) -> Answers:
    """Return how far the label of every row is below the best other class, by linear heads that never saw that label.

    The head is a ridge regression of the labels on the full view's last features, without the row, for every replica
    and checkpoint. The features were trained on the row, so that the head's own errors would call for too little
    ridge where labels were memorized. The flipped view was not: the strength is the one at which heads agree best with
    its held-out predictions.
    """
    ready = trainings.ready
    trained = trainings.masked(replicas, checkpoints=_CHECKPOINTS)
    model, rows, labels = trained.model, ready.rows_with_ids(), ready.labels
    one_hot = functional.one_hot(labels, ready.size[2]).double().numpy()
    began = time.process_time()
    predictions = []
    for state in trained.states:
        model.load_state_dict(state)
        heads = np.mean(
            [ridge_heads(one, one_hot, _STRENGTHS)[0] for one in _last_features(model, ready.inputs, replicas)],
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
    ready, recipe = trainings.ready, trainings.ready.masked(trainings.seed, replicas)
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
