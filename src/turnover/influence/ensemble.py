"""The members that a question is put to: replicas, models or checkpoints, checked, and how they are run."""

import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from turnover.batches import logits_of
from turnover.errors import InfluenceError, ModelError, TurnOverWarning
from turnover.layers import RECIPE_KEY, Masking, device_of, find_root, masking_of, preferred_device, whole_model
from turnover.wrapping import masks_beside, replica_models, wrapped_root

from .executors import Executor, Shared, as_executor, is_remote, keep_freed_memory, threads_of
from .fingerprint import fingerprint_of, plain_repr
from .measures import Measure

_DEFAULT_MEMORY = 256 * 2**20
_DTYPES = (None, torch.float32, torch.bfloat16, torch.float16)


class Member:
    """One trained network: a model, or one replica of it."""

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None) -> None:
        """Find the wrapped part of a model; it may have none. `dtype`: run under autocast in this type."""
        self.model, self.dtype = model, dtype
        self.has_masks = find_root(model) is not None
        self.root = wrapped_root(model) if self.has_masks else model
        self.replicas = self.masking.recipe.replicas if self.has_masks else 1

    @property
    def masking(self) -> Masking:
        """Return the masks of the model."""
        return masking_of(self.root)

    @property
    def recipe(self) -> str | None:
        """Return the mask recipe as JSON; None: the model was never wrapped."""
        return self.masking.recipe.to_json() if self.has_masks else None

    @property
    def device(self) -> torch.device:
        """Return where the model lives."""
        return device_of(self.model)

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context of a lower precision where one is set."""
        if self.dtype in (None, torch.float32):
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, *, compiled: Any = None) -> Tensor:
        """Return the outputs [rows, ...], or say what is wrong with them."""
        with self.precision():
            outputs = logits_of((compiled or self.model)(*args, **kwargs))
        if not isinstance(outputs, Tensor):
            raise InfluenceError(
                f"the model returned a {type(outputs).__name__}. Return a tensor, a tuple that begins with one, or "
                "something with .logits."
            )
        if outputs.dim() == 0 or outputs.shape[0] != rows:
            raise InfluenceError(
                f"the model returned outputs of shape {list(outputs.shape)} for {rows} rows. "
                "Their first dimension must be the batch."
            )
        return outputs

    def digest(self) -> str:
        """Return a checksum of structure, weights and masks, computed once as long as nothing is written to them.

        What was learned about sites does not count.
        """
        structure = [self.recipe, plain_repr(self.root)]
        held = [{**module._parameters, **module._buffers} for module in self.model.modules()]
        state = (
            structure,
            [
                _state(value)
                for of_module in held
                for name, value in of_module.items()
                if value is not None and name != RECIPE_KEY
            ],
        )
        known = _digests.get(self.model)
        if known is None or known[0] != state:
            tensors = [*self.model.named_parameters(), *self.model.named_buffers()]
            # Without what torch.compile and DDP put around a model.
            weights = {
                name.replace("_orig_mod.", "").removeprefix("module."): value
                for name, value in tensors
                if not name.endswith(RECIPE_KEY)
            }
            known = _digests[self.model] = state, fingerprint_of([*structure, weights])
        return known[1]


_digests: "WeakKeyDictionary[nn.Module, tuple[Any, str]]" = WeakKeyDictionary()


def _state(tensor: Tensor) -> tuple[Any, ...]:
    """Return what changes with a tensor, however it is written to: a write through `.data` counts in no version."""
    bits = tensor.detach()
    if bits.is_contiguous() and bits.numel() * bits.element_size() % 8 == 0 and bits.data_ptr() % 8 == 0:
        bits = bits.flatten().view(torch.int64)
    version = None if tensor.is_inference() else tensor._version
    return tensor.data_ptr(), version, tensor.dtype, tensor.shape, bits.sum().item()


class Ensemble:
    """The members of a question, made when one first needs them; views of replicas share the weights of their model.

    Attributes:
        whole: the models as they were given, each with all its replicas: their trunk runs once.
        count: how many members there are: replicas of all models.
        have_masks: whether the models were wrapped: all of them, or none.
        measure: the score of an output for its target.
        memory: bytes that a chunk of work may take.
        compiles: whether members run through torch.compile.
        executor: who computes tiles.
    """

    def __init__(
        self,
        model: nn.Module | Sequence[nn.Module],
        *,
        measure: Measure,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        compile: bool = False,
        executor: Executor | None = None,
    ) -> None:
        """Move the models to `device` and check that they fit together."""
        if dtype not in _DTYPES:
            raise InfluenceError(f"dtype={dtype} is not supported. Give torch.bfloat16, torch.float16 or None.")
        if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InfluenceError(f"memory must be a number of bytes >= 1, got {memory!r}. Give memory=2**28.")
        self.measure, self.compiles, self.executor = measure, compile, as_executor(executor)
        self.memory = _DEFAULT_MEMORY if memory is None else memory
        self.whole = [Member(one, dtype) for one in _opened(model, device)]
        masked = [member for member in self.whole if member.has_masks]
        if masked and len(masked) < len(self.whole):
            raise InfluenceError(
                f"{len(masked)} of {len(self.whole)} models are wrapped, the others are not. Give models of one kind: "
                "wrap all of them before training, or unwrap them (turnover.unwrap)."
            )
        self.have_masks = bool(masked)
        _check_masks(masked)
        # What to call where a model was opened without the masks that its folder holds.
        self._hint = "" if masked else masks_beside(self.whole[0].model)
        if self._hint:
            warnings.warn(self._hint, TurnOverWarning, stacklevel=3)
        self.count = sum(member.replicas for member in self.whole)
        # Where the weights are; they may be exchanged (`model.to(device)`), and then all views are made anew.
        self.addresses: list[int] = []
        self._views: dict[bool, list[list[Member]]] = {}

    @property
    def members(self) -> list[Member]:
        """Return all members as full networks, one replica after the other; within `computing`."""
        return [member for replicas in self._replicas(masked=False) for member in replicas]

    @property
    def masked(self) -> list[list[Member]]:
        """Return of every model its replicas, each with its masks as a member of its own; within `computing`."""
        return self._replicas(masked=True)

    def _replicas(self, *, masked: bool) -> list[list[Member]]:
        if masked not in self._views:
            self._views[masked] = [
                [member]
                if member.replicas == 1
                else [Member(one, member.dtype) for one in replica_models(member.model, masked=masked)]
                for member in self.whole
            ]
        return self._views[masked]

    def need_masks(self, what: str) -> None:
        """Raise where the models were never wrapped."""
        if not self.have_masks:
            raise ModelError(
                f"{what} needs masks, and this model was never wrapped. "
                f"{self._hint or 'Wrap it before training: model = turnover.wrap(model, at=[...]).'}"
            )

    def digests(self) -> list[str]:
        """Return a checksum of every model."""
        return [member.digest() for member in self.whole]

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Switch to eval mode without gradients, and compute with as many threads as the executor's tasks have."""
        addresses = [value.data_ptr() for member in self.whole for value in member.model.parameters()]
        if addresses != self.addresses:
            self.addresses, self._views = addresses, {}
        before, threads = torch.get_num_threads(), threads_of(self.executor)
        with evaluating(member.model for member in self.whole):  # views are made of models in eval mode, and stay in it
            try:
                if threads != before:
                    torch.set_num_threads(threads)
                yield
            finally:
                if threads != before:
                    torch.set_num_threads(before)

    def workers(self, *data: Shared) -> Executor:
        """Return the executor; one of other processes knows what all tasks hold, and has checked that it can work."""
        if not is_remote(self.executor):
            return self.executor
        views = [member for masked in sorted(self._views) for replicas in self._views[masked] for member in replicas]
        models = [member.model for member in [*self.whole, *views]]
        shared = Shared(f"models {sorted(self._views)} {fingerprint_of(self.digests())}", models)
        return self.executor.sharing([shared, *data], memory=self.memory)


