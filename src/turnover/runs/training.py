"""The training of a run: AdamW over shuffled batches, with the three curves, resumed where it was interrupted."""

import json
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from turnover.applications import TrainingRecord
from turnover.errors import TrainingError, TurnOverWarning
from turnover.integrations import measure_curves
from turnover.layers import device_of, instances
from turnover.storage import readable
from turnover.training import Checkpoint
from turnover.wrapping import has_batch_statistics, recalibrate

from .config import RunConfig, Watch, unwatched
from .tasks import Task

# Curves are measured on at most so many training rows.
_CURVE_ROWS = 2000
# An interrupted training loses at most so many seconds; writing the state costs time too.
_SAVE_EVERY = 20.0


@dataclass(config=ConfigDict(extra="forbid"))
class Curves:
    """Mean losses after each epoch, and the accuracy or R² on validation rows."""

    keep: list[float] = Field(default_factory=list)  # training rows by their kept subnetworks
    flip: list[float] = Field(default_factory=list)  # training rows by their flipped subnetworks
    validation: list[float] = Field(default_factory=list)  # validation rows by the full network
    accuracy: list[float] = Field(default_factory=list)
    r2: list[float] = Field(default_factory=list)  # in its place, of a regression

    def as_dict(self) -> dict[str, list[float]]:
        """Return them ready for JSON."""
        return asdict(self)

    def as_json(self) -> str:
        """Return them as JSON."""
        return json.dumps(self.as_dict()) + "\n"

    @classmethod
    def read(cls, file: Path) -> "Curves":
        """Return the curves of a JSON file; ValueError where it holds something else."""
        return TypeAdapter(cls).validate_json(file.read_bytes())

    def add(self, **values: float) -> None:
        """Add what was measured after an epoch."""
        for name, value in values.items():
            getattr(self, name).append(value)

    # As a part of the state of a training.
    state_dict = as_dict

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        """Go on from former curves."""
        for name, values in state.items():
            getattr(self, name)[:] = values

    @property
    def note(self) -> str:
        """Return the latest losses; "": there are none yet."""
        if not self.keep:
            return ""
        return f"keep {self.keep[-1]:.3f}  flip {self.flip[-1]:.3f}  validation {self.validation[-1]:.3f}"


def fit(
    model: nn.Module,
    task: Task,
    train: tuple[Tensor, Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    settings: RunConfig,
    *,
    record: TrainingRecord | None = None,
    saved: Path | None = None,
    watch: Watch = unwatched,
) -> Curves:
    """Train a wrapped model in place on rows with ids, by settings without open values, and return its curves.

    The record is called after every epoch. The file `saved` keeps the state to resume from.
    """
    x, y, ids = train
    device, curves = device_of(model), Curves()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # Fused: with many weights and small batches, the steps of AdamW one by one take as long as all products.
    optimizer = torch.optim.AdamW(learned, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    checkpoint = None if saved is None else Checkpoint(saved, every=_SAVE_EVERY)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "curves": curves, "record": record}
    first = 0 if checkpoint is None else checkpoint.resume(**parts)
    batches = -(-len(y) // settings.batch_size)
    steps = batches + max(batches // 4, 1)  # of an epoch, with the look at all rows after it
    sample = torch.linspace(0, len(y) - 1, min(_CURVE_ROWS, len(y))).long()
    for epoch in range(first, settings.epochs):
        # The order depends on the epoch alone, so that a resumed training ends with the same weights.
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(settings.seed * 10_007 + epoch))
        model.train()
        for number, batch in enumerate(order.split(settings.batch_size)):
            with instances(ids[batch]) as active:
                outputs = model(x[batch].to(device))
            loss = task.batch_loss(outputs, active.repeat(y[batch].to(device)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            watch("training", epoch * steps + number + 1, settings.epochs * steps, curves.note)
        model.eval()
        measured = measure_curves(model, train=(x[sample], y[sample], ids[sample]))
        curves.add(keep=measured["curve_keep"], flip=measured["curve_flip"], **task.measured(model, *validation))
        if record is not None:
            record(model)
        watch("training", (epoch + 1) * steps, settings.epochs * steps, curves.note)
        if not torch.isfinite(torch.tensor([curves.keep[-1], curves.validation[-1]])).all():
            raise TrainingError(
                f"the training diverged in epoch {epoch + 1} with learning rate {settings.learning_rate:g}. Give a "
                "smaller one: --learning-rate."
            )
        if checkpoint is not None and epoch + 1 < settings.epochs:
            try:
                checkpoint.keep(epoch + 1)
            except OSError as error:
                # The weights are in memory, so that the training needs the disk at its end only.
                warnings.warn(_not_kept(checkpoint.file, error), TurnOverWarning, stacklevel=2)
    if has_batch_statistics(model.eval()):
        # A last batch of one row has no variance.
        whole = len(y) > settings.batch_size
        recalibrate(model, DataLoader(TensorDataset(x, y), settings.batch_size, drop_last=whole))
    return curves


def _not_kept(saved: Path, error: OSError) -> str:
    free = readable(shutil.disk_usage(saved.parent).free)
    return (
        f"the state of the training could not be kept in {str(saved)!r}: {error.strerror or error}. {free} are free on "
        "that disk: make room. The training goes on; if it is stopped, it resumes at the state that was kept last, or "
        "begins anew."
    )
