"""Bottleneck adapters in a frozen transformer: finding blocks and output layers, planning, and putting adapters in.

An adapter is a child of the module whose output it changes, and a hook runs it: so all parameters of the model keep
their names, and the code of the model stays as it is. Masks on the input of an output layer act on a child of that
layer in the same way.

Blocks are recognized by the names of the two modules that end their halves, not by their classes: most libraries keep
to a few such names. The output layers are what the model registers behind its blocks. Every problem is a text that says
what was given and what to do instead; all are collected, none is raised.
"""

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from turnover.layers import AdapterRecipe, Dim, SiteRecipe, remove_hooks

from ._code import is_called, is_norm, is_within, join, listed, quantized_in, width_of, zero_verdict
from ._sites import At

NAME = "adapter"
INPUT = "masked_input"
ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU}
_NEAR_ZERO = 1e-3
_FEWEST_UNITS = 2
_BY_HAND = "Name the modules to put adapters after by hand: Adapters(after=['path', ...])"


class Adapter(nn.Module):
    """A bottleneck beside the identity: `x + up(activation(down(x)))`.

    Near the identity at the start: the up-projection begins with small weights. They are not zero, so that the audit of
    a fresh model sees gradients everywhere.
    """

    def __init__(self, width: int, recipe: AdapterRecipe, device: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.down = nn.Linear(width, recipe.size, device=device, dtype=dtype)
        self.activation = ACTIVATIONS[recipe.activation]()
        self.up = nn.Linear(recipe.size, width, bias=recipe.bias, device=device, dtype=dtype)
        self._draw()

    def drawn_anew(self) -> "Adapter":
        """Return an adapter like this one with weights of its own."""
        twin = copy.deepcopy(self)
        twin.down.reset_parameters()
        twin._draw()
        return twin

    def _draw(self) -> None:
        nn.init.zeros_(self.down.bias)
        nn.init.normal_(self.up.weight, std=_NEAR_ZERO)
        if self.up.bias is not None:
            nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with what the bottleneck adds."""
        return x + self.up(self.activation(self.down(x)))


def bottleneck_of(path: str) -> str:
    """Return the path of the site in the adapter behind a module."""
    return f"{path}.{NAME}.activation"


def input_of(path: str) -> str:
    """Return the path of the site at the input of an output layer."""
    return f"{path}.{INPUT}"


def put_adapters(root: nn.Module, recipe: AdapterRecipe, *, device: torch.device | str | None = None) -> None:
    """Put adapters into a model, which is changed, and freeze what does not learn.

    New weights are made on `device`; None: on that of the module they follow.
    """
    root.requires_grad_(False)
    for path in recipe.after:
        module = root.get_submodule(path)
        weight = next(module.parameters())
        width = _output_width(module)
        assert width is not None  # the plan saw to it
        adapter = Adapter(width, recipe, device or weight.device, weight.dtype)
        module.add_module(NAME, adapter.train(module.training))
        module.register_forward_hook(_through_adapter)
    for path in recipe.inputs:
        mask_input(root.get_submodule(path))
    for path in recipe.head:
        root.get_submodule(path).requires_grad_(True)
    for module in root.modules():
        if is_norm(module):
            module.requires_grad_(recipe.norms)
        # Nested tensors would reach the adapters, which take plain ones.
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
    for name in recipe.frozen:
        root.get_parameter(name).requires_grad_(False)


def mask_input(module: nn.Module) -> None:
    """Give an output layer a place at its input where a mask can act."""
    module.add_module(INPUT, nn.Identity().train(module.training))
    module.register_forward_pre_hook(_through_masked_input, with_kwargs=True)


def take_input(module: nn.Module) -> bool:
    """Undo `mask_input`; return whether there was something to undo."""
    if INPUT not in module._modules:
        return False
    del module._modules[INPUT]
    remove_hooks(module._forward_pre_hooks, lambda hook: hook is _through_masked_input)
    return True


def _output_width(module: nn.Module) -> int | None:
    """Return the width of a module's output where its type or an attribute tells."""
    widths = (width_of(module), getattr(module, "out_features", None), getattr(module, "nf", None))
    return next((width for width in widths if isinstance(width, int)), None)


def site_width(root: nn.Module, site: SiteRecipe) -> int | None:
    """Return the number of units at a site, those in adapters and at inputs of output layers included."""
    module = root.get_submodule(site.path)
    if site.place == "input" and isinstance(module, nn.Linear):
        return module.in_features
    parent, _, name = site.path.rpartition(".")
    owner = root.get_submodule(parent)
    if isinstance(owner, Adapter) and name == "activation":
        return owner.down.out_features
    if isinstance(owner, nn.Linear) and name == INPUT:
        return owner.in_features
    return width_of(module)


def adapters_in(model: nn.Module) -> list[str]:
    """Return the paths of all adapters of a model."""
    return [path for path, module in model.named_modules() if isinstance(module, Adapter)]


def _through_adapter(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    adapter = module.get_submodule(NAME)
    if isinstance(output, tuple):  # attention: what it saw, and its weights
        return adapter(output[0]), *output[1:]
    return adapter(output)


def _through_masked_input(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x, *rest = args or (kwargs["input"],)  # the name that nn.Linear gives it
    return (module.get_submodule(INPUT)(x), *rest), {name: value for name, value in kwargs.items() if name != "input"}


# The module whose output ends the attention, and the one whose output ends the feed-forward part, of one block.
_ENDS = (
    ("attention.output.dense", "output.dense"),  # BERT, RoBERTa, ELECTRA and older ViT of Hugging Face
    ("attention.o_proj", "mlp.fc2"),  # ViT
    ("attention.out_lin", "ffn.lin2"),  # DistilBERT
    ("attention.attn.o", "output.dense"),  # MPNet
    ("self_attn", "linear2"),  # nn.TransformerEncoderLayer
    ("self_attn.out_proj", "mlp.fc2"),  # CLIP, SigLIP
    ("self_attn.out_proj", "fc2"),  # BART
    ("attention.dense", "ffn_output"),  # ALBERT, whose blocks share one set of weights
    ("attn.Wo", "mlp.Wo"),  # ModernBERT
    ("self_attn.o_proj", "mlp.down_proj"),  # LLaMA and its kin
    ("attn.proj", "mlp.fc2"),  # timm
    ("attn.c_proj", "mlp.c_proj"),  # GPT-2
)


def find_blocks(model: nn.Module) -> list[tuple[str, list[str]]]:
    """Return the transformer blocks of a model, in its order: class, and paths of the modules that end its halves."""
    modules = dict(model.named_modules())
    blocks: list[tuple[str, list[str]]] = []
    for path, module in modules.items():
        for ends in _ENDS:
            full = [join(path, end) for end in ends]
            # nn.TransformerEncoderLayer is the one whose attention is called as a whole.
            whole = ends[0] != "self_attn" or isinstance(modules.get(full[0]), nn.MultiheadAttention)
            if whole and all(end in modules for end in full):
                blocks.append((type(module).__name__, full))
                break
    return blocks


def _find_head(model: nn.Module, after: Sequence[str]) -> list[str]:
    """Return the modules with linear layers that stand behind all modules of `after`, on the outermost level.

    A Hugging Face model names its backbone; there the head is all that stands beside it.
    """
    backbone = getattr(model, "base_model_prefix", None)
    if isinstance(backbone, str) and backbone and all(path.startswith(f"{backbone}.") for path in after):
        beside = [name for name, child in model.named_children() if name != backbone and _has_linear(child)]
        if beside:
            return beside
    prefix = ""
    while True:
        container = model.get_submodule(prefix)
        names = [name for name, _ in container.named_children()]
        inside = [name for name in names if any(is_within(path, [join(prefix, name)]) for path in after)]
        if not inside:
            return []
        behind = names[names.index(inside[-1]) + 1 :]
        head = [join(prefix, name) for name in behind if _has_linear(container.get_submodule(name))]
        if head or len(inside) > 1:
            return head
        prefix = join(prefix, inside[0])


class OutputLayers(NamedTuple):
    """Paths of the linear layers of a head: whose inputs to mask, and whose outputs no mask covers."""

    masked: tuple[str, ...]
    open: tuple[str, ...]  # their outputs are not masked further on, so that their biases leak
    paths: tuple[str, ...]  # of all of them


def output_layers(model: nn.Module, head: Sequence[str]) -> OutputLayers:
    """Return the linear layers of a head.

    Layers that fit one behind the other are taken as a chain: the mask at the input of the next covers the output of
    each, and the input of the first needs none. Side by side, or where something between them does not keep zero (a
    LayerNorm), every input is masked.
    """
    parts = {join(top, path): part for top in head for path, part in model.get_submodule(top).named_modules()}
    linears = {path: part for path, part in parts.items() if isinstance(part, nn.Linear)}
    paths = tuple(linears)
    chain = all(layer.out_features == following.in_features for layer, following in pairwise(linears.values()))
    keeps = not any(is_norm(part) or zero_verdict(part) == "breaks" for part in parts.values())
    if len(paths) > 1 and chain and keeps:
        return OutputLayers(paths[1:], paths[-1:], paths)
    return OutputLayers(paths, paths, paths)


def _has_linear(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Linear) for part in module.modules())


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


def plan_adapters(model: nn.Module, adapters: int | Adapters | None, at: At) -> AdapterPlan:
    """Return what `adapters` asks for; all problems are collected, none is raised."""
    if adapters is None:
        return AdapterPlan(model, at)
    options = adapters if isinstance(adapters, Adapters) else Adapters(size=adapters)
    problems = list(_problems(model, options))
    blocks = [] if options.after is not None else find_blocks(model)
    after = _after(model, options, blocks, problems)
    head = _head(model, options, after, problems) if after else []
    layers = OutputLayers((), (), ())
    if not problems:
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
    # A copy of the modules on the same storage, whose parameters can be frozen without those of the model.
    memo: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    for parameter in model.parameters():
        if not is_lazy(parameter):
            memo[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    placed = copy.deepcopy(model, memo)
    put_adapters(placed, recipe, device="meta")
    sites: dict[str, Dim | None] = {bottleneck_of(path): "features" for path in recipe.after}
    sites |= {input_of(path): "features" for path in recipe.inputs}
    if at is not None:
        sites |= dict(at) if isinstance(at, Mapping) else dict.fromkeys([at] if isinstance(at, str) else at)
    return AdapterPlan(placed, sites, recipe, (), tuple(_notes(placed, recipe, [kind for kind, _ in blocks])))


def _problems(model: nn.Module, options: Adapters) -> Iterator[str]:
    """Yield what is wrong with the options, and what stands against adapters in this model wherever they would go."""
    if isinstance(options.size, bool) or not isinstance(options.size, int) or options.size < _FEWEST_UNITS:
        yield (
            f"`adapters` must be an integer >= {_FEWEST_UNITS}, the number of bottleneck units, got {options.size!r}. "
            "Give adapters=64; of one unit a mask keeps all or nothing."
        )
    if options.activation not in ACTIVATIONS:
        yield f"activation={options.activation!r} is unknown to adapters. Give 'gelu' or 'relu'."
    if options.after is not None and options.layers is not None:
        yield "Adapters(after=..., layers=...): `after` names the modules, `layers` the blocks. Give one of them."
    if present := adapters_in(model):
        yield (
            f"the model has adapters already ({listed(present)}). Start from the base, or mask those that "
            f"are there: turnover.wrap(model, at=['**.{NAME}.activation', '**.{INPUT}'])."
        )
    if getattr(model, "peft_config", None) or any(hasattr(module, "lora_A") for module in model.modules()):
        yield (
            "the model has PEFT adapters already. Mask those: turnover.wrap(model, "
            "at=turnover.integrations.lora_sites(model)), or start from the base."
        )
    if packed := quantized_in(model):
        yield (
            f"{listed(packed)}: quantized already, so no gradient flows through to the adapters below. "
            "Load the weights in float32 or bfloat16, wrap the model, and quantize nothing."
        )


def _after(
    model: nn.Module, options: Adapters, blocks: Sequence[tuple[str, list[str]]], problems: list[str]
) -> list[str]:
    """Return the modules to put adapters after."""
    if options.after is not None:
        after = _named(model, options.after, "after", problems)
        if not after and not problems:
            problems.append(f"Adapters(after=[]) names no module. {_BY_HAND}.")
    elif blocks:
        after = [end for number in _block_numbers(options.layers, len(blocks), problems) for end in blocks[number][1]]
    else:
        problems.append(
            f"no transformer blocks were recognized in this {type(model).__name__}. {_BY_HAND}, for example of "
            f"{listed(_linears(model))}."
        )
        return []
    for path in after:
        module = model.get_submodule(path)
        if not is_called(model, path):
            parent = path.rpartition(".")[0]
            problems.append(
                f"{path!r} is never called as a module: {parent!r} only reads its weights. Use "
                f"Adapters(after=[{parent!r}, ...])."
            )
        elif _output_width(module) is None or next(module.parameters(), None) is None:
            problems.append(
                f"Adapters(after=...): how wide the output of {path!r} ({type(module).__name__}) is cannot be told. "
                f"Name an nn.Linear: {listed(_linears(model))}."
            )
        if hasattr(module, NAME) and not isinstance(getattr(module, NAME), Adapter):
            problems.append(f"{path!r} has an attribute {NAME!r} of its own. {_BY_HAND} that have none.")
    return after


def _named(model: nn.Module, paths: str | Sequence[str], option: str, problems: list[str]) -> list[str]:
    """Return the modules that an option names, in the order of the model."""
    given = [paths] if isinstance(paths, str) else list(paths)
    modules = [path for path, _ in model.named_modules() if path]
    for path in given:
        if path not in modules:
            close = difflib.get_close_matches(str(path), modules, n=3)
            hint = f"Near misses: {listed(close)}." if close else f"Linear layers: {listed(_linears(model))}."
            problems.append(f"Adapters({option}=...) must name modules of this model, got {path!r}. {hint}")
    return [path for path in modules if path in given]


def _block_numbers(layers: Any, count: int, problems: list[str]) -> Sequence[int]:
    if layers is None or (type(layers) is int and 1 <= layers <= count):
        return range(0 if layers is None else count - layers, count)
    numbers = layers if isinstance(layers, Sequence) and not isinstance(layers, str) else ()
    if not numbers or not all(type(number) is int and -count <= number < count for number in numbers):
        problems.append(
            f"Adapters(layers={layers!r}): the model has {count} blocks. Give how many of the top ones (1 to {count}), "
            f"or a list of numbers from 0 to {count - 1}."
        )
        return range(count)
    return sorted({number % count for number in numbers})


def _head(model: nn.Module, options: Adapters, after: Sequence[str], problems: list[str]) -> list[str]:
    """Return the paths of the modules that learn beside the adapters."""
    linears = listed(_linears(model)[::-1])
    if options.head is None:
        head = _find_head(model, after)
        if not head:
            problems.append(
                f"no output layer was found behind {after[-1]!r}. Name it: Adapters(head='path'), for example of "
                f"{linears}; for adapters alone: Adapters(head=())."
            )
        return head
    head = _named(model, options.head, "head", problems)
    for path in head:
        if not _has_linear(model.get_submodule(path)):
            problems.append(
                f"Adapters(head=...): {path!r} ({type(model.get_submodule(path)).__name__}) holds no nn.Linear whose "
                f"input could be masked. Linear layers: {linears}."
            )
        elif any(is_within(place, [path]) for place in after):
            problems.append(
                f"Adapters(head=...): {path!r} holds modules that get adapters; all of it would learn. Name the output "
                f"layer alone: {linears}."
            )
    return head


def _bad_head(model: nn.Module, head: Sequence[str], masked: Sequence[str]) -> Iterator[str]:
    """Yield what stands against these output layers: weights that the frozen model has too, masks that are there."""
    named = list(model.named_parameters(remove_duplicate=False))
    inside = {parameter: name for name, parameter in named if is_within(name, head)}
    for name, parameter in named:
        if parameter in inside and not is_within(name, head):
            yield (
                f"{inside[parameter]!r} is tied to {name!r}: to train the output layer would train the frozen model, "
                "which no mask covers. Untie them first (Hugging Face: config.tie_word_embeddings = False), or train "
                "adapters alone: Adapters(head=())."
            )
    if masked_already := [path for path in masked if hasattr(model.get_submodule(path), INPUT)]:
        yield f"{listed(masked_already)} has its input masked already. Start from the base."


def _linears(model: nn.Module) -> list[str]:
    return [path for path, module in model.named_modules() if isinstance(module, nn.Linear) and is_called(model, path)]


def _biases(model: nn.Module, paths: Sequence[str]) -> list[str]:
    return [f"{path}.bias" for path in paths if model.get_submodule(path)._parameters.get("bias") is not None]


def _notes(placed: nn.Module, recipe: AdapterRecipe, kinds: Sequence[str]) -> Iterator[str]:
    count = sum(p.numel() for path in recipe.after for p in placed.get_submodule(f"{path}.{NAME}").parameters())
    head = sum(p.numel() for path in recipe.head for p in placed.get_submodule(path).parameters() if p.requires_grad)
    learns = f"{count:,} parameters in {len(recipe.after)} adapters"
    learns += f", {head:,} in {', '.join(recipe.head)}" if recipe.head else ""
    learns += ", and the normalization layers" if recipe.norms else ""
    kind = f" ({', '.join(dict.fromkeys(kinds))})" if kinds else ""
    yield f"adapters of {recipe.size} units{kind}; {learns} learn, everything else is frozen"
    biases = _biases(placed, output_layers(placed, recipe.head).open)
    head_bias = any(placed.get_parameter(name).requires_grad for name in biases)
    leaking = {"head_bias": head_bias, "bias": recipe.bias, "norms": recipe.norms}
    cures = ", ".join(f"{name}=False" for name, leaks in leaking.items() if leaks)
    if cures:
        yield f"nothing would leak with adapters=Adapters(size={recipe.size}, {cures})"
