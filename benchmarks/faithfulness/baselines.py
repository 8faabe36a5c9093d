"""The baselines: gradient methods of other packages, cleanlab's folds, training loss, and models on random subsets."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from experiments.runtime.ours import kronfluence_task
from turnover.baselines import FeldmanZhang

from .trainings import Answers, State, Trained, Trainings, margins_of


def tracin(trainings: Trainings, *, fast: bool) -> Answers:
    """Return scores of captum's TracInCP, or of TracInCPFast (the last layer only)."""
    from captum.influence import TracInCP, TracInCPFast

    ready, trained = trainings.ready, trainings.plain()
    model, how = untrained(trainings), _captum_options(ready.config.learning_rate)
    checkpoints: Any = list(trained.states)  # captum's types say paths, its text says anything that `load` can load
    with _captum_quiet():
        if fast:
            last = model.get_submodule(list(dict(model.named_children()))[-1])
            method = TracInCPFast(model, last, ready.rows(), checkpoints, **how)
        else:
            method = TracInCP(model, ready.rows(), checkpoints, **how, sample_wise_grads_per_batch=True)
        return _captum_answers(method, trainings, trained)


def arnoldi(trainings: Trainings) -> Answers:
    """Return scores of captum's influence functions by Arnoldi iteration (Schioppa et al. 2022), with its defaults."""
    from captum.influence._core.arnoldi_influence_function import ArnoldiInfluenceFunction  # not offered above

    ready, trained = trainings.ready, trainings.plain()
    model, how = untrained(trainings), _captum_options(ready.config.learning_rate)
    final: Any = trained.states[-1]  # its types say a path
    with _captum_quiet(), torch.random.fork_rng(devices=[]):  # it sets the seed of its first vector
        method = ArnoldiInfluenceFunction(
            model, ready.rows(), final, **how, sample_wise_grads_per_batch=True, seed=trainings.seed
        )
        return _captum_answers(method, trainings, trained)


def _captum_options(rate: float) -> dict[str, Any]:
    def load(model: nn.Module, state: State) -> float:
        model.load_state_dict(state)
        model.eval()
        return rate

    return {
        "checkpoints_load_func": load,
        "loss_fn": nn.CrossEntropyLoss(reduction="sum"),
        "batch_size": _AT_ONCE,
    }


@contextlib.contextmanager
def _captum_quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns of its own hooks and of data sets whose length it cannot tell
        yield


def _captum_answers(method: Any, trainings: Trainings, trained: Trained) -> Answers:
    pairs, own = method.influence(trainings.ready.validation), method.self_influence()
    return Answers(np.asarray(pairs.detach().T.float()), {"self": np.asarray(own.detach().float())}, (trained,))


def similarity(trainings: Trainings) -> Answers:
    """Return captum's cosine similarity of the last hidden layer, which knows no labels and has no self-influence."""
    from captum.influence import SimilarityInfluence

    ready, trained = trainings.ready, trainings.plain()
    rows = ready.rows()
    *_, hidden, last = (name for name, _ in trained.model.named_children())
    with _captum_quiet():
        # In one batch: it asks a last, smaller one for as many rows as the others have. Of two layers: with one it
        # fails (captum 0.9.0).
        method = SimilarityInfluence(trained.model, [hidden, last], rows, trainings.scratch, batch_size=len(rows))
        order, values = method.influence(ready.validation[0], top_k=len(rows))[hidden]
    pairs = torch.zeros_like(values).scatter(1, order, values)
    return Answers(pairs.T.detach().numpy(), {}, (trained,))


def untrained(trainings: Trainings) -> nn.Module:
    """Return a plain model for weights to be loaded into, drawn without touching the random generator."""
    with torch.random.fork_rng(devices=[]):
        return trainings.ready.plain.build()


_GRADIENT_BYTES = 4e8  # of the rows that are projected at once


def trak(trainings: Trainings, *, models: int) -> Answers:
    """Return scores of TRAK (the package traker); the features of the rows under each model count as a training.

    Self-influence is the score of each row as a target. Its projected gradient is that of the row itself, which is
    there already.
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

    ready, model = trainings.ready, untrained(trainings)
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


_AT_ONCE = 500


def ekfac(trainings: Trainings, *, damping: float | None) -> Answers:
    """Return scores of kronfluence's EK-FAC; its factors, which do not depend on damping, count as a training.

    Args:
        trainings: of the task and seed.
        damping: its `damping_factor`; None: a tenth of the mean eigenvalue.
    """
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about how it saves and loads
        return _ekfac_answers(trainings, damping)


def _ekfac_answers(trainings: Trainings, damping: float | None) -> Answers:
    from kronfluence.arguments import ScoreArguments

    ready, trained = trainings.ready, trainings.plain()
    analyzer, model = _analyzer(trainings, trained)
    factors = trainings.once("EK-FAC factors", partial(_fit_factors, analyzer, model, trainings))
    how: dict[str, Any] = {
        "factors_name": "factors",
        "train_dataset": ready.rows(),
        "per_device_train_batch_size": _AT_ONCE,
        "score_args": ScoreArguments(damping_factor=damping),
    }
    pairs_name, own_name = f"pairs {damping}", f"self {damping}"
    queries = TensorDataset(*ready.validation)
    analyzer.compute_pairwise_scores(pairs_name, query_dataset=queries, per_device_query_batch_size=len(queries), **how)
    analyzer.compute_self_scores(own_name, **how)
    pairs = analyzer.load_pairwise_scores(pairs_name)["all_modules"]
    own = analyzer.load_self_scores(own_name)["all_modules"]
    return Answers(np.asarray(pairs.T.float()), {"self": np.asarray(own.float())}, (trained, factors))


def _analyzer(trainings: Trainings, trained: Trained) -> tuple[Any, nn.Module]:
    from kronfluence.analyzer import Analyzer, prepare_model

    task = kronfluence_task()
    model = trainings.ready.plain.build()
    model.load_state_dict(trained.states[-1])
    model = prepare_model(model.eval(), task)
    analyzer = Analyzer(
        "task",
        model=model,
        task=task,
        cpu=True,
        output_dir=trainings.scratch,
        disable_tqdm=True,
        log_level=logging.ERROR,
    )
    return analyzer, model


def _fit_factors(analyzer: Any, model: nn.Module, trainings: Trainings) -> tuple[nn.Module, tuple[State, ...]]:
    from kronfluence.arguments import FactorArguments

    torch.manual_seed(trainings.seed)  # it samples labels
    analyzer.fit_all_factors(
        "factors",
        dataset=trainings.ready.rows(),
        per_device_batch_size=_AT_ONCE,
        factor_args=FactorArguments("ekfac"),
    )
    return model, ()


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
