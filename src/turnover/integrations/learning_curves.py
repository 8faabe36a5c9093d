"""The three learning curves of a masked model: training rows kept, training rows flipped, validation rows."""

from typing import Any

import torch
from torch import Tensor, nn

from turnover.batches import Batch, Loss, batches_of
from turnover.errors import BatchError, InstanceIdError, TrainingError
from turnover.influence import Measure
from turnover.layers import View, device_of, eval_mode, instances, no_instances


def measure_curves(
    model: nn.Module, *, train: Any, validation: Any = None, loss: Loss | None = None, targets: str | None = None
) -> dict[str, float]:
    """Return the mean loss of training rows kept and flipped, and of validation rows in the full network.

    `curve_flip` is the loss of held-out predictions, so that `curve_validation` should follow it; `curve_keep` falls
    below both as rows are memorized. Nothing of the training is changed: no random number is drawn, and every module
    keeps its mode.

    Args:
        model: as `turnover.wrap` returned it, or a module around it.
        train: a sample of training rows with their ids: (x, y, ids), a dict, a Dataset or a DataLoader.
        validation: rows that are not trained, without ids; None: no third curve.
        loss: `loss(outputs, targets) -> [batch]`; None: cross-entropy for integer targets, squared error for floats.
        targets: name of the target in a dict; None: "labels", else "label".

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> x, y = torch.randn(12, 4), torch.arange(12) % 2
        >>> sorted(measure_curves(net, train=(x, y, torch.arange(12)), validation=(x, y)))
        ['curve_flip', 'curve_keep', 'curve_validation']
    """
    measure = Measure("loss", loss)
    device = device_of(model)
    with no_instances(), eval_mode(model), torch.no_grad():  # trainers call this inside the context of a batch
        kept, flipped = [], []
        for batch in batches_of(train, targets=targets, training_rows=True):
            batch = batch.to(device)
            kept.append(_losses(model, batch, measure, "keep"))
            flipped.append(_losses(model, batch, measure, "flip"))
        curves = {"curve_keep": _mean(kept, "train"), "curve_flip": _mean(flipped, "train")}
        if validation is not None:
            batches = batches_of(validation, targets=targets, training_rows=False)
            full = [_losses(model, batch.to(device), measure, "full") for batch in batches]
            curves["curve_validation"] = _mean(full, "validation")
    return curves


def _losses(model: nn.Module, batch: Batch, measure: Measure, view: View) -> Tensor:
    if batch.target is None:
        raise BatchError("learning curves need targets: give (x, y), or a dict with 'labels'; else targets='name'.")
    measure.check_shifted(batch.kwargs.get("input_ids"), batch.target)
    if view == "full":
        return -measure(batch.logits(model), batch.target)
    if batch.ids is None:
        raise InstanceIdError(
            "the training rows of the learning curves have no ids. Give turnover.with_instance_ids(dataset), or "
            "(x, y, ids)."
        )
    with instances(batch.ids, view=view) as active:
        outputs = batch.logits(model)
    return -measure(outputs, active.repeat(batch.target))


def _mean(losses: list[Tensor], name: str) -> float:
    rows = sum(map(len, losses))
    if not rows:
        raise TrainingError(f"{name}= has no rows. Give at least one for the learning curves.")
    return sum(float(batch.cpu().double().sum()) for batch in losses) / rows


def check_counts(**counts: int) -> None:
    """Raise for options of a learning-curve callback that are below 1."""
    for name, count in counts.items():
        if count < 1:
            raise TrainingError(f"`{name}` must be an integer >= 1, got {count}. The default: rows=256, every=50.")
