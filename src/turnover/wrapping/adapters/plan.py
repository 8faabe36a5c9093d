"""Adapters as a user asks for them, where they go in a model, and everything that stands against it.

Every problem is a text that says what was given and what to do instead; all are collected, none is raised.
"""

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn
from torch.nn.parameter import is_lazy

from turnover.layers import AdapterRecipe, Dim
from turnover.wrapping._flow import ZeroFlow
from turnover.wrapping._leaks import Leak
from turnover.wrapping._modules import EMBEDDINGS, is_called, is_norm, is_within, join, listed, quantized_in
from turnover.wrapping._sites import At

from .find import TransformerBlock, find_blocks, find_head, has_linear, output_layers
from .module import ACTIVATIONS, INPUT, NAME, Adapter, adapters_in, bottleneck_of, input_of, output_width, put_adapters

_BY_HAND = "Name the modules to put adapters after by hand: Adapters(after=['path', ...])"
_FEWEST_UNITS = 2


@dataclass(frozen=True)
class Adapters:
    """Bottleneck adapters (Houlsby et al. 2019) in a frozen transformer, given to `wrap` or `plan`.

    Every adapter adds `up(activation(down(x)))` to the output of a module of the frozen model. Masks act on the
    bottleneck and on the input of the output layer; the adapters and the output layers learn, nothing else does.

    Args:
        size: units of each bottleneck.
        layers: blocks that get adapters: the top so many, or a list of their numbers (0 is the first, -1 the last).
            None: all.
        after: paths of modules to put adapters after, instead of looking for blocks.
        head: paths of the output layers. None: what the model registers behind the blocks; (): it has none.
        activation: "gelu" or "relu".
        bias: give the up-projections a bias. No mask covers it, so it leaks.
        norms: let the normalization layers learn, as Houlsby et al. do. No mask covers them, so they leak.
        head_bias: let the bias of the output layer learn. No mask covers it, so it leaks.

    With `bias`, `norms` and `head_bias` left at False nothing leaks.

    Example:
        >>> import torch, turnover
        >>> from turnover.wrapping import Adapters
        >>> layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        >>> net = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Flatten(), torch.nn.Linear(96, 2))
        >>> net = turnover.wrap(net, adapters=Adapters(size=8, layers=1))
        >>> with turnover.instances([0, 1]):
        ...     net(torch.zeros(2, 3, 32)).shape
        torch.Size([2, 2])
    """

    size: int = 64
    layers: int | Sequence[int] | None = None
    after: Sequence[str] | None = None
    head: str | Sequence[str] | None = None
    activation: Literal["gelu", "relu"] = "gelu"
    bias: bool = False
    norms: bool = False
    head_bias: bool = False


@dataclass(frozen=True)
class AdapterPlan:
    """The model as it would be with adapters, and the sites to ask for."""

    model: nn.Module  # a copy with adapters in place, for planning only; the model itself where none were asked for
    at: Any  # the sites, those of the user included
    recipe: AdapterRecipe | None = None  # None where none were asked for or they cannot be put in
    problems: tuple[str, ...] = ()  # why not, and what to do
    notes: tuple[str, ...] = ()  # what is worth knowing
    zero: Mapping[str, ZeroFlow] = field(default_factory=dict)


def plan_adapters(model: nn.Module, adapters: int | Adapters | None, at: At) -> AdapterPlan:
    """Return what `adapters` asks for; all problems are collected, none is raised."""
    if adapters is None:
        return AdapterPlan(model, at)
    options = adapters if isinstance(adapters, Adapters) else Adapters(size=adapters)
    problems = [*_bad_options(options), *_bad_model(model)]
    blocks = [] if options.after is not None else find_blocks(model)
    after = _after(model, options, blocks, problems)
    head = _head(model, options, after, problems) if after else []
    if problems:
        return AdapterPlan(model, at, None, tuple(problems))
    layers = output_layers(model, head)
    problems += _bad_head(model, head, layers.masked)
    if problems:
        return AdapterPlan(model, at, None, tuple(problems))
    recipe = AdapterRecipe(
        after=tuple(after),
        size=options.size,
        activation=options.activation,
        bias=options.bias,
        inputs=layers.masked,
        head=tuple(head),
        frozen=() if options.head_bias else tuple(_biases(model, layers.open)),
        norms=options.norms,
    )
    placed = _skeleton(model)
    put_adapters(placed, recipe, device="meta")
    notes = tuple(_notes(placed, recipe, blocks))
    zero = {input_of(path): ZeroFlow(True) for path in recipe.inputs}
    return AdapterPlan(placed, _sites(recipe, at), recipe, (), notes, zero)


