"""A model that several processes train together: one tensor of its shards, a whole copy, the same masks in all.

Nothing here imports what shards a model: where that package was never loaded, no model is sharded. All that gathers is
collective: every process of the training has to call it, in the same order.
"""

import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from turnover.errors import ModelError

from .recipe import Recipe

_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
_SHARDS = "torch.distributed"
_MANAGED = ("_is_fsdp_managed_module", "_fsdp_use_orig_params")  # what FSDP1 and FSDP2 give modules in their care
_ZERO3 = "ds_id"  # what DeepSpeed gives a parameter that it spreads over processes


def whole_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor that is spread over processes (a DTensor) as one; any other as it is."""
    shards: Any = tensor
    if not hasattr(shards, "full_tensor"):
        return tensor
    device = shards.device_mesh.device_type
    # Shards that were offloaded travel by the device of their processes.
    return (shards if shards.device.type == device else shards.to(device)).full_tensor()


def is_sharded(model: nn.Module) -> bool:
    """Tell whether the parameters of a model are spread over processes, by fully_shard (FSDP2) or FSDP1."""
    zero3 = spread = False
    for parameter in model.parameters():
        zero3 = zero3 or hasattr(parameter, _ZERO3)
        spread = spread or hasattr(parameter, "full_tensor")
    if zero3:
        raise ModelError(
            "DeepSpeed's ZeRO stage 3 spreads the weights of this model over processes, and only DeepSpeed can gather "
            "them. Use ZeRO stage 2, or torch.distributed.fsdp.fully_shard; or let DeepSpeed write whole weights "
            "(save_16bit_model, zero_to_fp32.py) and load_state_dict them into a wrapped model of one process."
        )
    # After a forward pass without a backward pass the outermost module may hold whole tensors for a while.
    if spread or any(map(_is_shard, model.modules())):
        return True
    if any(map(is_managed, model.modules())):
        raise ModelError(
            f"this {type(model).__name__} is a part of a sharded model, which alone can gather its weights. Give the "
            "model that fully_shard or FullyShardedDataParallel was called with."
        )
    return False


def is_flattened(model: nn.Module) -> bool:
    """Tell whether FSDP1 is around parameters of a model: they are flat, and only it can name them."""
    return any(map(_is_flat, model.modules()))


def is_managed(module: nn.Module) -> bool:
    """Tell whether FSDP1 or FSDP2 looks after a module, be it from outside.

    Such a module must not return a view: what changes that in place takes it out of the backward pass.
    """
    return _MANAGED[0] in module.__dict__


def _is_shard(module: nn.Module) -> bool:
    fsdp: Any = sys.modules.get(f"{_SHARDS}.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FSDPModule | fsdp.FullyShardedDataParallel)


def _is_flat(module: nn.Module) -> bool:
    return _is_shard(module) and isinstance(module, sys.modules[f"{_SHARDS}.fsdp"].FullyShardedDataParallel)


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
    unflattened = nullcontext()
    if is_flattened(model):
        fsdp = sys.modules[f"{_SHARDS}.fsdp"].FullyShardedDataParallel
        unflattened = fsdp.summon_full_params(model, writeback=False)
    with unflattened, _unsharded(model):
        model = _inside(model)
        copies: dict[int, Any] = {}
        for tensor in [*model.parameters(), *model.buffers()]:
            value = whole_tensor(tensor.detach())
            value = value.clone() if device is None or value.device == torch.device(device) else value.to(device)
            learns = isinstance(tensor, nn.Parameter)
            copies[id(tensor)] = nn.Parameter(value, tensor.requires_grad) if learns else value
        return copy.deepcopy(model, copies)


@contextmanager
def _unsharded(model: nn.Module) -> Iterator[None]:
    """Take what torch.distributed put into modules out of them, for the time of a copy: class, hooks, state, FSDP1."""
    before = [(module, type(module), dict(module.__dict__)) for module in model.modules()]
    sharded: list[Any] = [module for module, _, _ in before if _is_shard(module) and not _is_flat(module)]
    for module in sharded:
        module.reshard()
    before = [(module, kind, dict(module.__dict__)) for module, kind, _ in before]
    try:
        for module in sharded:
            base = sys.modules[f"{_SHARDS}.fsdp"].FSDPModule
            module.__class__ = next(kind for kind in type(module).__mro__[1:] if kind is not base)
        for module, _, attributes in before:
            for name in _HOOKS:
                hooks = attributes[name]
                ours = {key: hook for key, hook in hooks.items() if not _is_theirs(getattr(hook, "hook", hook))}
                module.__dict__[name] = type(hooks)(ours)
            for name in [name for name, value in attributes.items() if name in _MANAGED or _is_state(value)]:
                del module.__dict__[name]
            module.__dict__["_modules"] = {name: _inside(child) for name, child in attributes["_modules"].items()}
        yield
    finally:
        for module, kind, attributes in before:
            module.__class__ = kind
            module.__dict__.clear()
            module.__dict__.update(attributes)


def _inside(module: Any) -> Any:
    return module.module if _is_flat(module) else module


def _is_theirs(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith(_SHARDS)


def _is_state(value: Any) -> bool:
    """Tell whether an attribute of a module is the register of what torch.distributed did to it."""
    return isinstance(value, dict) and any(
        type(item).__module__.startswith(_SHARDS) and not isinstance(item, Tensor | nn.Module)
        for item in value.values()
    )


def groups_of(model: nn.Module | None) -> list[Any]:
    """Return the process groups that train a model together, one for each dimension of their mesh; often none.

    DistributedDataParallel is seen only while it runs, the same for any model.
    """
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return []
    data_parallel = DistributedDataParallel._active_ddp_module
    if data_parallel is not None:
        return [data_parallel.process_group]
    if model is None:
        return []
    mesh = next(_meshes_of(model), None)
    if mesh is not None:
        return [mesh.get_group(dim) for dim in range(mesh.ndim)]
    return [torch.distributed.group.WORLD] if any(map(is_managed, model.modules())) else []


def _meshes_of(model: nn.Module) -> Iterator[Any]:
    """Yield the meshes of processes over which fully_shard has spread parts of a model."""
    tensors: Iterator[Any] = model.parameters()
    yield from (tensor.device_mesh for tensor in tensors if hasattr(tensor, "device_mesh"))
    sharded: list[Any] = [module for module in model.modules() if _is_shard(module) and not _is_flat(module)]
    for module in sharded:  # in a forward pass all tensors may be whole
        group = module._get_fsdp_state()._fsdp_param_group
        if group is not None:
            yield group.mesh_info.mesh


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
    for rank, text in exchange_values((torch.distributed.get_rank(), recipe.to_json()), groups):
        recipes.setdefault(text, rank)
    if len(recipes) > 1:
        lines = "\n".join(f"  process {rank}: {Recipe.from_json(text)}" for text, rank in recipes.items())
        raise ModelError(
            "the processes that train this model together have different masks, so an instance would train another "
            f"subnetwork than the one that is scored.\n{lines}\n"
            "Call turnover.wrap with the same arguments, seed among them, in every process; for several models with "
            "seeds of their own, train them without DistributedDataParallel and fully_shard."
        )
