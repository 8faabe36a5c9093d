"""What a symbolic trace (torch.fx) of a model shows: what flows into what, and whether zero stays zero.

`Flow` orders the modules of a model and finds where rows of the trunk and of replicas would meet. `zero_flows` asks
whether a mask hides its units: a unit is hidden only where its zero reaches the next weights as a zero. ReLU, GELU,
tanh and pooling keep it; BatchNorm, LayerNorm, sigmoid, softmax and additions do not: they hand the next weights a
value, and with it a gradient, for every dropped unit. The model is traced, or the largest enclosing module that can be.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from turnover.layers import TurnOverDropout

from ._modules import join

_NEUTRAL = ("device", "dtype", "ndim")  # reading these of a tensor says nothing about its rows


def _types(names: str) -> tuple[type[nn.Module], ...]:
    return tuple(getattr(nn, name) for name in names.split())


_WEIGHTS = (
    _ConvNd,
    *_types(
        """Linear Bilinear RNNBase RNNCellBase MultiheadAttention Transformer TransformerEncoder TransformerDecoder
    TransformerEncoderLayer TransformerDecoderLayer"""
    ),
)
BREAKS = (
    _NormBase,
    *_types(
        """LayerNorm GroupNorm Sigmoid LogSigmoid Softmax LogSoftmax Softmin Softmax2d
    Hardsigmoid Softplus CosineSimilarity"""
    ),
)
_KEEPS = (
    TurnOverDropout,
    *_types(
        """RMSNorm LocalResponseNorm ReLU ReLU6 LeakyReLU PReLU RReLU ELU SELU CELU GELU SiLU Mish Tanh
    Hardtanh Hardswish Softsign Tanhshrink
    Softshrink Hardshrink Identity Flatten Unflatten Upsample PixelShuffle Fold Unfold Dropout Dropout1d
    Dropout2d Dropout3d ZeroPad1d ZeroPad2d ZeroPad3d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d
    AvgPool3d LPPool1d LPPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d
    AdaptiveMaxPool2d AdaptiveMaxPool3d"""
    ),
)

_KEEP_NAMES = frozenset(
    """relu relu_ relu6 leaky_relu leaky_relu_ prelu elu elu_ selu celu gelu silu mish tanh tanh_ hardtanh hardswish
    softsign abs neg mul mul_ imul div truediv div_ sqrt square flatten reshape view view_as unflatten
    transpose permute swapaxes t contiguous squeeze unsqueeze expand getitem cat concat concatenate stack
    chunk split mean sum amax amin max min dropout dropout1d dropout2d dropout3d max_pool1d max_pool2d
    max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d interpolate to float half bfloat16 clone
    detach type_as index_select gather select narrow repeat movedim roll flip pad rms_norm normalize""".split()
)
_WEIGHT_NAMES = frozenset(
    """linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear matmul mm bmm addmm
    einsum baddbmm scaled_dot_product_attention""".split()
)
_BREAK_NAMES = frozenset(
    """sigmoid sigmoid_ logsigmoid softmax log_softmax softmin batch_norm layer_norm group_norm instance_norm
     softplus exp log cos hardsigmoid cosine_similarity""".split()
)
_ADD_NAMES = frozenset("add add_ iadd sub sub_ isub radd rsub".split())
_SHAPE_NAMES = frozenset("size dim shape getattr numel ndim".split())


# A trace replaces nn.Module.__call__ for all threads; of two at the same time, one would leave its own behind for good.
_tracing = threading.RLock()


class _SiteTracer(fx.Tracer):
    """Traces into everything but torch's own modules and the sites; modules that other threads call just run."""

    def __init__(self, sites: set[str]) -> None:
        super().__init__()
        self._sites = sites
        self._thread = threading.get_ident()

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self._sites or super().is_leaf_module(m, module_qualified_name)


def _trace(module: nn.Module, prefix: str, sites: list[str]) -> fx.Graph | None:
    """Return the graph of a module, with the sites below it as leaves; None where its code cannot be traced."""
    start = f"{prefix}." if prefix else ""
    inside = {path[len(start) :] for path in sites if path.startswith(start)}
    modes = [(m, m.training) for m in module.modules()]
    try:
        with _tracing:
            return _SiteTracer(inside).trace(module)
    except Exception:  # noqa: BLE001 - tracing runs the user's code with stand-ins; anything may come
        return None
    finally:
        for m, mode in modes:
            m.training = mode