def _opened(model: Any, device: torch.device | str | None) -> list[nn.Module]:
    models: list[Any] = list(model) if isinstance(model, Sequence) and not isinstance(model, str) else [model]
    if wrong := [one for one in models if not isinstance(one, nn.Module)]:
        given = repr(wrong[0]) if isinstance(wrong[0], str | os.PathLike) else f"an object of {type(wrong[0])}"
        raise InfluenceError(
            f"a model must be a torch.nn.Module, got {given}. Load each checkpoint into a copy of the model, and give "
            "the copies: one = copy.deepcopy(model); one.load_state_dict(torch.load(file))."
        )
    device = None if device is None else preferred_device(device)
    if not models:
        raise InfluenceError(
            "an empty list of models was given. Give a wrapped model, or several with different seeds."
        )
    whole = [whole_model(one, device=device) for one in models]
    return whole if device is None else [one.to(device) for one in whole]


def _check_masks(given: Sequence[Member]) -> None:
    """Reject mask seeds that are alike, and warn of models that were never trained with their masks."""
    seeds: dict[int, int] = {}
    for place, member in enumerate(given):
        seed = member.masking.recipe.seed
        if seed in seeds:
            raise InfluenceError(
                f"models {seeds[seed]} and {place} have the same mask seed {seed}, so their noise is the same too. "
                "Wrap every member with a seed of its own: turnover.wrap(model, seed=1)."
            )
        seeds[seed] = place
        if member.masking.learned.passes == 0:
            warnings.warn(
                f"{'the model' if len(given) == 1 else f'model {place}'} was never trained with its masks: its sites "
                "saw no training pass, and scores are noise. Train it inside turnover.instances(ids) first.",
                TurnOverWarning,
                stacklevel=4,
            )


# How many use a module at the moment, and the mode it had before the first of them.
_in_use: dict[nn.Module, tuple[int, bool]] = {}
_modes_lock = threading.Lock()


@contextmanager
def evaluating(models: Iterable[nn.Module]) -> Iterator[None]:
    """Switch models to eval mode without gradients, and restore every module's mode afterwards."""
    keep_freed_memory()
    models = list(models)
    modules = list(dict.fromkeys(module for model in models for module in model.modules()))
    with _modes_lock:
        for module in modules:
            count, mode = _in_use.get(module, (0, module.training))
            _in_use[module] = count + 1, mode
        if any(module.training for module in modules):
            for model in models:
                model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        with _modes_lock:
            for module in modules:
                count, mode = _in_use.pop(module)
                if count > 1:  # another thread still uses the same model
                    _in_use[module] = count - 1, mode
                elif module.training != mode:
                    module.training = mode
