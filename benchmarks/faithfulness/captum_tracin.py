"""captum's TracInCP and TracInCPFast (the last layer only): gradient products over checkpoints."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from .answers import Answers
from .trainings import State, Trainings

_AT_ONCE = 500


def answer(trainings: Trainings, *, fast: bool) -> Answers:
    """Return what TracIn says.

    Args:
        trainings: of the task and seed.
        fast: TracInCPFast instead of TracInCP.
    """
    from captum.influence import TracInCP, TracInCPFast

    ready, trained = trainings.ready, trainings.plain()
    rate = ready.config.learning_rate
    with torch.random.fork_rng(devices=[]):
        model = ready.plain.build()

    def load(model: nn.Module, state: State) -> float:
        model.load_state_dict(state)
        model.eval()
        return rate

    last = list(dict(model.named_children()))[-1]
    checkpoints: Any = list(trained.states)  # captum's types say paths, its text says anything that `load` can load
    loads: Any = load
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns of its own hooks and of data sets whose length it cannot tell
        if fast:
            method = TracInCPFast(
                model,
                model.get_submodule(last),
                ready.rows(),
                checkpoints,
                checkpoints_load_func=loads,
                loss_fn=nn.CrossEntropyLoss(reduction="sum"),
                batch_size=_AT_ONCE,
            )
        else:
            method = TracInCP(
                model,
                ready.rows(),
                checkpoints,
                checkpoints_load_func=loads,
                loss_fn=nn.CrossEntropyLoss(reduction="sum"),
                batch_size=_AT_ONCE,
                sample_wise_grads_per_batch=True,
            )
        pairs = method.influence(ready.validation)
        own = method.self_influence()
    assert isinstance(pairs, torch.Tensor)
    return Answers(np.asarray(pairs.detach().T.float()), {"self": np.asarray(own.detach().float())}, (trained,))
