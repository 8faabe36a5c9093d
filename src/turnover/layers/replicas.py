"""Modules with one set of weights per replica, and what a model's root does for them.

The input of a `Replicated` module has the rows of all replicas, one replica after the other. Linear layers become one
batched matrix product, convolutions one grouped convolution; any other module runs under torch.func.vmap. Parameters
keep their names and get the replicas as first dimension. The root hands out [replicas * batch, ...], or the mean of the
replicas where the full network answers.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from turnover.errors import InstancesError

from .instances import ACTIVE, FULL, remove_hooks
from .masking import Expansion, begin_model, end_model, expanded, note_trunk_rows, scaled_gradient
from .processes import is_managed
from .tensors import map_tensors, tensors_in

_ATTRIBUTE = "_turnover_replicas"
TARGET_NAMES = ("labels", "label")
"""Keys of a dict batch that hold the target, the first that is there."""
_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}
_PLACE = torch.empty(0)


class Replicated(nn.Module):
    """Copies of one module, alike but for their weights, one for each replica, as one module.

    `shared` are stacked parameters that exist already, by the parameter of the first copy (tied weights).
    """

    def __init__(
        self, copies: Sequence[nn.Module], expansion: Expansion, shared: dict[nn.Parameter, nn.Parameter] | None = None
    ) -> None:
        super().__init__()
        first = copies[0]
        self.expansion = expansion
        self.training = first.training
        known = {} if shared is None else shared
        for name, parameter in first.named_parameters(remove_duplicate=False):
            if parameter not in known:
                values = torch.stack([module.get_parameter(name).detach() for module in copies])
                known[parameter] = nn.Parameter(values, requires_grad=parameter.requires_grad)
            _place(self, name, known[parameter])
        for name, _ in first.named_buffers():
            _place(self, name, torch.stack([module.get_buffer(name) for module in copies]))
        # In a tuple, so that its parameters are none of the model's.
        self._template = (copy.deepcopy(first).to("meta"),)
        self._fast = _fast_way(first)

    @property
    def template(self) -> nn.Module:
        """Return the module that is replicated, without weights, in the mode of this one."""
        (template,) = self._template
        if template.training != self.training:
            template.train(self.training)
        return template

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            template = self.__dict__.get("_template")
            if template is None or name.startswith("__"):
                raise
            value = getattr(template[0], name)
            if isinstance(value, Tensor):  # without content; FSDP1 takes parameters out and puts them back
                raise
            return value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs of all replicas, one replica after the other."""
        rows = next(tensors_in((args, kwargs)), None)
        if rows is None or rows.dim() == 0:
            raise InstancesError(
                f"{self.expansion.path!r} got no tensor with rows. Split the model behind it: split=..."
            )
        known = self.expansion.expands is not None and torch.compiler.is_dynamo_compiling()
        active = None if known else ACTIVE.get()
        expands = self.expansion.expands_at(rows, training=self.training, ids=None if active is None else len(active))
        if self._fast is not None and len(args) == 1 and not kwargs and args[0].dim() >= _FEWEST_DIMS[self._fast]:
            outputs = _FAST[self._fast](self, args[0], self.expansion.replicas, expands)
        else:
            outputs = self._mapped(args, kwargs, len(rows) if expands else len(rows) // self.expansion.replicas)
        return map_tensors(outputs, Tensor.clone) if is_managed(self) else outputs

    def _mapped(self, args: tuple[Any, ...], kwargs: dict[str, Any], each: int) -> Any:
        """Return what every replica makes of its rows, of which it has `each`."""
        template, structure = self.template, []

        def one(state: dict[str, Tensor], *parts: Tensor) -> tuple[Tensor, ...]:
            given = iter(parts)
            inner_args, inner_kwargs = map_tensors((args, kwargs), lambda _: next(given))
            outputs = functional_call(template, state, inner_args, inner_kwargs)
            structure.append(map_tensors(outputs, lambda _: _PLACE))
            return tuple(tensors_in(outputs))

        state = {**dict(self.named_parameters(remove_duplicate=False)), **dict(self.named_buffers())}
        dtype = next((value.dtype for value in state.values() if value.is_floating_point()), torch.float32)
        parts, dims = [], []
        for x in tensors_in((args, kwargs)):
            rows, replicas = x.shape[0] if x.dim() else None, self.expansion.replicas
            dims.append(0 if rows in (each, replicas * each) else None)  # None: it has no rows
            if rows == replicas * each:
                x = x.unflatten(0, (replicas, each))
            elif rows == each:
                x = expanded(x, replicas).unflatten(0, (replicas, each))
            device = x.device.type
            cast = torch.is_autocast_enabled(device) and x.dtype == torch.get_autocast_dtype(device)
            parts.append(x.to(dtype) if cast else x)
        with sdpa_kernel(SDPBackend.MATH):  # the only attention that vmap knows
            outputs = iter(vmap(one, in_dims=(0, *dims), randomness="different")(state, *parts))
        return map_tensors(structure[0], lambda _: next(outputs).flatten(0, 1))

    def replica(self, number: int) -> nn.Module:
        """Return one replica as a plain module; its weights are those here, not a copy."""
        module = copy.deepcopy(self.template)
        for name, parameter in self.named_parameters(remove_duplicate=False):
            part = nn.Parameter(parameter.detach()[number], requires_grad=parameter.requires_grad)
            path, _, leaf = name.rpartition(".")
            module.get_submodule(path)._parameters[leaf] = part
        for name, buffer in self.named_buffers():
            path, _, leaf = name.rpartition(".")
            module.get_submodule(path)._buffers[leaf] = buffer[number]
        return module

    def extra_repr(self) -> str:
        """Return how many of what."""
        return f"{self.expansion.replicas} x {self._template[0]}"


def _place(module: nn.Module, name: str, value: Tensor) -> None:
    """Register a parameter or buffer under a name with dots."""
    *parents, leaf = name.split(".")
    for part in parents:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]  # pyright: ignore[reportAssignmentType]
    if isinstance(value, nn.Parameter):
        module.register_parameter(leaf, value)
    else:
        module.register_buffer(leaf, value)


