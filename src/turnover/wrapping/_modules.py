"""What a module is and does, as far as its type and code tell; the ground that all of wrapping stands on."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from functools import lru_cache

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
CHANNELS = (_ConvNd, _NormBase, nn.GroupNorm, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""Modules whose units are dimension 1."""
FEATURES = (
    *(nn.Linear, nn.Bilinear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.EmbeddingBag, nn.RNNBase, nn.RNNCellBase),
    *(nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.Transformer),
)
"""Modules whose units are the last dimension."""
_WIDTHS = ("out_features", "out_channels", "num_features", "num_channels", "embedding_dim", "embed_dim")
_SHOWN = 8


def join(prefix: str, path: str) -> str:
    """Return a dotted path; either part may be empty."""
    return f"{prefix}.{path}" if prefix and path else prefix or path


def is_within(path: str, containers: Sequence[str]) -> bool:
    """Tell whether a path is one of the containers or lies inside one."""
    return f"{path}.".startswith(tuple([f"{container}." for container in containers]))


def listed(paths: Sequence[str], most: int = _SHOWN) -> str:
    """Return a list of names that is not too long for a message."""
    shown = ", ".join(repr(path) for path in paths[:most]) or "none"
    return shown + (f" and {len(paths) - most} more" if len(paths) > most else "")


def exchange(root: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put one module in the place of another, wherever it is registered."""
    for parent in list(root.modules()):
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)


def has_own_parameters(module: nn.Module) -> bool:
    """Tell whether a module has parameters that are its own, and not of a module within."""
    return next(module.parameters(recurse=False), None) is not None


def gathers_statistics(module: nn.Module, model: nn.Module) -> bool:
    """Tell whether a module gathers batch statistics in training; one in eval mode while the model trains does not."""
    return isinstance(module, _NormBase) and module.track_running_stats and (module.training or not model.training)


def is_norm(module: nn.Module) -> bool:
    """Tell whether a module normalizes, of torch or, by its name, of another library."""
    return isinstance(module, NORMS) or type(module).__name__.lower().endswith("norm")


def width_of(module: nn.Module) -> int | None:
    """Return the number of units in a module's output where its type tells, else None."""
    if isinstance(module, nn.RNNBase):
        return (module.proj_size or module.hidden_size) * (2 if module.bidirectional else 1)
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return module.normalized_shape[-1]
    if is_transposed_linear(module) or is_vector_norm(module):
        return next(module.parameters(recurse=False)).shape[-1]
    for name in _WIDTHS:
        value = getattr(module, name, None)
        # Lazy modules say 0 until they have seen a batch.
        if isinstance(module, CHANNELS + FEATURES) and isinstance(value, int) and value > 0:
            return value
    return None


def is_transposed_linear(module: nn.Module) -> bool:
    """Tell whether a module is the `Conv1D` of Hugging Face: a linear layer with its weight [inputs, outputs]."""
    weight = getattr(module, "weight", None)
    known = type(module).__name__ == "Conv1D" and weight is not None
    return known and tuple(weight.shape[1:]) == (getattr(module, "nf", None),)


def is_vector_norm(module: nn.Module) -> bool:
    """Tell whether a module of another library normalizes as nn.RMSNorm does, one number per unit (LlamaRMSNorm)."""
    if not type(module).__name__.endswith("RMSNorm") or module._modules:
        return False
    own = list(module.parameters(recurse=False))
    return len(own) == 1 and own[0].dim() == 1


UNINITIALIZED = (
    "lazy modules whose weights have no shape yet. Run the model once on a batch, model(x), and give it then."
)


def compiled_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules that were compiled: they may not see a hook that comes later."""
    found = []
    for path, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            found.append(path or "(the model)")
    return found


def lazy_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules (nn.LazyLinear, …) whose parameters or statistics get their shapes by running."""
    found = []
    for path, module in model.named_modules():
        if True in map(is_lazy, (*module._parameters.values(), *module._buffers.values())):
            found.append(path or "(the model)")
    return found


def quantized_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules whose weights are packed into a few bits."""
    packed: list[str] = []
    for path, module in model.named_modules():
        # torch's own layers and those derived from them hold plain floating-point weights unless something packed them.
        weight = module._parameters.get("weight")
        integers = weight is not None and not is_lazy(weight) and not weight.is_floating_point()
        if (integers or "quantized" in type(module).__module__.split(".")) and not is_within(path, packed):
            packed.append(path)
    return packed


# Attention layers often hold an nn.Dropout just to read its `p`. Replacing such a module would change nothing but lose
# the mask. The class that owns it is looked at: the module counts as never called if the code of the class mentions the
# attribute, and only to read something from it.


def is_called(model: nn.Module, path: str) -> bool:
    """Return False where the owner's code only reads attributes of this module, else True."""
    parent_path, _, name = path.rpartition(".")
    parent = model.get_submodule(parent_path)
    mentions = [_mentions(owner, name) for owner in type(parent).__mro__ if owner not in (nn.Module, object)]
    used = any(whole for whole, _ in mentions)
    read = any(parts for _, parts in mentions)
    return used or not read


@lru_cache(maxsize=1024)
def _mentions(owner: type, name: str) -> tuple[bool, bool]:
    """Return whether a class uses `self.name` as a whole, and whether it reads an attribute of it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return True, False
    whole = parts = False
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_self(node.value, name) and node.attr != "forward":
            inner.add(id(node.value))
            parts = True
    for node in ast.walk(tree):
        if _is_self(node, name) and isinstance(node.ctx, ast.Load) and id(node) not in inner:  # pyright: ignore
            whole = True
    return whole, parts


def _is_self(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
