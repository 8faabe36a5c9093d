"""The models of an ensemble, checked, and switched to eval mode while they are used."""

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from turnover.errors import InfluenceError, TurnOverWarning
from turnover.layers import RECIPE_KEY, Masking, device_of, find_root, masking_of, preferred_device, whole_model
from turnover.wrapping import masks_beside, replica_models, wrapped_root

from ._memory import keep_freed_memory
from .fingerprint import fingerprint_of, plain_repr

# How many use a module at the moment, and the mode it had before the first of them.
_in_use: dict[nn.Module, tuple[int, bool]] = {}
_modes_lock = threading.Lock()


class Member:
    """One trained model."""

    def __init__(self, model: nn.Module) -> None:
        """Find the wrapped part of a model; it may have none."""
        self.model = model
        self.has_masks = find_root(model) is not None
        self.root = wrapped_root(model) if self.has_masks else model

    @property
    def masking(self) -> Masking:
        """Return the masks of the model."""
        return masking_of(self.root)

    @property
    def replicas(self) -> int:
        """Return how many replicas the model has."""
        return self.masking.recipe.replicas

    @property
    def recipe(self) -> str | None:
        """Return the mask recipe as JSON; None: the model was never wrapped."""
        return self.masking.recipe.to_json() if self.has_masks else None

    @property
    def is_symmetric(self) -> bool:
        """Return whether any mask and its flip are equally probable: each unit is kept by half of all ids."""
        recipe = self.masking.recipe
        halves = all(site.keep == 0.5 for site in recipe.sites)
        return recipe.mode == "forward" and recipe.kind in ("counter", "volatile") and halves

    @property
    def device(self) -> torch.device:
        """Return where the model lives."""
        return device_of(self.model)

    def site_numbers(self, paths: Sequence[str] | None) -> frozenset[int] | None:
        """Return the numbers of the sites with these paths, or raise where there is no such site; None: all."""
        if paths is None:
            return None
        known = [site.path for site in self.masking.recipe.sites]
        unknown = [path for path in paths if path not in known]
        if unknown or not paths:
            raise InfluenceError(
                f"sites={list(paths)!r}: must be sites of this model, got {', '.join(map(repr, unknown)) or 'none'}. "
                f"Its sites: {', '.join(map(repr, known))}."
            )
        return frozenset(known.index(path) for path in paths)

    def digest(self) -> str:
        """Return a checksum of the structure, weights and masks; what was learned about sites does not count.

        It is computed once as long as nothing changes: of a small model it would take longer than an answer.
        """
        structure = [self.recipe, plain_repr(self.root)]
        state = structure, [_state(value) for value in _tensors_of(self.model)]
        known = _digests.get(self.model)
        if known is None or known[0] != state:
            tensors = [*self.model.named_parameters(), *self.model.named_buffers()]
            weights = {_plain_name(name): value for name, value in tensors if not name.endswith(RECIPE_KEY)}
            known = _digests[self.model] = state, fingerprint_of([*structure, weights])
        return known[1]


_digests: "WeakKeyDictionary[nn.Module, tuple[Any, str]]" = WeakKeyDictionary()


def _tensors_of(model: nn.Module) -> Iterator[Tensor]:
    """Yield all parameters and buffers but recipes, in an order that stays."""
    for module in model.modules():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is not None and name != RECIPE_KEY:
                yield tensor


def _state(tensor: Tensor) -> tuple[Any, ...]:
    """Return what changes with a tensor, however it is written to: a write through `.data` counts in no version."""
    bits = tensor.detach()
    if bits.is_contiguous() and bits.numel() * bits.element_size() % 8 == 0 and bits.data_ptr() % 8 == 0:
        bits = bits.flatten().view(torch.int64)
    version = None if tensor.is_inference() else tensor._version
    return tensor.data_ptr(), version, tensor.dtype, tensor.shape, bits.sum().item()


def _plain_name(name: str) -> str:
    """Return the name of a tensor without what torch.compile and DDP put around a model."""
    return name.replace("_orig_mod.", "").removeprefix("module.")


class Members(Sequence[Member]):
    """The models of an ensemble; a model with replicas stands for as many members.

    The members of a model with replicas share its weights. Where these are exchanged for others (`model.to(device)`),
    the members are made anew.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        """Take models that fit together."""
        self._models = models
        self._have_masks = all(find_root(model) is not None for model in models)
        # Of each model the addresses of its weights, when its members were made; they count where these are replicas.
        self._weights: list[tuple[int, ...]] = [() for _ in models]
        self._members: list[list[Member]] = [[] for _ in models]

    def __len__(self) -> int:
        """Return how many members there are."""
        return len(self._current())

    def __getitem__(self, place: Any) -> Any:
        """Return one member, or several."""
        return self._current()[place]

    def __iter__(self) -> Iterator[Member]:
        """Return all members, in order; the models are looked at once."""
        return iter(self._current())

    @property
    def have_masks(self) -> bool:
        """Return whether the models were wrapped: all of them, or none."""
        return self._have_masks

    @property
    def hint(self) -> str:
        """Return what to call where a model was opened without the masks that its folder holds; "": it was not."""
        return "" if self._have_masks else masks_beside(self._models[0])

    @property
    def whole(self) -> list[Member]:
        """Return the models as they were given, each with all its replicas: their trunk runs once."""
        return [Member(model) for model in self._models]

    def _current(self) -> list[Member]:
        for place, (model, members) in enumerate(zip(self._models, self._members, strict=True)):
            if len(members) == 1 and members[0].model is model:
                continue
            weights = tuple(parameter.data_ptr() for parameter in model.parameters())
            if not members or weights != self._weights[place]:
                self._members[place], self._weights[place] = _members_of(model), weights
        return [member for part in self._members for member in part]


def _members_of(model: nn.Module) -> list[Member]:
    alone = Member(model)
    if not alone.has_masks or alone.replicas == 1:
        return [alone]
    return [Member(one) for one in replica_models(model)]


def open_members(model: nn.Module | Sequence[nn.Module], device: torch.device | str | None) -> Members:
    """Return the models of an ensemble, moved to `device`, or raise where they do not fit together."""
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
    models = [whole_model(one, device=device) for one in models]
    given = [Member(one if device is None else one.to(device)) for one in models]
    masked = [member for member in given if member.has_masks]
    if masked and len(masked) < len(given):
        raise InfluenceError(
            f"{len(masked)} of {len(given)} models are wrapped, the others are not. Give models of one kind: wrap all "
            "of them before training, or unwrap them (turnover.unwrap)."
        )
    _check_masks(masked)
    return Members([member.model for member in given])


@contextmanager
def evaluating(members: Sequence[Member]) -> Iterator[None]:
    """Switch to eval mode without gradients, and restore every module's mode afterwards."""
    keep_freed_memory()
    models = [member.model for member in members]
    modules = [module for model in models for module in model.modules()]
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
                "saw no training pass. Both halves of the "
                "network know the same, and scores are noise. Train it inside turnover.instances(ids) first.",
                TurnOverWarning,
                stacklevel=5,
            )
