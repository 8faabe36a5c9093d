"""Planning adapters: from what a user asks for to where they go, with everything that stands against it."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from turnover.layers import AdapterRecipe, Dim
from turnover.wrapping.audit.leaks import EMBEDDINGS, Leak
from turnover.wrapping.plan.sites import At
from turnover.wrapping.plan.zero_flow import ZeroFlow

from .adapters import Adapters
from .checks import BY_HAND, bad_head, bad_model, bad_options, bad_place, linears, near, some
from .find import Block, find_blocks, find_head, output_layers
from .module import NAME, bottleneck_of, input_of, is_norm, put_adapters


@dataclass(frozen=True)
class AdapterPlan:
    """The model as it would be with adapters, and the sites to ask for.

    Attributes:
        model: a copy with adapters in place, for planning only; the model itself where none were asked for.
        at: the sites, those of the user included.
        recipe: where the adapters go; None where none were asked for or they cannot be put in.
        problems: why not, and what to do.
        notes: what is worth knowing.
        zero: whether zero stays zero at the inputs of output layers, where tracing cannot tell.
    """

    model: nn.Module
    at: Any
    recipe: AdapterRecipe | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    zero: Mapping[str, ZeroFlow] = field(default_factory=dict)


def plan_adapters(model: nn.Module, adapters: int | Adapters | None, at: At) -> AdapterPlan:
    """Return what `adapters` asks for; all problems are collected, none is raised."""
    if adapters is None:
        return AdapterPlan(model, at)
    asked = Adapters.asked(adapters)
    problems = [*bad_options(asked), *bad_model(model)]
    blocks = [] if asked.after is not None else find_blocks(model)
    after = _after(model, asked, blocks, problems)
    head = _head(model, asked, after, problems) if after else []
    if problems:
        return AdapterPlan(model, at, None, tuple(problems))
    layers = output_layers(model, head)
    problems += bad_head(model, head, layers.masked)
    if problems:
        return AdapterPlan(model, at, None, tuple(problems))
    recipe = AdapterRecipe(
        after=tuple(after),
        size=asked.size,
        activation=asked.activation,
        bias=asked.bias,
        inputs=layers.masked,
        head=tuple(head),
        frozen=() if asked.head_bias else tuple(_biases(model, layers.open)),
        norms=asked.norms,
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
            full = f"{path}.{name}" if path else name
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


def _after(model: nn.Module, asked: Adapters, blocks: Sequence[Block], problems: list[str]) -> list[str]:
    """Return the modules to put adapters after."""
    if asked.after is None:
        if not blocks:
            problems.append(
                f"no transformer blocks were recognized in this {type(model).__name__}. {BY_HAND}, for example of "
                f"{some(linears(model))}."
            )
            return []
        chosen = _chosen_blocks(asked.layers, blocks, problems)
        after = [end for block in chosen for end in block.ends]
    else:
        modules = dict(model.named_modules())
        given = [asked.after] if isinstance(asked.after, str) else list(asked.after)
        if not given:
            problems.append(f"Adapters(after=[]) names no module. {BY_HAND}.")
        unknown = [path for path in given if path not in modules or not path]
        problems += [
            f"Adapters(after=...): {path!r} is no module of this model. {near(model, path)}" for path in unknown
        ]
        after = [path for path in modules if path in given and path not in unknown]
    problems += [problem for path in after for problem in bad_place(model, path)]
    return after


def _chosen_blocks(layers: Any, blocks: Sequence[Block], problems: list[str]) -> list[Block]:
    if layers is None:
        return list(blocks)
    count = len(blocks)
    if isinstance(layers, int) and not isinstance(layers, bool):
        if 1 <= layers <= count:
            return list(blocks[-layers:])
        numbers: list[Any] = []
    else:
        numbers = list(layers) if isinstance(layers, Sequence | range) and not isinstance(layers, str) else []
    whole = [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
    if not numbers or len(whole) < len(numbers) or not all(-count <= number < count for number in whole):
        problems.append(
            f"Adapters(layers={layers!r}): the model has {count} blocks. Give how many of the top ones (1 to {count}), "
            f"or a list of numbers from 0 to {count - 1}."
        )
        return list(blocks)
    return [blocks[number] for number in sorted({number % count for number in whole})]


def _head(model: nn.Module, asked: Adapters, after: Sequence[str], problems: list[str]) -> list[str]:
    """Return the paths of the modules that learn beside the adapters."""
    if asked.head is None:
        found = find_head(model, after)
        if not found:
            problems.append(
                f"no output layer was found behind {after[-1]!r}. Name it: Adapters(head='path'), for example of "
                f"{some(linears(model)[::-1])}; for adapters alone: Adapters(head=())."
            )
        return found
    given = [asked.head] if isinstance(asked.head, str) else list(asked.head)
    modules = dict(model.named_modules())
    for path in given:
        if path not in modules or not path:
            problems.append(f"Adapters(head=...): {path!r} is no module of this model. {near(model, path)}")
        elif not any(isinstance(part, nn.Linear) for part in modules[path].modules()):
            problems.append(
                f"Adapters(head=...): {path!r} ({type(modules[path]).__name__}) holds no nn.Linear whose input could "
                f"be masked. Linear layers: {some(linears(model)[::-1])}."
            )
        elif any(place == path or place.startswith(f"{path}.") for place in after):
            problems.append(
                f"Adapters(head=...): {path!r} holds modules that get adapters; all of it would learn. Name the output "
                f"layer alone: {some(linears(model)[::-1])}."
            )
    return [path for path in modules if path in given]


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


def _notes(placed: nn.Module, recipe: AdapterRecipe, blocks: Sequence[Block]) -> Iterator[str]:
    kind = f" ({', '.join(dict.fromkeys(block.kind for block in blocks))})" if blocks else ""
    count = sum(p.numel() for path in recipe.after for p in placed.get_submodule(f"{path}.{NAME}").parameters())
    head = sum(p.numel() for path in recipe.head for p in placed.get_submodule(path).parameters() if p.requires_grad)
    learns = f"{count:,} parameters in {len(recipe.after)} adapters"
    if recipe.head:
        learns += f", {head:,} in {', '.join(recipe.head)}"
    if recipe.norms:
        learns += ", and the normalization layers"
    yield f"adapters of {recipe.size} units{kind}; {learns} learn, everything else is frozen"
    if recipe.bias or recipe.norms or _open_biases(placed, recipe):
        settings = [
            text
            for given, text in (
                (_open_biases(placed, recipe), "head_bias=False"),
                (recipe.bias, "bias=False"),
                (recipe.norms, "norms=False"),
            )
            if given
        ]
        yield f"nothing would leak with adapters=Adapters(size={recipe.size}, {', '.join(settings)})"


def _open_biases(placed: nn.Module, recipe: AdapterRecipe) -> bool:
    names = _biases(placed, output_layers(placed, recipe.head).open)
    return any(placed.get_parameter(name).requires_grad for name in names)
