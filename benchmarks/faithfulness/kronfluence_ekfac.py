"""kronfluence's EK-FAC influence functions."""

import logging
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from .answers import Answers
from .trainings import State, Trained, Trainings

_AT_ONCE = 500


def answer(trainings: Trainings, *, damping: float | None) -> Answers:
    """Return what EK-FAC says; its factors, which do not depend on damping, count as a training.

    Args:
        trainings: of the task and seed.
        damping: its `damping_factor`; None: a tenth of the mean eigenvalue.
    """
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about how it saves and loads
        return _answer(trainings, damping)


def _answer(trainings: Trainings, damping: float | None) -> Answers:
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

    task = _task()
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


def _task() -> Any:
    from kronfluence.task import Task

    class Classification(Task):
        def compute_train_loss(self, batch: tuple[Tensor, Tensor], model: nn.Module, sample: bool = False) -> Tensor:
            outputs, labels = model(batch[0]), batch[1]
            if sample:
                labels = torch.multinomial(outputs.detach().softmax(1), 1).flatten()
            return functional.cross_entropy(outputs, labels, reduction="sum")

        def compute_measurement(self, batch: tuple[Tensor, Tensor], model: nn.Module) -> Tensor:
            return self.compute_train_loss(batch, model)

    return Classification()
