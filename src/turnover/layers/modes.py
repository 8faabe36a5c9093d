"""Masks for whole networks: on the backward pass only, or on the difference from the weights at the start.

Masking every layer of a pretrained network plainly destroys what it knows. Two remedies of the paper's footnote keep
the forward pass of training whole, or nearly so:

- backward: training runs the full network; the mask acts on the gradient. Only the kept rows of a layer learn.
- mixout: a layer with the start weights plus the masked difference, f0(x) + mask * (f(x) - f0(x)). A dropped unit is
  not zero but as it was at the start.

In both every module that learns must be a site, because a layer's own mask is what keeps an instance out of its dropped
rows. The last layer has too few rows to drop any; there the mask acts on its input, so that only the columns of kept
inputs learn.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from turnover.errors import SiteOutputError

from .apply import apply_mask
from .instances import active_instances
from .masking import Site
from .views import KEEP

_START = "_turnover_start_"
_FEWEST_DIMS = 3  # rows, positions, units: in two dimensions a single row is a batch of one


class BackwardMask:
    """Forward hook of mode "backward": in training the mask acts on the gradient of the output."""

    def __init__(self, site: Site) -> None:
        """Mask at this site."""
        self.site = site

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Return the output as it is in training, and masked where networks are asked."""
        x = _rows_of_all(_tensor(output, self.site), training=module.training)
        if not _learns(module):
            return apply_mask(x, self.site, training=module.training)
        value = x.detach()
        # The mask acts on a zero: the value stays, to the last bit, and the gradient passes through the mask.
        return value + apply_mask(x - value, self.site, training=True)


class BackwardInputMask:
    """Forward hook of the last layer in mode "backward": only the columns of kept inputs learn."""

    def __init__(self, site: Site, module: nn.Module) -> None:
        """Mask the input at this site."""
        self.site = site
        self._twin = (_without_weights(module),)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Return the output; what its weights learn comes from the kept inputs alone."""
        (x,) = args
        masked = apply_mask(x, self.site, training=module.training)
        weights: dict[str, Tensor] = dict(module.named_parameters())
        if not _learns(module):
            return functional_call(self._twin[0], weights, (masked,))
        fixed = {name: value.detach() for name, value in weights.items()}
        alike = functional_call(self._twin[0], fixed, (masked,))
        return functional_call(self._twin[0], weights, (masked,)) + (
            functional_call(self._twin[0], fixed, (x,)) - alike
        )


class Mixout:
    """Forward hook of mode "mixout": what the start weights give, plus the masked difference."""

    def __init__(self, site: Site, module: nn.Module) -> None:
        """Keep the weights that the module has now, beside those that will learn."""
        self.site = site
        self._twin = (_without_weights(module),)
        keep_start(module)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Return the output under the masks of the active instances; without any, the output itself."""
        if active_instances() is None and not module.training:
            return output
        return self._mixed(module, args, kwargs, output)

    def _mixed(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor:
        """Return f0(x) + mask * (f(x) - f0(x))."""
        start = _tensor(functional_call(self._twin[0], start_of(module), args, kwargs), self.site)
        difference = _rows_of_all(_tensor(output, self.site) - start, training=module.training)
        return start + apply_mask(difference, self.site, training=module.training)


class MixoutInput(Mixout):
    """The same for the last layer: the difference of the weights sees the masked input."""

    def _mixed(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor:
        """Return f0(x) + f(mask * x) - f0(mask * x)."""
        (x,) = args
        masked = apply_mask(x, self.site, training=module.training)
        start = start_of(module)
        weights: dict[str, Tensor] = dict(module.named_parameters())
        twin = self._twin[0]
        difference = functional_call(twin, weights, (masked,)) - functional_call(twin, start, (masked,))
        return functional_call(twin, start, (x,)) + difference


def keep_start(module: nn.Module) -> None:
    """Keep a copy of a module's weights as buffers that move with it and are not saved."""
    for name, parameter in module.named_parameters():
        buffer = _START + name.replace(".", "_")
        if buffer not in module._buffers:
            module.register_buffer(buffer, parameter.detach().clone(), persistent=False)


def start_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the weights that a module had when it was wrapped."""
    return {name: module.get_buffer(_START + name.replace(".", "_")) for name, _ in module.named_parameters()}


def start_state(root: nn.Module) -> dict[str, Tensor]:
    """Return the start weights of all modules of a model, by their paths."""
    return {name: buffer for name, buffer in root.named_buffers() if _START in name}


def drop_start(module: nn.Module) -> None:
    """Undo `keep_start`."""
    for name in [name for name in module._buffers if name.startswith(_START)]:
        del module._buffers[name]


def _without_weights(module: nn.Module) -> nn.Module:
    """Return a copy without weights and hooks, to be called with weights of the caller's."""
    twin = copy.deepcopy(module).to("meta")
    for one in twin.modules():
        one._forward_hooks.clear()
        one._forward_pre_hooks.clear()
    return twin


MODE_HOOKS = (BackwardMask, BackwardInputMask, Mixout, MixoutInput)


def put_mode(module: nn.Module, site: Site, mode: str) -> None:
    """Put the masks of a site into a module, as the mode asks."""
    at_input = site.recipe.place == "input"
    if mode == "backward":
        module.register_forward_hook(BackwardInputMask(site, module) if at_input else BackwardMask(site))
    else:
        module.register_forward_hook(MixoutInput(site, module) if at_input else Mixout(site, module), with_kwargs=True)


def _learns(module: nn.Module) -> bool:
    """Tell whether this pass trains: gradients are on, the module trains, and its rows are in keep view."""
    now = active_instances()
    return module.training and torch.is_grad_enabled() and now is not None and now.one_view == KEEP


def _rows_of_all(x: Tensor, *, training: bool) -> Tensor:
    """Return what a module makes for the whole batch once, as the embedding of positions does, for every row of it."""
    now = active_instances()
    if not training or now is None or x.dim() < _FEWEST_DIMS or x.shape[0] != 1 or len(now) == 1:
        return x
    return x.expand(len(now), *x.shape[1:])


def _tensor(output: Any, site: Site) -> Tensor:
    if not isinstance(output, Tensor):
        raise SiteOutputError(
            f"site {site} returned a {type(output).__name__}; the modes 'backward' and 'mixout' need modules that "
            "return a tensor. Choose the layers inside."
        )
    return output
