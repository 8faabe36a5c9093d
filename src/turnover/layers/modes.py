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

from turnover.errors import BatchSizeError, SiteOutputError

from .batch_dim import probed_shapes
from .dropout import apply_mask
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
        training = _trains(module, self.site)
        x = _rows_of_all(_tensor(output, self.site), training=training)
        if not (training and _learns()):
            return _masked(x, self.site, training=training)
        value = x.detach()
        # The mask acts on a zero: the value stays, to the last bit, and the gradient passes through the mask.
        return value + _masked(x - value, self.site, training=True)


class BackwardInputMask:
    """Forward hook of the last layer in mode "backward": only the columns of kept inputs learn."""

    def __init__(self, site: Site, module: nn.Module) -> None:
        """Mask the input at this site."""
        self.site = site
        self._twin = (_without_weights(module),)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Return the output; what its weights learn comes from the kept inputs alone."""
        (x,) = args
        training = _trains(module, self.site)
        masked = _masked(x, self.site, training=training)
        weights: dict[str, Tensor] = dict(module.named_parameters())
        if not (training and _learns()):
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
        if active_instances() is None and not module.training and probed_shapes() is None:
            return output
        return self._mixed(module, args, kwargs, output)

    def _mixed(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor:
        """Return f0(x) + mask * (f(x) - f0(x))."""
        start = _tensor(_with_start(self._twin[0], module, args, kwargs), self.site)
        training = _trains(module, self.site)
        difference = _rows_of_all(_tensor(output, self.site) - start, training=training)
        return start + _masked(difference, self.site, training=training)


class MixoutInput(Mixout):
    """The same for the last layer: the difference of the weights sees the masked input."""

    def _mixed(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor:
        """Return f0(x) + f(mask * x) - f0(mask * x)."""
        (x,) = args
        masked = _masked(x, self.site, training=_trains(module, self.site))
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


def _with_start(twin: nn.Module, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a module makes with its start weights, in its own mode.

    Statistics of BatchNorm are no weights: those of the batch, or those gathered so far, are the same for both. The
    module itself gathers them; here they are copies, which are written to in vain.
    """
    if twin.training != module.training:
        twin.train(module.training)
    gathered = {name: module.get_buffer(name).clone() for name, _ in twin.named_buffers()}
    return functional_call(twin, {**gathered, **start_of(module)}, args, kwargs)


def _masked(x: Tensor, site: Site, *, training: bool) -> Tensor:
    """Return `x` under the masks of the active instances, or say what to do where it has no row for each of them."""
    try:
        return apply_mask(x, site, training=training)
    except BatchSizeError as error:
        raise BatchSizeError(
            f"{error} A module that makes one thing for the whole batch, as an embedding of relative positions does, "
            f"has no rows to mask: freeze it before turnover.wrap, model.get_submodule({site}).requires_grad_(False)."
        ) from error


def _trains(module: nn.Module, site: Site) -> bool:
    """Tell whether the model of a site is in training mode."""
    now = active_instances()
    return module.training if now is None else now.trains(site.masking, module)


def _learns() -> bool:
    """Tell whether rows are learned: gradients are on, and the rows are in keep view."""
    now = active_instances()
    return torch.is_grad_enabled() and now is not None and now.shared_view == KEEP


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