class Flow:
    """The traced forward pass of a model, in which some modules are leaves."""

    def __init__(self, graph: fx.Graph) -> None:
        """Read the graph."""
        self._nodes = list(graph.nodes)
        self._paths = {node: str(node.target) for node in self._nodes if node.op == "call_module"}

    def order(self) -> list[str]:
        """Return the modules that are called, in their order."""
        return list(dict.fromkeys(self._paths.values()))

    def feeders(self, path: str, units: Collection[str]) -> list[str]:
        """Return the units whose outputs reach a module without passing another unit."""
        inputs = [before for node in self._calls(path) for before in node.all_input_nodes]
        reached = _reached(inputs, lambda node: [] if self._paths.get(node) in units else node.all_input_nodes)
        return [self._paths[node] for node in reached if self._paths.get(node) in units]

    def before(self, path: str) -> set[str]:
        """Return the modules that a module's input depends on."""
        return self._closure(path, lambda node: node.all_input_nodes)

    def behind(self, path: str) -> set[str]:
        """Return the modules that a module's output flows into."""
        return self._closure(path, lambda node: node.users)

    def mixes(self, replicated: Collection[str], sites: Collection[str]) -> str | None:
        """Return a place where rows of the trunk meet rows of replicas, in words; None if they never do."""
        return self._expand({*replicated, *sites})[1]

    def entries(self, replicated: Collection[str], sites: Collection[str]) -> dict[str, bool]:
        """Return for every replicated module and site whether the rows of the trunk reach it."""
        return self._expand({*replicated, *sites})[0]

    def _expand(self, expanding: Collection[str]) -> tuple[dict[str, bool], str | None]:
        expanded: set[fx.Node] = set()
        rows: set[fx.Node] = set()
        entries: dict[str, bool] = {}
        mixed: str | None = None
        for node in self._nodes:
            path = self._paths.get(node)
            inputs = set(node.all_input_nodes)
            if path in expanding:
                entries.setdefault(str(path), not inputs & expanded)
                expanded.add(node)
            elif inputs & expanded:
                expanded.add(node)
                if inputs & rows:
                    mixed = mixed or (f"{path!r}" if path else f"{_name(node.target)}(...)")
            elif node.op == "placeholder" or (inputs & rows and not _neutral(node)):
                rows.add(node)
        return entries, mixed

    def _calls(self, path: str) -> list[fx.Node]:
        inside = f"{path}."
        return [node for node, called in self._paths.items() if called == path or called.startswith(inside)]

    def _closure(self, path: str, step: Callable[[fx.Node], Iterable[fx.Node]]) -> set[str]:
        own = self._calls(path)
        return {self._paths[node] for node in _reached(own, step) if node in self._paths and node not in own}


def _reached(start: Iterable[fx.Node], step: Callable[[fx.Node], Iterable[fx.Node]]) -> Iterator[fx.Node]:
    """Yield these nodes and all that steps lead to, each once, the nearest first."""
    queue, seen = list(start), set[fx.Node]()
    while queue:
        node = queue.pop(0)
        if node not in seen:
            seen.add(node)
            yield node
            queue.extend(step(node))


def flow_of(model: nn.Module, leaves: Sequence[str]) -> Flow | None:
    """Return the flow of a model with these modules as leaves, or None where its code cannot be traced."""
    graph = _trace(model, "", list(leaves))
    return None if graph is None else Flow(graph)


def _neutral(node: fx.Node) -> bool:
    """Tell whether a node reads something of a tensor that does not depend on its rows."""
    name = _name(node.target)
    if name == "getattr":
        return node.args[1] in _NEUTRAL
    if name == "getitem":  # x.shape[1]
        whole = node.args[0]
        is_shape = isinstance(whole, fx.Node) and _name(whole.target) in ("size", "getattr")
        return is_shape and bool(node.args[1] != 0)
    return name == "size" and len(node.args) > 1 and bool(node.args[1] != 0)


@dataclass(frozen=True)
class ZeroFlow:
    """The answer for one site."""

    keeps: bool | None  # None where the code cannot be traced
    reason: str = ""  # what breaks it, or why it is not known
    instead: str | None = None  # path of a later module that would be right, if there is one
    at_output: bool = False  # whether the units are outputs of the model


def zero_flows(model: nn.Module, paths: list[str]) -> dict[str, ZeroFlow]:
    """Return for every site path whether zero stays zero up to the next weights."""
    traces: dict[str, fx.Graph | None] = {}
    return {path: _flow(model, path, paths, traces) for path in paths}


def feeds_output_linear(model: nn.Module, path: str) -> bool:
    """Return whether a site's output goes into one nn.Linear and nowhere else, and that makes the model's output."""
    graph = _trace(model, "", [path])
    nodes = [] if graph is None else [n for n in graph.nodes if n.op == "call_module" and str(n.target) == path]
    if len(nodes) != 1 or len(nodes[0].users) != 1:
        return False
    (consumer,) = nodes[0].users
    if consumer.op != "call_module" or not isinstance(model.get_submodule(str(consumer.target)), nn.Linear):
        return False
    return [user.op for user in consumer.users] == ["output"]


