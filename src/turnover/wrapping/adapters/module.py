"""The adapter as a module, and putting adapters into a model.

An adapter is a child of the module whose output it changes, and a hook runs it: so all parameters of the model keep
their names, and the code of the model stays as it is. Masks on the input of an output layer act on a child of that
layer in the same way.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from turnover.layers import AdapterRecipe, SiteRecipe, remove_hooks
from turnover.wrapping._modules import is_norm, width_of

NAME = "adapter"
INPUT = "masked_input"
ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU}
_NEAR_ZERO = 1e-3


class Adapter(nn.Module):
    """A bottleneck beside the identity: `x + up(activation(down(x)))`.

    Near the identity at the start: the up-projection begins with small weights. They are not zero, so that the audit of
    a fresh model sees gradients everywhere.
    """

    def __init__(
        self,
        width: int,
        size: int,
        *,
        activation: str = "gelu",
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draw the weights."""
        super().__init__()
        self.down = nn.Linear(width, size, device=device, dtype=dtype)
        self.activation = ACTIVATIONS[activation]()
        self.up = nn.Linear(size, width, bias=bias, device=device, dtype=dtype)
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
        width = output_width(module)
        assert width is not None  # the plan saw to it
        adapter = Adapter(
            width,
            recipe.size,
            activation=recipe.activation,
            bias=recipe.bias,
            device=device or weight.device,
            dtype=weight.dtype,
        )
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


def output_width(module: nn.Module) -> int | None:
    """Return the width of a module's output where its type or an attribute tells."""
    width = width_of(module)
    if width is None:
        width = next((getattr(module, name, None) for name in ("out_features", "nf") if hasattr(module, name)), None)
    return width if isinstance(width, int) else None


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
