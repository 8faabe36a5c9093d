"""What stands against adapters: in the options, in the model, and at the places they would go to.

Every problem is a text that says what was given and what to do instead.
"""

import difflib
from collections.abc import Iterator, Sequence

from torch import nn
from torch.nn.parameter import is_lazy

from turnover.wrapping.plan.called import is_called

from .adapters import Adapters
from .module import ACTIVATIONS, INPUT, NAME, Adapter, adapters_in, output_width

BY_HAND = "Name the modules to put adapters after by hand: Adapters(after=['path', ...])"
_FEWEST = 2
_SHOWN = 8


def bad_options(asked: Adapters) -> Iterator[str]:
    """Yield what is wrong with the options."""
    if isinstance(asked.size, bool) or not isinstance(asked.size, int) or asked.size < _FEWEST:
        yield (
            f"adapters={asked.size!r} is no number of bottleneck units. Give an integer from {_FEWEST}, such as 64: of "
            "one unit a mask keeps all or nothing."
        )
    if asked.activation not in ACTIVATIONS:
        yield f"activation={asked.activation!r} is unknown to adapters. Give 'gelu' or 'relu'."
    if asked.after is not None and asked.layers is not None:
        yield "Adapters(after=..., layers=...): `after` names the modules, `layers` the blocks. Give one of them."


def bad_model(model: nn.Module) -> Iterator[str]:
    """Yield what stands against adapters in this model, wherever they would go."""
    if adapters_in(model):
        yield (
            f"the model has adapters already ({some(adapters_in(model))}). Start from the base, or mask those that are "
            f"there: turnover.wrap(model, at=['**.{NAME}.activation', '**.{INPUT}'])."
        )
    if getattr(model, "peft_config", None) or any(hasattr(module, "lora_A") for module in model.modules()):
        yield (
            "the model has PEFT adapters already. Mask those: turnover.wrap(model, "
            "at=turnover.integrations.lora_sites(model)), or start from the base."
        )
    if quantized_in(model):
        yield (
            f"{some(quantized_in(model))}: quantized already, so no gradient flows through to the adapters below. Load "
            "the weights in float32 or bfloat16, wrap the model, and quantize nothing."
        )


def compiled_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules that were compiled: they may not see a hook that comes later."""
    return [
        path or "(the model)"
        for path, module in model.named_modules()
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
    ]


def quantized_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules whose weights are packed into a few bits."""
    packed = [path for path, module in model.named_modules() if _is_quantized(module)]
    return [path for path in packed if path.rpartition(".")[0] not in packed]


def _is_quantized(module: nn.Module) -> bool:
    if "quantized" in type(module).__module__.split("."):
        return True
    # torch's own layers and those derived from them hold plain floating-point weights unless something packed them.
    weight = module._parameters.get("weight")
    return weight is not None and not is_lazy(weight) and not weight.is_floating_point()


def bad_place(model: nn.Module, path: str) -> Iterator[str]:
    """Yield why no adapter can go after a module."""
    module = model.get_submodule(path)
    if not is_called(model, path):
        parent = path.rpartition(".")[0]
        yield (
            f"{path!r} is never called as a module: {parent!r} only reads its weights. Use "
            f"Adapters(after=[{parent!r}, ...])."
        )
    elif output_width(module) is None or next(module.parameters(), None) is None:
        yield (
            f"Adapters(after=...): how wide the output of {path!r} ({type(module).__name__}) is cannot be told. "
            f"Name an nn.Linear: {some(linears(model))}."
        )
    if hasattr(module, NAME) and not isinstance(getattr(module, NAME), Adapter):
        yield f"{path!r} has an attribute {NAME!r} of its own. {BY_HAND} that have none."


def bad_head(model: nn.Module, head: Sequence[str], masked: Sequence[str]) -> Iterator[str]:
    """Yield what stands against these output layers: weights that the frozen model has too, masks that are there."""
    named = list(model.named_parameters(remove_duplicate=False))
    inside = {parameter: name for name, parameter in named if any(name.startswith(f"{path}.") for path in head)}
    for name, parameter in named:
        if parameter in inside and not any(name.startswith(f"{path}.") for path in head):
            yield (
                f"{inside[parameter]!r} is tied to {name!r}: to train the output layer would train the frozen model, "
                "which no mask covers. Untie them first (Hugging Face: config.tie_word_embeddings = False), or train "
                "adapters alone: Adapters(head=())."
            )
    named_inputs = [path for path in masked if hasattr(model.get_submodule(path), INPUT)]
    if named_inputs:
        yield f"{some(named_inputs)} has its input masked already. Start from the base."


def linears(model: nn.Module) -> list[str]:
    """Return the linear layers that are called as modules, for suggestions."""
    return [path for path, module in model.named_modules() if isinstance(module, nn.Linear) and is_called(model, path)]


def near(model: nn.Module, path: str) -> str:
    """Return what may have been meant by a path that is no module."""
    close = difflib.get_close_matches(str(path), [name for name, _ in model.named_modules() if name], n=3)
    return f"Near misses: {some(close)}." if close else f"Linear layers: {some(linears(model))}."


def some(paths: Sequence[str]) -> str:
    """Return a list that is not too long for a message."""
    shown = ", ".join(repr(path) for path in paths[:_SHOWN]) or "none"
    return shown + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