def _fast_way(module: nn.Module) -> str | None:
    """Return the fast way for a module of exactly this type without hooks of its own, else None."""
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._modules:
        return None
    if type(module) is nn.Linear:
        return "linear"
    plain = type(module) in (nn.Conv1d, nn.Conv2d, nn.Conv3d) and getattr(module, "padding_mode", None) == "zeros"
    return "convolution" if plain else None


def _linear(module: Replicated, x: Tensor, replicas: int, expands: bool) -> Tensor:
    weight: Tensor = module.weight
    bias: Tensor | None = module._parameters.get("bias")
    shape = [replicas * len(x) if expands else len(x), *x.shape[1:-1], -1]
    if expands:
        x = scaled_gradient(x, 1 / replicas).expand(replicas, *x.shape)
    rows = x.reshape(replicas, -1, x.shape[-1])
    device = rows.device.type
    if torch.is_autocast_enabled(device) and rows.dtype != torch.float64:
        # Autocast does not reach the backward pass of a Function: as in nn.Linear, all of it is cast before.
        dtype = torch.get_autocast_dtype(device)
        rows, weight, bias = rows.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    products: Tensor = _Products.apply(rows, weight)  # pyright: ignore[reportAssignmentType]
    return (products if bias is None else products + bias.unsqueeze(1)).view(shape)


