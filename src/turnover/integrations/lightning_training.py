"""Masked models in Lightning: `TurnOverModule`, or `InstancesCallback` for a module as it is."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lightning.pytorch import Callback, LightningModule
from torch import nn
from torch.utils.data import DataLoader

from turnover.batches import INSTANCE_ID, Loss, carries_ids, split_ids
from turnover.errors import MissingIdError, TurnOverWarning
from turnover.layers import Instances, active_instances, instances, is_sharded

from .learning_curves import check_counts, measure_curves

_T = TypeVar("_T")
_IDS_ATTRIBUTE = "_turnover_ids"
_SKIPPED = RuntimeError("a batch that was skipped has reached no site")


def repeat(targets: _T) -> _T:
    """Return targets repeated for each replica, as the model does with rows; outside of training, as they are.

    Call it in `training_step` after the forward pass.

    Example:
        >>> repeat([1, 2])
        [1, 2]
    """
    active = active_instances()
    return targets if active is None else active.repeat(targets)


class InstancesCallback(Callback):
    """Holds the keep view of the rows over forward, backward and step of every training batch.

    The batch carries its ids, as data from `turnover.with_instance_ids` does, and `training_step` gets them too:
    `x, y, ids = batch`. Use `TurnOverModule` to have them taken out. Validation, test and prediction run the full
    network.

    Example:
        >>> import lightning
        >>> trainer = lightning.Trainer(callbacks=[InstancesCallback()], logger=False, enable_checkpointing=False)
    """

    def __init__(self) -> None:
        self._active: Instances | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Warn where gradients are clipped by their norm."""
        clip, algorithm = trainer.gradient_clip_val, trainer.gradient_clip_algorithm
        if clip and str(getattr(algorithm, "value", algorithm) or "norm") == "norm":
            warnings.warn(
                f"gradient_clip_val={clip} clips the norm of all gradients: a row then changes the steps of parameters "
                "that its flipped subnetwork uses, and leaks into it. Leave it out: Trainer(...).",
                TurnOverWarning,
                stacklevel=2,
            )

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Enter the keep view."""
        ids = pl_module.__dict__.pop(_IDS_ATTRIBUTE, None)
        self._leave(_SKIPPED)
        self._active = instances(_ids_of(batch, trainer) if ids is None else ids)
        self._active.__enter__()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Leave it, and raise where a site of the model was never reached."""
        self._leave(None)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave the view of a batch that was skipped."""
        self._leave(_SKIPPED)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave the view of the batch that failed."""
        self._leave(exception)

    def _leave(self, error: BaseException | None) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.__exit__(None if error is None else type(error), error, None)


class TurnOverModule(LightningModule):
    """A LightningModule whose `training_step` gets batches without ids, in the keep view of their rows.

    Derive from it instead of `LightningModule` and train on data from `turnover.with_instance_ids`; nothing else
    changes. Hooks of your own named `on_before_batch_transfer` or `configure_callbacks` must call those of this class.

    Example:
        >>> class Net(TurnOverModule):
        ...     def __init__(self, net):
        ...         super().__init__()
        ...         self.net = turnover.wrap(net, at=["1"])
        ...     def training_step(self, batch, batch_idx):
        ...         x, y = batch
        ...         outputs = self.net(x)
        ...         return torch.nn.functional.cross_entropy(outputs, repeat(y))
        ...     def configure_optimizers(self):
        ...         return torch.optim.AdamW(self.parameters())
        >>> net = Net(torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)))
    """

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Take the ids out of a training batch; of other batches, if they are named."""
        if self.trainer.training:
            self.__dict__[_IDS_ATTRIBUTE] = _ids_of(batch, self.trainer)
            return split_ids(batch)[0]
        return split_ids(batch)[0] if isinstance(batch, Mapping) and INSTANCE_ID in batch else batch

    def configure_callbacks(self) -> list[Callback]:
        """Return the callback that holds the keep view."""
        return [InstancesCallback()]


class LightningLearningCurves(Callback):
    """Logs the loss of training rows kept and flipped, and of validation rows, every so many steps.

    The curves are logged as `curve_keep`, `curve_flip` and `curve_validation`, and kept in `history`.

    Args:
        train: a sample of training rows with their ids: (x, y, ids), a dict, a Dataset or a DataLoader.
        validation: rows that are not trained; None: no third curve.
        every: steps from one point of the curves to the next; the first is before training.
        model: path of the masked model in the module, such as "net"; None: the module itself is called.
        loss: `loss(outputs, targets) -> [batch]`; None: cross-entropy for integer targets, squared error for floats.

    Example:
        >>> rows = torch.randn(8, 4), torch.arange(8) % 2, torch.arange(8)
        >>> curves = LightningLearningCurves(rows, every=10, model="net")
    """

    def __init__(
        self, train: Any, *, validation: Any = None, every: int = 50, model: str | None = None, loss: Loss | None = None
    ) -> None:
        check_counts(every=every)
        self.train, self.validation, self.every, self.model, self.loss = train, validation, every, model, loss
        self.history: list[dict[str, float]] = []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Measure once before training."""
        if trainer.global_step == 0:
            self._measure(trainer, pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Measure and log where it is time to."""
        step = trainer.global_step
        if step % self.every == 0 and (not self.history or self.history[-1]["step"] != step):
            pl_module.log_dict(self._measure(trainer, pl_module))

    def _measure(self, trainer: Any, pl_module: Any) -> dict[str, float]:
        model = pl_module if self.model is None else pl_module.get_submodule(self.model)
        curves = measure_curves(model, train=self.train, validation=self.validation, loss=self.loss)
        self.history.append({"step": trainer.global_step, **curves})
        return curves


class LightningAfterEpoch(Callback):
    """Calls a function with the model after every epoch, such as a `turnover.applications.TrainingRecord`.

    Only the first process calls it; of a sharded model all do, for its forward pass needs them.

    Args:
        call: gets the model.
        model: path of the model in the module, such as "net"; None: the module itself.

    Example:
        >>> epochs = LightningAfterEpoch(lambda net: print(type(net)), model="net")
    """

    def __init__(self, call: Callable[[nn.Module], object], *, model: str | None = None) -> None:
        self.call, self.model = call, model

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Call it."""
        model = pl_module if self.model is None else pl_module.get_submodule(self.model)
        if trainer.is_global_zero or is_sharded(model):
            self.call(model)


def _ids_of(batch: Any, trainer: Any) -> Any:
    """Return the ids of a training batch; raise where there are none, or where labels would be taken for them."""
    cure = (
        "The loader for Trainer.fit needs a data set with ids: DataLoader(turnover.with_instance_ids(dataset), ...); "
        f"or let batches be dicts with {INSTANCE_ID!r}."
    )
    loader = trainer.train_dataloader
    if type(batch) in (tuple, list) and isinstance(loader, DataLoader) and not carries_ids(loader):
        raise MissingIdError(f"batches of {len(batch)} items come from a data set without ids. {cure}")
    try:
        return split_ids(batch)[1]
    except MissingIdError as error:
        raise MissingIdError(f"{error} {cure}") from None
