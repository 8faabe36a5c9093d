"""Learning curves in the log of a Hugging Face Trainer."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

from turnover.batches import Loss
from turnover.errors import MissingExtraError, TrainingError

from .learning_curves import measure_curves

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingExtraError(
        f"LearningCurvesCallback needs transformers ({error}): pip install 'turnover[text]'."
    ) from error


class LearningCurvesCallback(TrainerCallback):
    """Logs the loss of training rows kept and flipped, and of validation rows, every so many steps.

    The curves are in `trainer.state.log_history` under `curve_keep`, `curve_flip` and `curve_validation`, go wherever
    the Trainer reports to, and are kept in `history`.

    Args:
        trainer: a `TurnOverTrainer`, whose data sets and collator are used.
        rows: how many training rows, and how many validation rows, are looked at: evenly spread over the data.
        every: steps from one point of the curves to the next; the first is before training.
        loss: `loss(outputs, targets) -> [batch]`; None: cross-entropy for integer labels, squared error for floats.

    Example:
        >>> def add_curves(trainer):
        ...     trainer.add_callback(LearningCurvesCallback(trainer, rows=256, every=50))
    """

    def __init__(self, trainer: Any, *, rows: int = 256, every: int = 50, loss: Loss | None = None) -> None:
        if rows < 1 or every < 1:
            raise TrainingError(f"rows={rows} and every={every} must be at least 1: rows=256, every=50.")
        self.trainer, self.rows, self.every, self.loss = trainer, rows, every, loss
        self.history: list[dict[str, float]] = []
        self._train: Any = None
        self._validation: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Choose the rows, and measure them once before training."""
        self._train = self._loader(self.trainer.train_dataset)
        held_out = self.trainer.eval_dataset
        if isinstance(held_out, Mapping):
            held_out = next(iter(held_out.values()), None)
        self._validation = None if held_out is None else self._loader(held_out)
        if state.global_step == 0:
            self._measure(state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure and log where it is time to."""
        if state.global_step % self.every == 0:
            self._measure(state, control)

    def _measure(self, state: Any, control: Any) -> None:
        if not state.is_world_process_zero:
            return
        curves = measure_curves(self.trainer.model, train=self._train, validation=self._validation, loss=self.loss)
        self.history.append({"step": state.global_step, **curves})
        due = control.should_log
        self.trainer.log(dict(curves))
        control.should_log = due  # `log` takes the log of this step, in which processes meet, for done

    def _loader(self, data: Any) -> DataLoader[Any]:
        if hasattr(data, "__len__"):
            step = max(1, len(data) / self.rows)
            chosen = [data[int(place * step)] for place in range(min(self.rows, len(data)))]
        else:
            chosen = list(islice(iter(data), self.rows))
        # A generator of its own: a loader draws a number for its workers, and the training must not notice.
        return DataLoader(
            chosen,  # pyright: ignore[reportArgumentType] - a list is a data set
            batch_size=self.trainer.args.per_device_eval_batch_size,
            collate_fn=self.trainer.data_collator,
            generator=torch.Generator(),
        )