class _Products(torch.autograd.Function):
    """Rows times turned weights, for every replica.

    Autograd's own rule makes the gradient of the turned weights, whose turning back is a copy of all weights per step.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, weight: Tensor) -> Tensor:
        return torch.bmm(rows, weight.transpose(1, 2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        (gradient,) = gradients
        rows, weight = ctx.saved_tensors
        of_rows, of_weight = ctx.needs_input_grad
        return (
            torch.bmm(gradient, weight) if of_rows else None,
            torch.bmm(gradient.transpose(1, 2), rows) if of_weight else None,
        )


def _convolution(module: Replicated, x: Tensor, replicas: int, expands: bool) -> Tensor:
    template: Any = module._template[0]
    weight: Tensor = module.weight
    bias: Tensor | None = module._parameters.get("bias")
    convolve = _CONVOLUTIONS.get(x.dim())
    if convolve is None or weight.dim() != x.dim() + 1:
        raise InstancesError(f"{module.expansion.path!r} got shape {list(x.shape)}; give it a batch of rows.")
    if expands and template.groups == 1:
        inputs, groups = scaled_gradient(x, 1 / replicas), 1
    else:
        every = expanded(x, replicas) if expands else x
        # [replicas * rows, channels, ...] -> [rows, replicas * channels, ...]
        inputs = every.unflatten(0, (replicas, -1)).transpose(0, 1).flatten(1, 2)
        groups = replicas * template.groups
    outputs = convolve(
        inputs,
        weight.flatten(0, 1),
        None if bias is None else bias.flatten(),
        template.stride,
        template.padding,
        template.dilation,
        groups,
    )
    return outputs.unflatten(1, (replicas, -1)).transpose(0, 1).flatten(0, 1)


_FAST: dict[str, Callable[[Replicated, Tensor, int, bool], Tensor]] = {
    "linear": _linear,
    "convolution": _convolution,
}
_FEWEST_DIMS = {"linear": 2, "convolution": 3}


def replicas_of(root: nn.Module) -> int:
    """Return how many replicas a root has; 1 for a model without."""
    return root.__dict__.get(_ATTRIBUTE, 1)


def attach_replicas(root: nn.Module, replicas: int, *, expand_inputs: bool = False) -> None:
    """Make a module the root of a model with replicas; its expansion points are in place, or its inputs are one."""
    root.__dict__[_ATTRIBUTE] = replicas
    root.register_forward_pre_hook(begin_model)
    if expand_inputs:
        root.register_forward_pre_hook(_expand_inputs, with_kwargs=True)
    root.register_forward_hook(_finish)


def detach_replicas(root: nn.Module) -> None:
    """Undo `attach_replicas`."""
    root.__dict__.pop(_ATTRIBUTE, None)
    for hooks in (root._forward_pre_hooks, root._forward_hooks):
        remove_hooks(hooks, lambda hook: hook in (begin_model, _expand_inputs, _finish))


def _expand_inputs(
    root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs with rows for every replica, targets excepted: those are repeated outside of the model."""
    inputs = {name: value for name, value in kwargs.items() if name not in TARGET_NAMES}
    first = next((x for x in tensors_in((args, inputs)) if x.dim() > 0), None)
    if first is None:
        return args, kwargs
    rows, replicas, active = len(first), replicas_of(root), ACTIVE.get()
    note_trunk_rows(rows)
    # In eval mode one row is expanded to all instances. Here at once: masks of attention would stay as they are.
    each = len(active) if active is not None and rows == 1 and not root.training else 1

    def expand(x: Tensor) -> Tensor:
        return expanded(x, replicas).repeat_interleave(each, 0) if x.dim() > 0 and len(x) == rows else x

    return map_tensors(args, expand), {**kwargs, **map_tensors(inputs, expand)}


def _finish(root: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    replicas = root.__dict__[_ATTRIBUTE]
    if not torch.compiler.is_dynamo_compiling():
        output = _joined(output, replicas, end_model())
    elif root.training:  # compiled training is in keep view; asking for the view would break the graph
        output = map_tensors(output, lambda x: scaled_gradient(x, replicas))
    else:
        output = _joined_untraced(output, replicas, None)
    return map_tensors(output, Tensor.clone) if is_managed(root) else output


def _joined(output: Any, replicas: int, trunk_rows: int | None) -> Any:
    active = ACTIVE.get()
    rows = trunk_rows if active is None else len(active)

    def join(x: Tensor) -> Tensor:
        if x.dim() == 0 or (x.shape[0] % replicas if rows is None else x.shape[0] != replicas * rows):
            return x  # made by the trunk
        if active is None or active.shared_view == FULL:
            return x.unflatten(0, (replicas, -1)).mean(0)
        return scaled_gradient(x, replicas)

    return map_tensors(output, join)


_joined_untraced = _disable_dynamo(_joined)