def adapter_leaks(model: nn.Module, recipe: AdapterRecipe) -> Iterator[Leak]:
    """Yield the leaks to be expected in a model with adapters in place: what learns and lies under no mask."""
    layers = output_layers(model, recipe.head)
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = join(path, name)
            if not parameter.requires_grad:
                continue
            if is_norm(module):
                yield Leak(full, "normalization")
            elif isinstance(module, EMBEDDINGS):
                yield Leak(full, "embedding")
            elif name == "bias" and (path in layers.open or path.endswith(f".{NAME}.up")):
                yield Leak(full, "bias without a mask")
            elif path not in layers.paths and f".{NAME}." not in full:
                yield Leak(full, "no mask near")


def _after(model: nn.Module, options: Adapters, blocks: Sequence[TransformerBlock], problems: list[str]) -> list[str]:
    """Return the modules to put adapters after."""
    if options.after is None:
        if not blocks:
            problems.append(
                f"no transformer blocks were recognized in this {type(model).__name__}. {_BY_HAND}, for example of "
                f"{listed(_linears(model))}."
            )
            return []
        chosen = _chosen_blocks(options.layers, blocks, problems)
        after = [end for block in chosen for end in block.ends]
    else:
        modules = dict(model.named_modules())
        given = [options.after] if isinstance(options.after, str) else list(options.after)
        if not given:
            problems.append(f"Adapters(after=[]) names no module. {_BY_HAND}.")
        unknown = [path for path in given if path not in modules or not path]
        problems += [
            f"Adapters(after=...) must name modules of this model, got {path!r}. {_near(model, path)}"
            for path in unknown
        ]
        after = [path for path in modules if path in given and path not in unknown]
    problems += [problem for path in after for problem in _bad_place(model, path)]
    return after


def _chosen_blocks(layers: Any, blocks: Sequence[TransformerBlock], problems: list[str]) -> list[TransformerBlock]:
    count = len(blocks)
    if layers is None or (type(layers) is int and 1 <= layers <= count):
        return list(blocks if layers is None else blocks[-layers:])
    numbers = layers if isinstance(layers, Sequence) and not isinstance(layers, str) else ()
    if not numbers or not all(type(number) is int and -count <= number < count for number in numbers):
        problems.append(
            f"Adapters(layers={layers!r}): the model has {count} blocks. Give how many of the top ones (1 to {count}), "
            f"or a list of numbers from 0 to {count - 1}."
        )
        return list(blocks)
    return [blocks[number] for number in sorted({number % count for number in numbers})]


def _head(model: nn.Module, options: Adapters, after: Sequence[str], problems: list[str]) -> list[str]:
    """Return the paths of the modules that learn beside the adapters."""
    if options.head is None:
        head = find_head(model, after)
        if not head:
            problems.append(
                f"no output layer was found behind {after[-1]!r}. Name it: Adapters(head='path'), for example of "
                f"{listed(_linears(model)[::-1])}; for adapters alone: Adapters(head=())."
            )
        return head
    given = [options.head] if isinstance(options.head, str) else list(options.head)
    modules = dict(model.named_modules())
    for path in given:
        if path not in modules or not path:
            problems.append(f"Adapters(head=...) must name modules of this model, got {path!r}. {_near(model, path)}")
        elif not has_linear(modules[path]):
            problems.append(
                f"Adapters(head=...): {path!r} ({type(modules[path]).__name__}) holds no nn.Linear whose input could "
                f"be masked. Linear layers: {listed(_linears(model)[::-1])}."
            )
        elif any(is_within(place, [path]) for place in after):
            problems.append(
                f"Adapters(head=...): {path!r} holds modules that get adapters; all of it would learn. Name the output "
                f"layer alone: {listed(_linears(model)[::-1])}."
            )
    return [path for path in modules if path in given]


def _bad_options(options: Adapters) -> Iterator[str]:
    """Yield what is wrong with the options."""
    if isinstance(options.size, bool) or not isinstance(options.size, int) or options.size < _FEWEST_UNITS:
        yield (
            f"`adapters` must be an integer >= {_FEWEST_UNITS}, the number of bottleneck units, got {options.size!r}. "
            "Give adapters=64; of one unit a mask keeps all or nothing."
        )
    if options.activation not in ACTIVATIONS:
        yield f"activation={options.activation!r} is unknown to adapters. Give 'gelu' or 'relu'."
    if options.after is not None and options.layers is not None:
        yield "Adapters(after=..., layers=...): `after` names the modules, `layers` the blocks. Give one of them."