def _flow(model: nn.Module, path: str, sites: list[str], traces: dict[str, fx.Graph | None]) -> ZeroFlow:
    parts = path.split(".") if path else []
    known = _inside_torch(model, path)
    if known is not None:
        return known
    answer = ZeroFlow(None, "the forward pass cannot be traced")
    # From the whole model inwards: the larger the traced part, the further a unit can be followed.
    for depth in range(len(parts)):
        prefix = ".".join(parts[:depth])
        if prefix not in traces:
            traces[prefix] = _trace(model.get_submodule(prefix), prefix, sites)
        graph = traces[prefix]
        if graph is None:
            continue
        nodes = [node for node in graph.nodes if node.op == "call_module" and join(prefix, str(node.target)) == path]
        if nodes:
            return _Walk(model, prefix).from_site(nodes)
        answer = ZeroFlow(None, "the module is not called in the traced code")
    return answer


def _inside_torch(model: nn.Module, path: str) -> ZeroFlow | None:
    """Return the answer for the dropouts of torch's own transformer layers, whose code cannot be traced."""
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    if not isinstance(owner, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        return None
    inner = f"{parent}.dropout" if parent else "dropout"
    if name == "dropout":
        return ZeroFlow(True)
    if name in ("dropout1", "dropout2", "dropout3", "self_attn", "multihead_attn", "linear2"):
        return ZeroFlow(False, "its output is added to something else", inner)
    return None


class _Walk:
    """Follows a value through a traced graph."""

    def __init__(self, model: nn.Module, prefix: str) -> None:
        self._model = model
        self._prefix = prefix

    def from_site(self, nodes: list[fx.Node]) -> ZeroFlow:
        flow = ZeroFlow(True)
        for node in nodes:
            of_call = self._follow(node)
            if of_call.keeps is False:
                return replace(of_call, instead=self._instead(node))
            if of_call.keeps is None:
                flow = of_call
        return flow

    def _follow(self, start: fx.Node) -> ZeroFlow:
        """Return the worst answer over all ways from a node to the next weights."""
        unknown: ZeroFlow | None = None
        for node in _reached(start.users, lambda node: node.users if self._judge(node)[0] == "keeps" else ()):
            verdict, reason = self._judge(node)
            if verdict == "breaks":
                return ZeroFlow(False, reason)
            if verdict == "unknown":
                unknown = unknown or ZeroFlow(None, reason, at_output=node.op == "output" and not self._prefix)
        return unknown or ZeroFlow(True)

    def _judge(self, node: fx.Node) -> tuple[str, str]:
        """Return "keeps", "breaks", "weights" or "unknown" for one step, and why."""
        if node.op == "output":
            if self._prefix:
                return "unknown", f"the code outside {self._prefix!r} cannot be traced"
            return "unknown", "its units are outputs of the model"
        if node.op == "call_module":
            path, module = self._module(node)
            for verdict, kinds in (("weights", _WEIGHTS), ("breaks", BREAKS), ("keeps", _KEEPS)):
                if isinstance(module, kinds):
                    return verdict, f"{type(module).__name__} {path!r} follows"
            return "unknown", f"what {type(module).__name__} {path!r} does to zero is not known"
        return _function_verdict(_name(node.target))

    def _instead(self, start: fx.Node) -> str | None:
        """Return the first module further on from which zero would stay zero."""
        modules = {}
        for node in _reached(start.users, lambda node: () if isinstance(modules.get(node), _WEIGHTS) else node.users):
            if node.op == "call_module":
                path, modules[node] = self._module(node)
                candidate = isinstance(modules[node], _KEEPS) and not isinstance(modules[node], nn.Flatten)
                if candidate and self._follow(node).keeps:
                    return path
        return None

    def _module(self, node: fx.Node) -> tuple[str, nn.Module]:
        path = join(self._prefix, str(node.target))
        return path, self._model.get_submodule(path)


def _function_verdict(name: str) -> tuple[str, str]:
    """Return "keeps", "breaks", "weights" (the end of the way) or "unknown" for a function, and why."""
    if name in _SHAPE_NAMES:
        return "weights", ""
    if name in _ADD_NAMES:
        return "breaks", "its output is added to something else"
    for verdict, names in (("weights", _WEIGHT_NAMES), ("breaks", _BREAK_NAMES), ("keeps", _KEEP_NAMES)):
        if name in names:
            return verdict, f"{name}() follows"
    return "unknown", f"what {name}() does to zero is not known"


def _name(target: object) -> str:
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return str(name)
