"""A model that several processes train together: one tensor of its shards, a whole copy, the same masks in all.

Nothing here imports what shards a model: where that package was never loaded, no model is sharded. All that gathers is
collective: every process of the training has to call it, in the same order.
"""

import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from turnover.errors import RecipeMismatchError, ShardedModelError

from .recipe import Recipe

_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
_SHARDS = "torch.distributed"
_ZERO3 = "ds_id"  # what DeepSpeed gives a parameter that it spreads over processes
_TO_LOAD = (
    "Or take the whole weights out by torch.distributed.checkpoint.state_dict.get_model_state_dict(model, "
    "options=StateDictOptions(full_state_dict=True)) and give them to a wrapped model of one process: load_state_dict."
)


def whole_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor that is spread over processes (a DTensor) as one; any other as it is."""
    shards: Any = tensor
    if not hasattr(shards, "full_tensor"):
        return tensor
    device = shards.device_mesh.device_type
    # Shards that were offloaded travel by the device of their processes.
    return (shards if shards.device.type == device else shards.to(device)).full_tensor()


def is_sharded(model: nn.Module) -> bool:
    """Tell whether the parameters of a model are spread over processes (fully_shard); raise where none can gather them.

    Raises:
        ShardedModelError: FSDP1 or ZeRO stage 3 has the parameters, in forms of their own.
    """
    if any(hasattr(parameter, _ZERO3) for parameter in model.parameters()):
        raise ShardedModelError(
            "DeepSpeed's ZeRO stage 3 spreads the weights of this model over processes, and only DeepSpeed can gather "
            "them. Use ZeRO stage 2, or torch.distributed.fsdp.fully_shard; or let DeepSpeed write whole weights "
            "(save_16bit_model, zero_to_fp32.py) and load_state_dict them into a wrapped model of one process."
        )
    fsdp = sys.modules.get(f"{_SHARDS}.fsdp")
    if fsdp is None:
        return any(hasattr(parameter, "full_tensor") for parameter in model.parameters())
    if any(isinstance(module, fsdp.FullyShardedDataParallel) for module in model.modules()):
        raise ShardedModelError(
            "FullyShardedDataParallel (FSDP1) has flattened the weights of this model. Shard it by "
            "torch.distributed.fsdp.fully_shard (FSDP2; accelerate and Trainer: fsdp_version 2; Lightning: "
            f"ModelParallelStrategy). {_TO_LOAD}"
        )
    # After a forward pass without a backward pass the outermost module may hold whole tensors for a while.
    return any(isinstance(module, fsdp.FSDPModule) for module in model.modules()) or any(
        hasattr(parameter, "full_tensor") for parameter in model.parameters()
    )


def whole_model(model: nn.Module, *, device: torch.device | str | None = None) -> nn.Module:
    """Return a model that runs in this process alone.

    Of DistributedDataParallel that is the module inside. A sharded model is gathered into a copy, on `device` or where
    its shards are. Any other model is returned as it is.
    """
    if isinstance(model, DistributedDataParallel):
        model = model.module
    if not is_sharded(model):
        return model
    model = getattr(model, "_orig_mod", model)  # what was compiled was compiled for shards
    with _unsharded(model):
        tensors = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
        copies = {key: _whole_copy(tensor, device) for key, tensor in tensors.items()}
        return copy.deepcopy(model, {**copies, id(copies): list(tensors.values())})


def _whole_copy(tensor: Tensor, device: torch.device | str | None) -> Tensor:
    value = whole_tensor(tensor.detach())
    value = value.clone() if device is None or value.device == torch.device(device) else value.to(device)
    return nn.Parameter(value, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else value


@contextmanager
def _unsharded(model: nn.Module) -> Iterator[None]:
    """Take what torch.distributed put into modules out of them, for the time of a copy: class, hooks and state."""
    fsdp: Any = sys.modules.get(f"{_SHARDS}.fsdp")
    before = [(module, type(module), dict(module.__dict__)) for module in model.modules()]
    for module, kind, attributes in before:
        if fsdp is not None and isinstance(module, fsdp.FSDPModule):
            module.reshard()
            module.__class__ = next(base for base in kind.__mro__[1:] if base is not fsdp.FSDPModule)
    try:
        for module, _, attributes in before:
            for name in _HOOKS:
                hooks = attributes[name]
                module.__dict__[name] = type(hooks)({key: hook for key, hook in hooks.items() if not _is_theirs(hook)})
            for name in [name for name, value in attributes.items() if _is_state(value)]:
                del module.__dict__[name]
        yield
    finally:
        for module, kind, attributes in before:
            module.__class__ = kind
            module.__dict__.clear()
            module.__dict__.update(attributes)


def _is_theirs(hook: Any) -> bool:
    """Tell whether torch.distributed put a hook there."""
    function = getattr(hook, "hook", hook)
    return str(getattr(function, "__module__", "")).startswith(_SHARDS)


def _is_state(value: Any) -> bool:
    """Tell whether an attribute of a module is the register of what torch.distributed did to it."""
    return isinstance(value, dict) and any(
        type(item).__module__.startswith(_SHARDS) and not isinstance(item, Tensor) for item in value.values()
    )


def groups_of(root: nn.Module) -> list[Any]:
    """Return the process groups that train a model together, one for each dimension of their mesh; often none.

    A model of DistributedDataParallel is known only while that runs it.
    """
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return []
    data_parallel = DistributedDataParallel._active_ddp_module
    if data_parallel is not None:
        return [data_parallel.process_group]
    mesh = _mesh_of(root)
    return [] if mesh is None else [mesh.get_group(dim) for dim in range(mesh.ndim)]


def _mesh_of(root: nn.Module) -> Any:
    """Return the mesh of processes over which a model is spread; None: it is not."""
    for parameter in root.parameters():
        if hasattr(parameter, "device_mesh"):
            return parameter.device_mesh
    fsdp = sys.modules.get(f"{_SHARDS}.fsdp")
    if fsdp is None:
        return None
    for module in root.modules():  # in a forward pass all tensors may be whole
        if isinstance(module, fsdp.FSDPModule):
            group = module._get_fsdp_state()._fsdp_param_group
            if group is not None:
                return group.mesh_info.mesh
    return None


def exchange_values(value: Any, groups: Sequence[Any]) -> list[Any]:
    """Return the values of all processes, in one order for all; without groups, the value alone."""
    values = [value]
    for group in groups:
        parts: list[Any] = [None] * group.size()
        torch.distributed.all_gather_object(parts, values, group)
        values = [one for part in parts for one in part]
    return values


def check_same_recipe(recipe: Recipe, groups: Sequence[Any]) -> None:
    """Raise, in every process, where those that train one model together mask it differently."""
    if not groups:
        return
    recipes: dict[str, int] = {}
    for rank, text in enumerate(exchange_values(recipe.to_json(), groups)):
        recipes.setdefault(text, rank)
    if len(recipes) > 1:
        lines = "\n".join(f"  process {rank}: {Recipe.from_json(text)}" for text, rank in recipes.items())
        raise RecipeMismatchError(
            "the processes that train this model together have different masks, so an instance would train another "
            f"subnetwork than the one that is scored.\n{lines}\n"
            "Call turnover.wrap with the same arguments, seed among them, in every process; for several models with "
            "seeds of their own, train them without DistributedDataParallel and fully_shard."
        )