def _bad_model(model: nn.Module) -> Iterator[str]:
    """Yield what stands against adapters in this model, wherever they would go."""
    if adapters_in(model):
        yield (
            f"the model has adapters already ({listed(adapters_in(model))}). Start from the base, or mask those that "
            f"are there: turnover.wrap(model, at=['**.{NAME}.activation', '**.{INPUT}'])."
        )
    if getattr(model, "peft_config", None) or any(hasattr(module, "lora_A") for module in model.modules()):
        yield (
            "the model has PEFT adapters already. Mask those: turnover.wrap(model, "
            "at=turnover.integrations.lora_sites(model)), or start from the base."
        )
    if quantized_in(model):
        yield (
            f"{listed(quantized_in(model))}: quantized already, so no gradient flows through to the adapters below. "
            "Load the weights in float32 or bfloat16, wrap the model, and quantize nothing."
        )


def _bad_place(model: nn.Module, path: str) -> Iterator[str]:
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
            f"Name an nn.Linear: {listed(_linears(model))}."
        )
    if hasattr(module, NAME) and not isinstance(getattr(module, NAME), Adapter):
        yield f"{path!r} has an attribute {NAME!r} of its own. {_BY_HAND} that have none."


def _bad_head(model: nn.Module, head: Sequence[str], masked: Sequence[str]) -> Iterator[str]:
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
        yield f"{listed(named_inputs)} has its input masked already. Start from the base."


def _linears(model: nn.Module) -> list[str]:
    """Return the linear layers that are called as modules, for suggestions."""
    return [path for path, module in model.named_modules() if isinstance(module, nn.Linear) and is_called(model, path)]


def _near(model: nn.Module, path: str) -> str:
    """Return what may have been meant by a path that names no module."""
    close = difflib.get_close_matches(str(path), [name for name, _ in model.named_modules() if name], n=3)
    return f"Near misses: {listed(close)}." if close else f"Linear layers: {listed(_linears(model))}."


def _biases(model: nn.Module, paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if model.get_submodule(path)._parameters.get("bias") is not None:
            yield f"{path}.bias"


def _skeleton(model: nn.Module) -> nn.Module:
    """Return a copy of the modules on the same storage, whose parameters can be frozen without those of the model."""
    memo: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    for parameter in model.parameters():
        if not is_lazy(parameter):
            memo[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    return copy.deepcopy(model, memo)


def _sites(recipe: AdapterRecipe, at: At) -> dict[str, Dim | None]:
    """Return the sites of the adapters and output layers, and those that the user names beside them."""
    own: dict[str, Dim | None] = {bottleneck_of(path): "features" for path in recipe.after}
    own |= {input_of(path): "features" for path in recipe.inputs}
    if at is None:
        return own
    if isinstance(at, Mapping):
        return own | dict(at)
    return own | dict.fromkeys([at] if isinstance(at, str) else at)


def _notes(placed: nn.Module, recipe: AdapterRecipe, blocks: Sequence[TransformerBlock]) -> Iterator[str]:
    kind = f" ({', '.join(dict.fromkeys(block.kind for block in blocks))})" if blocks else ""
    count = sum(p.numel() for path in recipe.after for p in placed.get_submodule(f"{path}.{NAME}").parameters())
    head = sum(p.numel() for path in recipe.head for p in placed.get_submodule(path).parameters() if p.requires_grad)
    learns = f"{count:,} parameters in {len(recipe.after)} adapters"
    if recipe.head:
        learns += f", {head:,} in {', '.join(recipe.head)}"
    if recipe.norms:
        learns += ", and the normalization layers"
    yield f"adapters of {recipe.size} units{kind}; {learns} learn, everything else is frozen"
    open_biases = _biases(placed, output_layers(placed, recipe.head).open)
    head_bias = any(placed.get_parameter(name).requires_grad for name in open_biases)
    leaking = {"head_bias": head_bias, "bias": recipe.bias, "norms": recipe.norms}
    cures = ", ".join(f"{name}=False" for name, leaks in leaking.items() if leaks)
    if cures:
        yield f"nothing would leak with adapters=Adapters(size={recipe.size}, {cures})"
