"""Statistics of BatchNorm re-estimated in full view.

Under masks a share of the channels is zero and the others are larger: means stay, variances do not. The running
statistics of a training with masks are those of kept subnetworks, and the full network, which predicts, is asked with
them.
"""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from turnover.batches import Batch, batches_of
from turnover.errors import BatchError, ModelError, TurnOverError, TurnOverWarning
from turnover.layers import eval_mode, find_root, instances, no_instances

from ._code import gathers_statistics
from .build import replica_models


def recalibrate(model: nn.Module, loader: Any) -> int:
    """Re-estimate the statistics of all BatchNorm modules in full view, and return how many modules there are.

    Means and variances become the averages over the batches of the loader, each batch normalized by its own. Weights,
    modes (training or eval) and momentum stay as they are. A BatchNorm that was in eval mode while its model trained is
    frozen and stays as it is. If a batch fails, all statistics are as before.

    Predictions of the full network gain. Kept and flipped subnetworks have the same statistics: those of training fit
    them better, so score with the original estimator first, or on a copy.

    Args:
        model: trained, wrapped or not; replicas get statistics of their own.
        loader: training rows, as a DataLoader (with ids or without) whose batches are as large as in training; or in
            another form that `Influence` takes as queries, such as (x, y), which is one batch.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU())
        >>> net = turnover.wrap(net.append(torch.nn.Linear(64, 2, bias=False)), at=["2"])
        >>> turnover.recalibrate(net, (torch.randn(100, 4), torch.zeros(100)))
        1
    """
    if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ModelError(
            f"`model` must be a torch.nn.Module, got {type(model).__name__}. Give turnover.recalibrate(model, loader)."
        )
    models = replica_models(model) if find_root(model) is not None else [model]
    norms = [_batch_norms(one) for one in models]
    if not norms[0]:
        warnings.warn(
            f"{type(model).__name__} has no BatchNorm that gathers statistics, so there is nothing to re-estimate.",
            TurnOverWarning,
            stacklevel=2,
        )
        return 0
    every = [norm for own in norms for norm in own]
    count = 0
    with ExitStack() as stack:
        for one in models:
            stack.enter_context(eval_mode(one))
        stack.enter_context(_gathering(every))
        for batch in batches_of(loader):
            given = batch.to(next(every[0].buffers()).device)
            full = nullcontext() if models[0] is model else instances(range(given.rows), view="full")
            with torch.no_grad(), no_instances(), full:
                for one in models:
                    _forward(given, one)
            count += 1
        if not count:
            raise BatchError("the loader has no rows. Give the training rows.")
        if not all(bool(buffer.isfinite().all()) for norm in every for buffer in norm.buffers()):
            raise BatchError(
                "the statistics of these rows are not finite, and those of the model stay as they were. Look for NaN "
                "and infinite values in the inputs and the weights."
            )
        for norm in every:
            # Replicas share the statistics of their trunk, which thus counted every batch several times.
            norm.num_batches_tracked.fill_(count)  # pyright: ignore[reportOptionalMemberAccess]
    return len(norms[0])


def has_batch_statistics(model: nn.Module) -> bool:
    """Tell whether a model, wrapped or not, has a BatchNorm whose running statistics were gathered in training."""
    return bool(_batch_norms(model if find_root(model) is None else replica_models(model)[0]))


def _batch_norms(model: nn.Module) -> list[_BatchNorm]:
    return [part for part in model.modules() if isinstance(part, _BatchNorm) and gathers_statistics(part, model)]


def _forward(batch: Batch, model: nn.Module) -> None:
    try:
        batch.logits(model)
    except TurnOverError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and batch.rows == 1:  # torch's own, for a last batch of one row
            raise BatchError(
                f"a batch of one row has no variance ({error}). Give batches of two rows or more: DataLoader(..., "
                "drop_last=True)."
            ) from error
        raise BatchError(
            f"the model fails on a batch of the loader ({type(error).__name__}: {error}). Give a DataLoader, (x, y) "
            "or a dict of what the model takes; a tuple by hand has no ids."
        ) from error


@contextmanager
def _gathering(norms: list[_BatchNorm]) -> Iterator[None]:
    """Let these modules gather plain averages from the start; as before where that fails."""
    settings = [(norm, norm.training, norm.momentum) for norm in norms]
    statistics = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers()]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum, norm.training = None, True
        yield
    except BaseException:
        with torch.no_grad():
            for tensor, values in statistics:
                tensor.copy_(values)
        raise
    finally:
        for norm, training, momentum in settings:
            norm.training, norm.momentum = training, momentum
