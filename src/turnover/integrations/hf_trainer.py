"""`TurnOverTrainer`: the Trainer of Hugging Face for masked models."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import turnover
from turnover.batches import IGNORED, INSTANCE_ID, attach, logits_of, split_ids
from turnover.errors import MissingExtraError, MissingIdError, TargetError, TrainingError, TurnOverWarning
from turnover.layers import active_instances, replicas_of

from .hf_checkpoints import adopt_recipe, write_recipe

try:
    from transformers import Trainer

    from .hf_causal import refuse_shifted, shifts_labels
except ImportError as error:
    raise MissingExtraError(
        f"TurnOverTrainer needs transformers and accelerate ({error}): pip install 'turnover[text]'."
    ) from error

_CURE = (
    "Give every row an id: train_dataset=turnover.with_instance_ids(tokenized). If the rows had ids before they were "
    "tokenized, keep them: dataset.map(tokenize, remove_columns=['text']) instead of all columns."
)


class TurnOverTrainer(Trainer):
    """A Trainer that trains every row in its own part of the network, and evaluates the full network.

    Takes the arguments of `transformers.Trainer`. The model comes from `turnover.wrap`, the training data from
    `turnover.with_instance_ids`; evaluation data needs no ids. Another trainer is combined with it by
    `class Mine(TurnOverTrainer, Seq2SeqTrainer): ...`.

    What differs from `Trainer`: columns that the model does not take are dropped by the collator, where the id can be
    kept, instead of from the data set; `training_step` runs inside `turnover.instances(ids)`; losses of a model with
    replicas are computed outside the model, where targets can be repeated; labels that a causal model would shift a
    second time are refused; checkpoints have the mask recipe beside them.

    Example:
        >>> import tempfile, datasets, transformers
        >>> sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16, vocab_size=9)
        >>> model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes))
        >>> rows = datasets.Dataset.from_dict({"input_ids": [[1, 2], [3, 4]] * 4, "label": [0, 1] * 4})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     args = transformers.TrainingArguments(folder, max_steps=1, max_grad_norm=0, dataloader_pin_memory=False)
        ...     data = turnover.with_instance_ids(rows)
        ...     trainer = TurnOverTrainer(turnover.wrap(model, adapters=8), args, train_dataset=data)
        ...     _ = trainer.train()  # doctest: +ELLIPSIS
        {'train_runtime': ...}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        model = _innermost(self.model)
        names = None
        if self.args.remove_unused_columns:
            names = frozenset([*inspect.signature(model.forward).parameters, "label", "label_ids", *self.label_names])
        self.args.remove_unused_columns = False  # it would drop the id before any batch is made
        self.data_collator = IdCollator(self.data_collator, names)
        self._loss_is_given = self.compute_loss_func is not None
        if max(map(replicas_of, model.modules())) > 1:
            own = self.compute_loss_func or _LossOverRows(model, self.label_smoother)
            self.compute_loss_func = _RepeatedTargets(own)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `Trainer.train` does, after a look at the settings that matter for masks."""
        if self.args.n_gpu > 1:
            raise TrainingError(
                f"{self.args.n_gpu} GPUs in one process (nn.DataParallel) would each need the ids of their own rows. "
                "Start one process a GPU: torchrun --nproc-per-node=gpu script.py; or show one: CUDA_VISIBLE_DEVICES=0."
            )
        if self.args.max_grad_norm:
            warnings.warn(
                f"max_grad_norm={self.args.max_grad_norm}: where the norm of all gradients is clipped, a row changes "
                "the steps of parameters that its flipped network uses, and leaks into it. Turn clipping off: "
                "TrainingArguments(max_grad_norm=0).",
                TurnOverWarning,
                stacklevel=2,
            )
        if self.args.gradient_checkpointing:
            given: Any = self.args.gradient_checkpointing_kwargs or {}
            own = {"use_reentrant": False, "context_fn": turnover.checkpoint_contexts}
            self.args.gradient_checkpointing_kwargs = {**own, **given}
        return super().train(*args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the training loader, or raise where the data set shows that it has no ids."""
        columns = getattr(self.train_dataset, "column_names", None)
        if columns and INSTANCE_ID not in columns:
            listed = ", ".join(map(repr, columns))
            raise MissingIdError(f"the training data has no {INSTANCE_ID!r}, only the columns {listed}. {_CURE}")
        return super().get_train_dataloader()

    def training_step(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Run forward and backward of a batch in the keep view of its rows."""
        if INSTANCE_ID not in inputs:
            listed = ", ".join(map(repr, inputs))
            raise MissingIdError(f"the training batch has no {INSTANCE_ID!r}, only {listed}. {_CURE}")
        inputs, ids = split_ids(inputs)
        with turnover.instances(ids):
            return super().training_step(model, inputs, *args, **kwargs)

    def compute_loss(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of a batch, or raise where a causal model would shift labels that are shifted already."""
        if not self._loss_is_given:
            refuse_shifted(_innermost(self.model), inputs)
        return super().compute_loss(model, inputs, *args, **kwargs)

    def prediction_step(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a batch in the full network; ids that it carries are dropped."""
        if INSTANCE_ID in inputs:
            inputs, _ = split_ids(inputs)
        return super().prediction_step(model, inputs, *args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        model: Any = self.model
        if self.args.should_save:
            write_recipe(model, str(output_dir or self.args.output_dir))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        given: Any = self.model if model is None else model
        adopt_recipe(given, resume_from_checkpoint)
        super()._load_from_checkpoint(resume_from_checkpoint, model)


@dataclass(frozen=True)
class IdCollator:
    """A collator around another one, which sees rows without ids and without columns that the model does not take.

    Args:
        collator: makes a batch of rows, with dynamic padding for example.
        columns: those that are kept; None: all.
    """

    collator: Callable[[list[Any]], Any]
    columns: frozenset[str] | None = None

    def __call__(self, rows: Iterable[Any]) -> Any:
        """Return the batch with its ids, if the rows have any."""
        given = list(rows)
        if not given or not all(isinstance(row, Mapping) for row in given):
            return self.collator(given)
        ids = [row[INSTANCE_ID] for row in given if INSTANCE_ID in row]
        if ids and len(ids) < len(given):
            raise MissingIdError(f"{len(given) - len(ids)} of {len(given)} rows have no {INSTANCE_ID!r}. {_CURE}")
        batch = self.collator([{name: row[name] for name in row if self._keeps(name)} for row in given])
        return attach(batch, torch.tensor([int(number) for number in ids], dtype=torch.int64)) if ids else batch

    def _keeps(self, name: str) -> bool:
        return name != INSTANCE_ID and (self.columns is None or name in self.columns)


@dataclass(frozen=True)
class _RepeatedTargets:
    """A loss function of a Trainer that gets the targets of all replicas."""

    loss: Callable[..., Tensor]

    def __call__(self, outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Tensor:
        now = active_instances()
        if now is not None and labels is not None:
            repeated = now.repeat(labels)
            if num_items_in_batch is not None:
                num_items_in_batch = num_items_in_batch * (len(repeated) // len(labels))
            labels = repeated
        return self.loss(outputs, labels, num_items_in_batch=num_items_in_batch)


@dataclass(frozen=True)
class _LossOverRows:
    """The loss that a model of Hugging Face computes inside itself, where targets cannot be repeated."""

    model: nn.Module
    smoother: Any

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        if labels is None:
            raise TargetError(
                "the batch has no 'labels'. A model with replicas needs them, or a loss of your own: "
                "compute_loss_func=..."
            )
        shifts = shifts_labels(self.model)
        if self.smoother is not None:
            return self.smoother(outputs, labels, shift_labels=shifts, num_items_in_batch=num_items_in_batch)
        logits = logits_of(outputs).float()
        if shifts:
            logits, labels = logits[:, :-1], labels[:, 1:]
        if labels.is_floating_point():
            losses = self._errors(logits, labels)
            count = losses.numel()
        else:
            flat = labels.reshape(-1)
            losses = functional.cross_entropy(logits.reshape(len(flat), -1), flat, reduction="none")
            count = (flat != IGNORED).sum()
        return losses.sum() / (count if num_items_in_batch is None else num_items_in_batch)

    def _errors(self, logits: Tensor, labels: Tensor) -> Tensor:
        config = getattr(self.model, "config", None)
        kind = getattr(config, "problem_type", None)
        if kind == "multi_label_classification" or (kind is None and getattr(config, "num_labels", 1) > 1):
            return functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return (logits.reshape(labels.shape) - labels).square()


def _innermost(model: Any) -> Any:
    """Return the model whose `forward` takes the columns: inside PEFT, which takes anything."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
