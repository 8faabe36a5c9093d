"""The gradient of rows at every layer of a network: the layer's inputs, and the gradient of a loss at its outputs.

The gradient of a row with respect to a weight is the sum over positions of gradient ⊗ input: one position for a Linear
layer behind a pooling, the tokens of a text, the patches that a convolution sees. Nothing here is larger than a
batch. A network is what a member is in full view; masks take no part.

nn.MultiheadAttention multiplies queries, keys and values with parts of one packed weight, and calls no module for that,
nor for its output layer. While gradients are computed, each projection runs as a module, so that its inputs and outputs
can be seen; what lies between them is computed by the same torch code, on projections that are identities.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.conv import _ConvNd

from turnover.batches import Batch
from turnover.errors import InfluenceError
from turnover.influence.ensemble import Member

_COUNTED_ROWS = 8
_WIDEST = 1024  # of a block of inputs or outputs: eigenvectors of more would take minutes and gigabytes
_PLANE = 2
_NOT_FINITE = (
    "{} are not finite on {}. Look for NaN and infinite values in the data and in the weights; of a model with "
    "masks, estimator='tod' scores all other rows."
)
Objective = Callable[[Tensor, Any], Tensor]
"""Maps the outputs and targets of rows to one value per row, which is differentiated."""


@dataclass(frozen=True)
class LayerRun:
    """What one layer saw of some rows; convolutions have groups, and wide layers blocks, which count as groups."""

    inputs: Tensor  # [groups, rows, positions, inputs + 1 for the bias]; of an embedding the tokens [rows, positions]
    gradient: Tensor  # [groups, rows, positions, outputs]

    @property
    def seen(self) -> Tensor:
        """Return at which positions rows have a gradient, [groups, rows, positions]: padding has none."""
        return self.gradient.abs().amax(-1) > 0

    def part(self, start: int, stop: int) -> "LayerRun":
        tokens = self.inputs.dim() == _PLANE
        return LayerRun(self.inputs[start:stop] if tokens else self.inputs[:, start:stop], self.gradient[:, start:stop])

    def with_gradient(self) -> "LayerRun":
        """Return the same without the positions at which no row has a gradient.

        Of a text that is classified by its first token, the last block has a gradient there alone.
        """
        if self.gradient.shape[2] == 1:
            return self
        seen = self.seen.flatten(0, 1).any(0)
        if bool(seen.all()):
            return self
        places = seen.nonzero()[:, 0] if bool(seen.any()) else seen.new_zeros(1, dtype=torch.long)
        tokens = self.inputs.dim() == _PLANE
        return LayerRun(self.inputs.index_select(1 if tokens else 2, places), self.gradient.index_select(2, places))


class Network:
    """One member as an ordinary network, with the layers whose gradients are known."""

    def __init__(self, member: Member, example: Batch) -> None:
        """Find the layers that run on an example and have trained parameters; `example` has a few rows."""
        self.member = member
        known = {name: value for name, value in member.model.named_parameters() if value.is_floating_point()}
        # A model that was frozen after its training has learned all the same.
        self.uncovered = {name: value for name, value in known.items() if value.requires_grad} or known
        owned = set(self.uncovered.values())
        self.layers: dict[str, nn.Module] = {}
        for name, module in self._modules().items():
            if _is_covered(module) and not owned.isdisjoint(_parameters_of(module)):
                self.layers[name] = module
        if not self.layers:
            raise InfluenceError(
                "curvature needs layers with trained weights (Linear, Conv1d, Conv2d, Embedding), and this model has "
                "none. Give estimator='tod', which needs masks alone."
            )
        self._row_dims = self._dims_of_rows(example)
        self.layers = {name: self.layers[name] for name in self.layers if name in self._row_dims}
        _, runs = next(self.runs(example, [lambda outputs, _: outputs.flatten(1).square().sum(1)]))
        self.layers = {name: self.layers[name] for name in runs}
        for module in self.layers.values():
            owned.difference_update(_parameters_of(module))
        self.uncovered = {name: value for name, value in self.uncovered.items() if value in owned}

    def _modules(self) -> dict[str, nn.Module]:
        model = self.member.model
        projections = {
            f"{path}.{kind}_proj": _Projection(module, kind)
            for path, module in model.named_modules()
            if isinstance(module, nn.MultiheadAttention)
            for kind in "qkv"
        }
        return {**dict(model.named_modules()), **projections}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle layers by their paths, and no parameters: the model has them."""
        return {"member": self.member, "_row_dims": self._row_dims, "layers": list(self.layers), "uncovered": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        modules = self._modules()
        self.layers = {name: modules[name] for name in state["layers"]}

    def _dims_of_rows(self, example: Batch) -> dict[str, int]:
        """Return for every layer that runs by which dimension of its outputs rows are told apart: 0, or 1.

        Half of the rows must give half of its length. Embeddings of positions have one row for all: which row's
        gradient is which, is not known there, and they are not among them.
        """
        whole, half = self._shapes(example), self._shapes(example.part(0, example.rows // 2))
        if example.rows == 1:
            return dict.fromkeys(whole, 0)
        dims: dict[str, int] = {}
        for name, shape in whole.items():
            of_half = half.get(name, shape)
            found = [dim for dim in range(min(2, len(shape) - 1)) if shape[dim] == 2 * of_half[dim]]
            if len(found) == 1:
                dims[name] = found[0]
        return dims

    def _shapes(self, batch: Batch) -> dict[str, torch.Size]:
        noted: list[tuple[str, Tensor, Tensor]] = []
        if batch.rows:
            with torch.enable_grad(), _noting(self.layers, noted):  # with gradients, as later: no fused path
                self.member.run(batch.args, batch.kwargs, batch.rows)
        return {name: output.shape for name, _, output in reversed(noted)}

    @torch.no_grad()
    def outputs(self, batch: Batch) -> Tensor:
        outputs = self.member.run(batch.args, batch.kwargs, batch.rows).float()
        _check_finite(outputs, batch)
        return outputs

    def gradients(self, batch: Batch, objective: Objective) -> dict[str, LayerRun]:
        _, runs = next(self.runs(batch, [objective]))
        return runs

    def covered_share(self, batch: Batch, objective: Objective) -> tuple[float, dict[str, float]]:
        """Return the share of the squared gradient that the layers have, and that of every other parameter.

        By the gradients of a few rows, each alone.
        """
        if not self.uncovered:
            return 1.0, {}
        other = dict.fromkeys(self.uncovered, 0.0)
        inside = 0.0
        required = {name: value.requires_grad for name, value in self.uncovered.items()}
        for value in self.uncovered.values():
            value.requires_grad_(True)
        try:
            for row in range(min(batch.rows, _COUNTED_ROWS)):
                total, runs = next(self.runs(batch.row(row), [objective], retain=True))
                inside += sum(float(_squared_gradient(run)) for run in runs.values())
                gradients = torch.autograd.grad(total, list(self.uncovered.values()), allow_unused=True)
                for name, gradient in zip(self.uncovered, gradients, strict=True):
                    other[name] += 0.0 if gradient is None else float(gradient.float().square().sum())
        finally:
            for name, value in self.uncovered.items():
                value.requires_grad_(required[name])
        whole = inside + sum(other.values())
        if whole == 0:
            return 1.0, {}
        return inside / whole, {name: value / whole for name, value in other.items() if value > 0}

    def runs(
        self, batch: Batch, objectives: Sequence[Objective], *, retain: bool = False
    ) -> Iterator[tuple[Tensor, dict[str, LayerRun]]]:
        """Yield the sum of every objective over the rows, and what each layer saw of them, from one forward pass.

        Inputs are those of the first; with `retain`, the graph of the last objective is kept.
        """
        checked: dict[str, Tensor] = {}
        noted: list[tuple[str, Tensor, Tensor]] = []
        with torch.enable_grad(), _noting(self.layers, noted):
            outputs = self.member.run(batch.args, batch.kwargs, batch.rows)
        if not noted:
            raise InfluenceError("no layer of this model ran as a module, so its gradients cannot be seen.")
        _check_finite(outputs, batch)
        passes = [_Pass(name, self.layers[name], inputs, batch.rows, self._row_dims[name]) for name, inputs, _ in noted]
        for number, objective in enumerate(objectives, 1):
            with torch.enable_grad():
                values = objective(outputs.float(), batch.target)
                if not isinstance(values, Tensor) or not values.requires_grad:
                    raise InfluenceError(
                        "the loss, or the measure, has no gradient with respect to the outputs, which curvature needs. "
                        "Give one made of torch operations, loss=lambda outputs, targets: ... or measure=lambda "
                        "outputs, targets: ..., without .detach(), .item(), argmax or comparisons."
                    )
                total = values.sum()
                gradients = torch.autograd.grad(
                    total,
                    [output for *_, output in noted],
                    allow_unused=True,
                    retain_graph=retain or number < len(objectives),
                )
            parts: dict[str, list[LayerRun]] = {}
            for one, gradient in zip(passes, gradients, strict=True):
                if gradient is not None:
                    parts.setdefault(one.name, []).append(one.run(gradient))
            runs = {name: _joined(parts[name]) for name in self.layers if name in parts}
            if not runs:
                raise InfluenceError(
                    "the loss does not depend on the outputs of any layer. Give a loss made of torch operations on the "
                    "outputs: loss=lambda outputs, targets: ..."
                )
            for name, run in runs.items():
                known = checked.get(name) is run.inputs
                if not (_all_finite(run.gradient) and (known or _all_finite(run.inputs))):
                    raise InfluenceError(_NOT_FINITE.format(f"inputs or gradients of the layer {name!r}", "some rows"))
                checked[name] = run.inputs
            yield total, runs
            del gradients, parts, runs  # those of two objectives together would take twice the memory


def _all_finite(values: Tensor) -> bool:
    # One value that is not finite makes the sum so, too; a sum costs far less than a look at every value.
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def _check_finite(outputs: Tensor, batch: Batch) -> None:
    if _all_finite(outputs):
        return
    called = batch.names if batch.names is not None else [] if batch.ids is None else batch.ids.tolist()
    bad = (~outputs.flatten(1).isfinite()).any(1).nonzero().flatten().tolist()
    more = f" and {len(bad) - 1} more of its batch" if len(bad) > 1 else ""
    rows = f"row {called[bad[0]]!r}{more}" if called else "some rows"
    raise InfluenceError(_NOT_FINITE.format("the model's outputs", rows))


@contextmanager
def _noting(layers: dict[str, nn.Module], noted: list[tuple[str, Tensor, Tensor]]) -> Iterator[None]:
    """Note the input and output of every run of the layers."""

    def note(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        if not output.requires_grad:
            output = output.detach().requires_grad_(True)
        inputs = args[0] if args else next(iter(kwargs.values()))
        noted.append((name, inputs.detach(), output))
        return output.clone()  # a ReLU in place behind it must not change what is noted

    hooks = [module.register_forward_hook(partial(note, name), with_kwargs=True) for name, module in layers.items()]
    try:
        with _running_as_modules(layers):
            yield
    finally:
        for hook in hooks:
            hook.remove()


# Kinds of layers


def _is_covered(module: nn.Module) -> bool:
    if isinstance(module, _ConvNd):
        weight = module.weight
        return not module.transposed and module.padding_mode == "zeros" and weight.dim() in (3, 4)
    is_transposed_linear = type(module).__name__ == "Conv1D" and hasattr(module, "nf")  # of GPT-2
    return isinstance(module, nn.Linear | nn.Embedding | _Projection) or is_transposed_linear


def _parameters_of(module: nn.Module) -> list[nn.Parameter]:
    return module.owned if isinstance(module, _Projection) else list(module.parameters(recurse=False))


@dataclass(frozen=True)
class _Pass:
    """One pass of some rows through a layer, whose inputs are laid out once for all gradients at its outputs."""

    name: str
    module: nn.Module
    seen: Tensor
    rows: int
    dim: int  # which dimension has the rows, or all positions of a row after the other

    def run(self, gradient: Tensor) -> LayerRun:
        """Return inputs and gradient by groups, rows and positions."""
        gradient = gradient.float()
        if isinstance(self.module, _ConvNd):
            by_group = gradient.flatten(2).unflatten(1, (self.module.groups, -1)).permute(1, 0, 3, 2)
            return LayerRun(self._inputs, by_group)
        gradient = self._by_rows(gradient)
        if isinstance(self.module, nn.Embedding):
            padding = self.module.padding_idx
            known = gradient if padding is None else gradient * (self._inputs[..., None] != padding)
            return LayerRun(self._inputs, known[None])
        # Of a wide layer every pair of a block of inputs and one of outputs is a group: curvature between blocks is 0.
        blocks = _blocks(gradient)
        inputs = self._inputs if len(blocks) == 1 else self._inputs.repeat(len(blocks), 1, 1, 1)
        return LayerRun(inputs, blocks if len(self._inputs) == 1 else blocks.repeat_interleave(len(self._inputs), 0))

    @cached_property
    def _inputs(self) -> Tensor:
        if isinstance(self.module, _ConvNd):
            return _patches(self.module, self.seen.float())
        if isinstance(self.module, nn.Embedding):
            return self._by_rows(self.seen[..., None])[..., 0]
        return _blocks(_with_one(self._by_rows(self.seen.float()), getattr(self.module, "bias", None)))

    def _by_rows(self, values: Tensor) -> Tensor:
        """Return values of the layer as [rows, positions, width]."""
        if values.dim() == 1 or values.shape[self.dim] % self.rows:
            raise InfluenceError(
                f"the layer {self.name!r} has values of shape {list(values.shape)} for {self.rows} rows, so it is not "
                "known which part belongs to which row. Give estimator='tod', or freeze the layer "
                "(requires_grad_(False)) if it was not trained."
            )
        return values.movedim(self.dim, 0).reshape(self.rows, -1, values.shape[-1])


def _blocks(values: Tensor) -> Tensor:
    """Return values [rows, positions, width] as [blocks, rows, positions, width of a block], filled up with zeros."""
    width = values.shape[-1]
    count = -(-width // _WIDEST)
    if count == 1:
        return values[None]
    size = -(-width // count)
    padded = functional.pad(values, (0, count * size - width))
    return padded.unflatten(-1, (count, size)).permute(2, 0, 1, 3)


def _patches(module: _ConvNd, inputs: Tensor) -> Tensor:
    """Return what a convolution sees at every position, [groups, rows, positions, width]."""
    kernel, stride, dilation = (tuple(value) for value in (module.kernel_size, module.stride, module.dilation))
    # As `_reversed_padding_repeated_twice`: "same" and numbers alike, and the sides of "same" may differ.
    inputs = functional.pad(inputs, module._reversed_padding_repeated_twice)
    if len(kernel) == 1:
        inputs, kernel, stride, dilation = inputs[:, :, None], (1, *kernel), (1, *stride), (1, *dilation)
    patches = functional.unfold(
        inputs, kernel, dilation=dilation, stride=stride
    )  # [rows, channels * kernel, positions]
    return _with_one(patches.unflatten(1, (module.groups, -1)).permute(1, 0, 3, 2), module.bias)


def _with_one(inputs: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return inputs
    return torch.cat([inputs, inputs.new_ones(*inputs.shape[:-1], 1)], -1)


def _joined(runs: Sequence[LayerRun]) -> LayerRun:
    """Return the runs of a layer that ran more than once as one, with the positions of all."""
    if len(runs) == 1:
        return runs[0]
    tokens = runs[0].inputs.dim() == _PLANE
    return LayerRun(
        torch.cat([run.inputs for run in runs], 1 if tokens else 2), torch.cat([run.gradient for run in runs], 2)
    )


def _squared_gradient(run: LayerRun) -> Tensor:
    """Return the sum of squares of the rows' gradients with respect to the layer's parameters."""
    if run.inputs.dim() == _PLANE:
        same = run.inputs[:, :, None] == run.inputs[:, None, :]
        products = run.gradient[0] @ run.gradient[0].transpose(1, 2)
        return (products * same).sum()
    inputs, gradient = run.inputs, run.gradient
    return ((inputs @ inputs.transpose(-1, -2)) * (gradient @ gradient.transpose(-1, -2))).sum()


# Attention


class _Projection(nn.Module):
    """One of the three projections, as a Linear layer on a part of the packed weight and bias."""

    def __init__(self, attention: nn.MultiheadAttention, kind: str) -> None:
        super().__init__()
        self.kind = kind  # "q", "k" or "v"
        self._attention = (attention,)  # in a tuple, which is not a sub-module: parameters stay where they are

    @property
    def attention(self) -> nn.MultiheadAttention:
        return self._attention[0]

    @property
    def owned(self) -> list[nn.Parameter]:
        whole = self.attention
        weight = whole.in_proj_weight if whole._qkv_same_embed_dim else getattr(whole, f"{self.kind}_proj_weight")
        return [weight] if whole.in_proj_bias is None else [weight, whole.in_proj_bias]

    @property
    def bias(self) -> Tensor | None:
        bias = self.attention.in_proj_bias
        return None if bias is None else bias.chunk(3)["qkv".index(self.kind)]

    def forward(self, values: Tensor) -> Tensor:
        weight: Tensor = self.owned[0]
        if self.attention._qkv_same_embed_dim:
            weight = weight.chunk(3)["qkv".index(self.kind)]
        return functional.linear(values, weight, self.bias)


@contextmanager
def _running_as_modules(projections: Mapping[str, nn.Module]) -> Iterator[None]:
    """Let attentions call their projections and output layer as modules."""
    by_attention: dict[nn.MultiheadAttention, dict[str, _Projection]] = {}
    for projection in projections.values():
        if isinstance(projection, _Projection):
            by_attention.setdefault(projection.attention, {})[projection.kind] = projection
    try:
        for attention, parts in by_attention.items():
            attention.forward = _opened(attention, [parts.get(kind) or _Projection(attention, kind) for kind in "qkv"])
        yield
    finally:
        for attention in by_attention:
            del attention.forward


def _opened(attention: nn.MultiheadAttention, parts: list[_Projection]) -> Any:
    weight = attention.out_proj.weight
    identity = torch.eye(attention.embed_dim, device=weight.device, dtype=weight.dtype)
    between = nn.MultiheadAttention(
        attention.embed_dim,
        attention.num_heads,
        bias=False,
        add_zero_attn=attention.add_zero_attn,
        batch_first=attention.batch_first,
        device="meta",
    ).eval()
    between.in_proj_weight = nn.Parameter(identity.repeat(3, 1), requires_grad=False)
    between.out_proj.weight = nn.Parameter(identity, requires_grad=False)
    between.bias_k, between.bias_v = attention.bias_k, attention.bias_v

    def forward(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        projected = [part(values) for part, values in zip(parts, (query, key, value), strict=True)]
        outputs, weights = between(*projected, *args, **kwargs)
        return attention.out_proj(outputs), weights

    return forward
