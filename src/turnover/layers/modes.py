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

from turnover.errors import BatchSizeError, InstancesError

from .dropout import apply_mask, probed_shapes
from .instances import KEEP, active_instances
from .masking import Site

_START = "_turnover_start_"
_FEWEST_DIMS = 3  # rows, positions, units: in two dimensions a single row is a batch of one


class ModeHook:
    """Forward hook, with keywords, of a site in the mode "backward" or "mixout".

    Both are f0(x) + mask * (f(x) - f0(x)), or f0(x) + f(mask * x) - f0(mask * x) at the input of the last layer. In
    mode "mixout" f0 has the start weights. In mode "backward" f0 is f without gradient, so the value stays as it is, to
    the last bit, and the gradient passes through the mask; where nothing learns, f0 is 0, and the mask acts as in any
    model.
    """

    def __init__(self, site: Site, module: nn.Module, mode: str) -> None:
        self.site = site
        self._mixout = mode == "mixout"
        self._at_input = site.recipe.place == "input"
        # A copy without weights and hooks; in a tuple, so that its parameters are none of the model's.
        self._twin: tuple[nn.Module, ...] = ()
        if self._mixout or self._at_input:
            self._twin = (copy.deepcopy(module).to("meta"),)
            for part in self._twin[0].modules():
                part._forward_hooks.clear()
                part._forward_pre_hooks.clear()
        if self._mixout:  # buffers move with the module; these are not saved
            for name, parameter in module.named_parameters():
                buffer = _START + name.replace(".", "_")
                if buffer not in module._buffers:
                    module.register_buffer(buffer, parameter.detach().clone(), persistent=False)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Return the output under the masks of the active instances."""
        active = active_instances()
        if self._mixout and active is None and not module.training and probed_shapes() is None:
            return output
        training = module.training if active is None else active.trains(self.site.masking, module)
        learns = training and torch.is_grad_enabled() and active is not None and active.shared_view == KEEP
        if self._at_input:
            return self._masked_input(module, args[0], training, learns)
        y = _tensor(output, self.site)
        if self._mixout:
            start = _tensor(_with_start(self._twin[0], module, args, kwargs), self.site)
        elif learns:
            start = y.detach()
        else:
            return _masked(_rows_of_all(y, training=training), self.site, training=training)
        return start + _masked(_rows_of_all(y - start, training=training), self.site, training=training)

    def _masked_input(self, module: nn.Module, x: Tensor, training: bool, learns: bool) -> Tensor:
        twin, weights = self._twin[0], dict[str, Tensor](module.named_parameters())
        masked = _masked(x, self.site, training=training)
        y = functional_call(twin, weights, (masked,))
        if self._mixout:
            start = _start_of(module)
        elif learns:
            start = {name: value.detach() for name, value in weights.items()}
        else:
            return y
        return functional_call(twin, start, (x,)) + (y - functional_call(twin, start, (masked,)))


def _start_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: module.get_buffer(_START + name.replace(".", "_")) for name, _ in module.named_parameters()}


def start_state(root: nn.Module) -> dict[str, Tensor]:
    """Return the start weights of all modules of a model, by their paths."""
    return {name: buffer for name, buffer in root.named_buffers() if _START in name}


def drop_start(module: nn.Module) -> None:
    """Take the start weights out of a module."""
    for name in [name for name in module._buffers if name.startswith(_START)]:
        del module._buffers[name]


def _with_start(twin: nn.Module, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a module makes with its start weights, in its own mode.

    Statistics of BatchNorm are not weights: those of the batch, or those gathered so far, are the same for both. The
    module itself gathers them; here they are copies, which are written to in vain.
    """
    if twin.training != module.training:
        twin.train(module.training)
    gathered = {name: module.get_buffer(name).clone() for name, _ in twin.named_buffers()}
    return functional_call(twin, {**gathered, **_start_of(module)}, args, kwargs)


def _masked(x: Tensor, site: Site, *, training: bool) -> Tensor:
    """Return `x` under the masks of the active instances, or say what to do where it has no row for each of them."""
    try:
        return apply_mask(x, site, training=training)
    except BatchSizeError as error:
        raise BatchSizeError(
            f"{error} A module that makes one thing for the whole batch, as an embedding of relative positions does, "
            f"has no rows to mask: freeze it before turnover.wrap, model.get_submodule({site}).requires_grad_(False)."
        ) from error


def _rows_of_all(x: Tensor, *, training: bool) -> Tensor:
    """Return what a module makes for the whole batch once, as the embedding of positions does, for every row of it."""
    active = active_instances()
    if not training or active is None or x.dim() < _FEWEST_DIMS or x.shape[0] != 1 or len(active) == 1:
        return x
    return x.expand(len(active), *x.shape[1:])


def _tensor(output: Any, site: Site) -> Tensor:
    if not isinstance(output, Tensor):
        raise InstancesError(
            f"site {site} returned a {type(output).__name__}; the modes 'backward' and 'mixout' need modules that "
            "return a tensor. Choose the layers inside."
        )
    return output
