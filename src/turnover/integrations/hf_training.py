"""`TurnOverTrainer`, `HFLearningCurves` and `HFAfterEpoch`: masked models in the Trainer of Hugging Face.

The state dict of a wrapped model carries its recipe. PEFT writes the weights of its adapters alone, so a checkpoint of
a PEFT model would come back under any masks: a small file beside each checkpoint keeps the recipe.
"""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from turnover.batches import IGNORED, INSTANCE_ID, Loss, attach, logits_of, split_ids
from turnover.errors import (
    BatchError,
    MissingIdError,
    ModelError,
    SavedModelError,
    TrainingError,
    TurnOverWarning,
)
from turnover.layers import (
    RECIPE_KEY,
    active_instances,
    checkpoint_contexts,
    find_root,
    instances,
    is_sharded,
    masking_of,
    replicas_of,
    to_tensor,
)
from turnover.wrapping import RECIPE_FILE, read_tensors, write_card

from .learning_curves import check_counts, measure_curves

_MIN_AGREEING_LABELS = 3  # fewer may agree by chance
_CURE = (
    "Give every row an id: train_dataset=turnover.with_instance_ids(tokenized). If the rows had ids before they were "
    "tokenized, keep them: dataset.map(tokenize, remove_columns=['text']) instead of all columns."
)


