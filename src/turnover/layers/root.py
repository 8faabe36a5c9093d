"""What a wrapped model's root module carries: the recipe tensor and the hooks that watch over whole forward passes."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .instances import ACTIVE
from .masking import Masking
from .recipe import RECIPE_KEY, to_tensor

_ATTRIBUTE = "_turnover_masking"
_DDP_IGNORE = "_ddp_params_and_buffers_to_ignore"


def find_root(model: nn.Module) -> nn.Module | None:
    """Return the module that was wrapped, the model itself or below it (DDP, compile, Lightning); else None."""
    return next((module for module in model.modules() if _ATTRIBUTE in module.__dict__), None)


def masking_of(root: nn.Module) -> Masking:
    """Return the masking of the module that was wrapped."""
    return root.__dict__[_ATTRIBUTE]


def attach(root: nn.Module, masking: Masking) -> None:
    """Make a module the root of a wrapped model."""
    root.__dict__[_ATTRIBUTE] = masking
    masking.root = weakref.ref(root)
    masking.hugging_face = any(_is_of_hugging_face(module) for module in root.modules())
    root.register_buffer(RECIPE_KEY, to_tensor(masking.recipe, masking.learned))
    # Every process has the same recipe; broadcasting it before each pass would only cost time.
    root.__dict__[_DDP_IGNORE] = [*getattr(root, _DDP_IGNORE, []), RECIPE_KEY]
    masking.write_buffer(root)
    root.register_forward_pre_hook(_begin, with_kwargs=True)
    root.register_forward_hook(_end)
    root.register_state_dict_pre_hook(_write_recipe)
    root.register_load_state_dict_pre_hook(_check_recipe)


def _is_of_hugging_face(module: nn.Module) -> bool:
    """Tell whether a module comes from transformers, or from a class made of one of its own."""
    return any(kind.__module__.partition(".")[0] == "transformers" for kind in type(module).__mro__)


def detach(root: nn.Module) -> None:
    """Undo `attach`."""
    del root.__dict__[_ATTRIBUTE]
    del root._buffers[RECIPE_KEY]
    remaining = [name for name in root.__dict__.pop(_DDP_IGNORE) if name != RECIPE_KEY]
    if remaining:
        root.__dict__[_DDP_IGNORE] = remaining
    for hooks in (
        root._forward_pre_hooks,
        root._forward_hooks,
        root._state_dict_pre_hooks,
        root._load_state_dict_pre_hooks,
    ):
        remove_hooks(hooks, lambda hook: getattr(hook, "hook", hook) in _HOOKS)


def remove_hooks(hooks: dict[int, Any], ours: Callable[[Any], bool]) -> None:
    """Remove the hooks for which `ours` holds."""
    for key in [key for key, hook in hooks.items() if ours(hook)]:
        del hooks[key]


def _begin(root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if torch.compiler.is_dynamo_compiling():
        return
    active = ACTIVE.get()
    if active is not None:
        masking: Masking = root.__dict__[_ATTRIBUTE]
        masking.check_buffer(root)
        if masking.root is None:  # of a copy
            masking.root = weakref.ref(root)
        if root.training and not masking.shared:
            masking.check_processes()
        active.begin(masking, (root, args, kwargs))


def _end(root: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    if torch.compiler.is_dynamo_compiling():
        return
    active = ACTIVE.get()
    if active is not None:
        active.end(root.__dict__[_ATTRIBUTE])


def _write_recipe(root: nn.Module, prefix: str, keep_vars: bool) -> None:
    masking_of(root).write_buffer(root)


def _check_recipe(root: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    masking = masking_of(root)
    tensor = state_dict.get(prefix + RECIPE_KEY)
    if tensor is not None and not tensor.is_meta:
        masking.adopt(tensor, whence="the state dict comes from a model with")


_HOOKS = (_begin, _end, _write_recipe, _check_recipe)