class TurnOverTrainer(Trainer):
    """A Trainer that trains every row in its kept subnetwork, and evaluates the full network.

    Takes the arguments of `transformers.Trainer`. The model comes from `turnover.wrap`, the training data from
    `turnover.with_instance_ids`; evaluation data needs no ids. Another trainer is combined with it by
    `class Mine(TurnOverTrainer, Seq2SeqTrainer): ...`.

    What differs from `Trainer`: columns that the model does not take are dropped by the collator, where the id can be
    kept, instead of from the data set; `training_step` runs inside `turnover.instances(ids)`; losses of a model with
    replicas are computed outside the model, where targets can be repeated; labels that a causal model would shift a
    second time are rejected; checkpoints have the mask recipe beside them.

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
        columns = None
        if self.args.remove_unused_columns:
            columns = frozenset([*inspect.signature(model.forward).parameters, "label", "label_ids", *self.label_names])
        self.args.remove_unused_columns = False  # it would drop the id before any batch is made
        self.data_collator = _IdCollator(self.data_collator, columns)
        self._loss_is_given = self.compute_loss_func is not None
        if max(map(replicas_of, model.modules())) > 1:
            loss = self.compute_loss_func or _LossOverRows(model, self.label_smoother)
            self.compute_loss_func = partial(_of_all_replicas, loss)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as `Trainer.train` does, after a look at the settings that matter for masks."""
        if self.args.n_gpu > 1:
            raise TrainingError(
                f"{self.args.n_gpu} GPUs in one process (nn.DataParallel) would each need the ids of their own rows. "
                "Start one process per GPU: torchrun --nproc-per-node=gpu script.py; or show one only: "
                "CUDA_VISIBLE_DEVICES=0."
            )
        if self.args.max_grad_norm:
            warnings.warn(
                f"max_grad_norm={self.args.max_grad_norm} clips the norm of all gradients: a row then changes the "
                "steps of parameters that its flipped subnetwork uses, and leaks into it. Turn clipping off: "
                "TrainingArguments(max_grad_norm=0).",
                TurnOverWarning,
                stacklevel=2,
            )
        if self.args.gradient_checkpointing:
            given: Any = self.args.gradient_checkpointing_kwargs or {}
            defaults = {"use_reentrant": False, "context_fn": checkpoint_contexts}
            self.args.gradient_checkpointing_kwargs = {**defaults, **given}
        return super().train(*args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the training loader, or raise where the data set shows that it has no ids."""
        columns = getattr(self.train_dataset, "column_names", None)
        if columns and INSTANCE_ID not in columns:
            names = ", ".join(map(repr, columns))
            raise MissingIdError(f"the training data has no {INSTANCE_ID!r}, only the columns {names}. {_CURE}")
        return super().get_train_dataloader()

    def training_step(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Run forward and backward of a batch in the keep view of its rows."""
        if INSTANCE_ID not in inputs:
            names = ", ".join(map(repr, inputs))
            raise MissingIdError(f"the training batch has no {INSTANCE_ID!r}, only {names}. {_CURE}")
        inputs, ids = split_ids(inputs)
        with instances(ids):
            return super().training_step(model, inputs, *args, **kwargs)

    def compute_loss(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of a batch, or raise where a causal model would shift labels that are shifted already."""
        if not self._loss_is_given:
            _reject_shifted_labels(_innermost(self.model), inputs)
        return super().compute_loss(model, inputs, *args, **kwargs)

    def prediction_step(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a batch in the full network; ids that it carries are dropped."""
        if INSTANCE_ID in inputs:
            inputs, _ = split_ids(inputs)
        return super().prediction_step(model, inputs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model as `Trainer.save_model` does; of a sharded one, which `_save` never sees, the recipe, too."""
        super().save_model(output_dir, _internal_call)
        if self.is_fsdp_enabled:
            self._write_recipe(output_dir)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        self._write_recipe(output_dir)

    def _write_recipe(self, output_dir: str | None) -> None:
        root = find_root(cast("nn.Module", self.model))
        if root is not None and self.args.should_save:
            folder, masking = Path(str(output_dir or self.args.output_dir)), masking_of(root)
            folder.mkdir(parents=True, exist_ok=True)
            save_file({RECIPE_KEY: to_tensor(masking.recipe, masking.learned)}, folder / RECIPE_FILE)
            write_card(folder, masking.recipe)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write the model card as `Trainer.create_model_card` does, with the masks of the model below."""
        super().create_model_card(*args, **kwargs)
        root = find_root(cast("nn.Module", self.model))
        if root is not None and self.is_world_process_zero():
            write_card(Path(str(self.args.output_dir)), masking_of(root).recipe)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        target: Any = self.model if model is None else model
        _adopt_recipe(target, resume_from_checkpoint)
        super()._load_from_checkpoint(resume_from_checkpoint, model)


class HFLearningCurves(TrainerCallback):
    """Logs the loss of training rows kept and flipped, and of validation rows, every so many steps.

    The curves are in `trainer.state.log_history` under `curve_keep`, `curve_flip` and `curve_validation`, go wherever
    the Trainer reports to, and are kept in `history`.

    Args:
        trainer: a `TurnOverTrainer`, whose data sets and collator are used.
        rows: number of training rows, and of validation rows, that are measured, evenly spread over the data.
        every: steps from one point of the curves to the next; the first is before training.
        loss: `loss(outputs, targets) -> [batch]`; None: cross-entropy for integer labels, squared error for floats.

    Example:
        >>> def add_curves(trainer):
        ...     trainer.add_callback(HFLearningCurves(trainer, rows=256, every=50))
    """

    def __init__(self, trainer: Any, *, rows: int = 256, every: int = 50, loss: Loss | None = None) -> None:
        check_counts(rows=rows, every=every)
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
        # The forward pass of a sharded model needs every process.
        if not state.is_world_process_zero and not is_sharded(self.trainer.model):
            return
        curves = measure_curves(self.trainer.model, train=self._train, validation=self._validation, loss=self.loss)
        if not state.is_world_process_zero:
            return
        self.history.append({"step": state.global_step, **curves})
        should_log = control.should_log
        self.trainer.log(dict(curves))
        control.should_log = should_log  # `log` takes the log of this step, in which processes meet, for done

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


class HFAfterEpoch(TrainerCallback):
    """Calls a function with the model after every epoch, such as a `turnover.applications.TrainingRecord`.

    Only the first process calls it; of a sharded model all do, for its forward pass needs them.

    Args:
        call: gets the model without what the Trainer wraps around it.

    Example:
        >>> def add_record(trainer, record):
        ...     trainer.add_callback(HFAfterEpoch(record))
    """

    def __init__(self, call: Callable[[nn.Module], object]) -> None:
        self.call = call

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Call it."""
        if state.is_world_process_zero or is_sharded(kwargs["model"]):
            self.call(kwargs["model"])


@dataclass(frozen=True)
class _IdCollator:
    """A collator around another one, which sees rows without ids and without columns that the model does not take."""

    collator: Callable[[list[Any]], Any]
    columns: frozenset[str] | None = None  # those that are kept; None: all

    def __call__(self, rows: Iterable[Any]) -> Any:
        rows = list(rows)
        if not rows or not all(isinstance(row, Mapping) for row in rows):
            return self.collator(rows)
        ids = [row[INSTANCE_ID] for row in rows if INSTANCE_ID in row]
        if ids and len(ids) < len(rows):
            raise MissingIdError(f"{len(rows) - len(ids)} of {len(rows)} rows have no {INSTANCE_ID!r}. {_CURE}")
        batch = self.collator([{name: row[name] for name in row if self._keeps(name)} for row in rows])
        return attach(batch, torch.tensor([int(number) for number in ids], dtype=torch.int64)) if ids else batch

    def _keeps(self, name: str) -> bool:
        return name != INSTANCE_ID and (self.columns is None or name in self.columns)


def _of_all_replicas(loss: Callable[..., Tensor], outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Tensor:
    active = active_instances()
    if active is not None and labels is not None:
        repeated = active.repeat(labels)
        if num_items_in_batch is not None:
            num_items_in_batch = num_items_in_batch * (len(repeated) // len(labels))
        labels = repeated
    return loss(outputs, labels, num_items_in_batch=num_items_in_batch)


@dataclass(frozen=True)
class _LossOverRows:
    """The loss that a model of Hugging Face computes inside itself, where targets cannot be repeated."""

    model: nn.Module
    smoother: Any

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        if labels is None:
            raise BatchError(
                "the batch has no 'labels'. A model with replicas needs them, or a loss of your own: "
                "compute_loss_func=..."
            )
        shifts = _shifts_labels(self.model)
        if self.smoother is not None:
            return self.smoother(outputs, labels, shift_labels=shifts, num_items_in_batch=num_items_in_batch)
        logits = logits_of(outputs).float()
        if shifts:
            logits, labels = logits[:, :-1], labels[:, 1:]
        config = getattr(self.model, "config", None)
        kind = getattr(config, "problem_type", None)
        count = labels.numel()
        if not labels.is_floating_point():
            flat = labels.reshape(-1)
            losses = functional.cross_entropy(logits.reshape(len(flat), -1), flat, reduction="none")
            count = (flat != IGNORED).sum()
        elif kind == "multi_label_classification" or (kind is None and getattr(config, "num_labels", 1) > 1):
            losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        else:
            losses = (logits.reshape(labels.shape) - labels).square()
        return losses.sum() / (count if num_items_in_batch is None else num_items_in_batch)


def _innermost(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _shifts_labels(model: nn.Module) -> bool:
    names = {kind.__name__ for kind in type(model).__mro__}
    return not names.isdisjoint(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())


def _reject_shifted_labels(model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Raise where labels are shifted already and the model would shift them again: it would learn to skip a token."""
    tokens: Any = inputs.get("input_ids")
    labels: Any = inputs.get("labels")
    fit = isinstance(tokens, Tensor) and isinstance(labels, Tensor) and tokens.shape == labels.shape
    if not fit or tokens.dim() < 2 or not _shifts_labels(model):
        return
    if _agree(labels[:, :-1], tokens[:, 1:]) and not _agree(labels, tokens):  # one token over and over: both agree
        raise BatchError(
            f"the labels are the input_ids of the next position, and {type(model).__name__} shifts labels within its "
            "own loss: it would learn the token after the next. Give it the tokens themselves, labels=input_ids (-100 "
            "where a token shall not count); or keep these labels, as turnover.batches.Documents makes them, and "
            "give a loss that compares position by position: TurnOverTrainer(..., compute_loss_func=lambda outputs, "
            "labels, num_items_in_batch=None: torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), "
            "labels.flatten()))."
        )


def _agree(labels: Tensor, tokens: Tensor) -> bool:
    counted = labels != IGNORED
    return int(counted.sum()) >= _MIN_AGREEING_LABELS and bool((labels == tokens)[counted].all())


def _adopt_recipe(model: nn.Module, folder: str) -> None:
    """Take over what the model of a checkpoint had learned about itself, or raise where its masks are others."""
    root = find_root(model)
    if root is None:
        return
    file = Path(folder) / RECIPE_FILE
    if file.is_file():
        try:
            tensor = read_tensors(file)[RECIPE_KEY]
        except (OSError, KeyError, ValueError) as error:
            raise SavedModelError(
                f"{str(file)!r} is damaged: {error}. Resume from another checkpoint, or train from the start."
            ) from error
        masking_of(root).adopt(tensor, whence=f"the checkpoint {folder!r} comes from a model with")
    elif getattr(model, "peft_config", None):
        raise ModelError(
            f"the checkpoint {folder!r} of a PEFT model does not say under which masks it was trained (no "
            f"{RECIPE_FILE}), as a checkpoint of a plain Trainer does not: rows that it learned without masks are "
            "everywhere in the network. Resume from a checkpoint that TurnOverTrainer wrote, or train from the start."
        )
