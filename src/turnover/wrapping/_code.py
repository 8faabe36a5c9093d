"""What the code of a model tells: what its modules are, what flows into what, and whether zero stays zero.

A `Flow` is traced once (torch.fx). It orders the modules of a model, finds where rows of the trunk and of replicas
would meet, and tells for every site whether a mask hides its units: a unit is hidden only where its zero reaches the
next weights as a zero. ReLU, GELU, tanh and pooling keep it; BatchNorm, LayerNorm, sigmoid, softmax and additions do
not: they hand the next weights a value, and with it a gradient, for every dropped unit. Where the whole model cannot be
traced, order is that of registration, and zeros are followed in the largest enclosing module that can be.
"""

import ast
import inspect
import textwrap
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from torch import fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from turnover.layers import TurnOverDropout

NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
CHANNELS = (_ConvNd, _NormBase, nn.GroupNorm, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""Modules whose units are dimension 1."""
FEATURES = (
    *(nn.Linear, nn.Bilinear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.EmbeddingBag, nn.RNNBase, nn.RNNCellBase),
    *(nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.Transformer),
)
"""Modules whose units are the last dimension."""
_WIDTHS = ("out_features", "out_channels", "num_features", "num_channels", "embedding_dim", "embed_dim")
_SHOWN = 8


def join(prefix: str, path: str) -> str:
    """Return a dotted path; either part may be empty."""
    return f"{prefix}.{path}" if prefix and path else prefix or path


def is_within(path: str, containers: Sequence[str]) -> bool:
    """Tell whether a path is one of the containers or lies inside one."""
    return f"{path}.".startswith(tuple([f"{container}." for container in containers]))


def listed(paths: Sequence[str], most: int = _SHOWN) -> str:
    """Return a list of names that is not too long for a message."""
    shown = ", ".join(repr(path) for path in paths[:most]) or "none"
    return shown + (f" and {len(paths) - most} more" if len(paths) > most else "")


def exchange(root: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put one module in the place of another, wherever it is registered."""
    for parent in list(root.modules()):
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)


def has_own_parameters(module: nn.Module) -> bool:
    """Tell whether a module has parameters that are its own, and not of a module within."""
    return next(module.parameters(recurse=False), None) is not None


def gathers_statistics(module: nn.Module, model: nn.Module) -> bool:
    """Tell whether a module gathers batch statistics in training; one in eval mode while the model trains does not."""
    return isinstance(module, _NormBase) and module.track_running_stats and (module.training or not model.training)


def is_norm(module: nn.Module) -> bool:
    """Tell whether a module normalizes, of torch or, by its name, of another library."""
    return isinstance(module, NORMS) or type(module).__name__.lower().endswith("norm")


def width_of(module: nn.Module) -> int | None:
    """Return the number of units in a module's output where its type tells, else None."""
    if isinstance(module, nn.RNNBase):
        return (module.proj_size or module.hidden_size) * (2 if module.bidirectional else 1)
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return module.normalized_shape[-1]
    if is_transposed_linear(module) or is_vector_norm(module):
        return next(module.parameters(recurse=False)).shape[-1]
    for name in _WIDTHS:
        value = getattr(module, name, None)
        # Lazy modules say 0 until they have seen a batch.
        if isinstance(module, CHANNELS + FEATURES) and isinstance(value, int) and value > 0:
            return value
    return None


def is_transposed_linear(module: nn.Module) -> bool:
    """Tell whether a module is the `Conv1D` of Hugging Face: a linear layer with its weight [inputs, outputs]."""
    weight = getattr(module, "weight", None)
    if type(module).__name__ != "Conv1D" or weight is None:
        return False
    return tuple(weight.shape[1:]) == (getattr(module, "nf", None),)


def is_vector_norm(module: nn.Module) -> bool:
    """Tell whether a module of another library normalizes as nn.RMSNorm does, one number per unit (LlamaRMSNorm)."""
    if not type(module).__name__.endswith("RMSNorm") or module._modules:
        return False
    own = list(module.parameters(recurse=False))
    return len(own) == 1 and own[0].dim() == 1


UNINITIALIZED = (
    "lazy modules whose weights have no shape yet. Run the model once on a batch, model(x), and give it then."
)


def compiled_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules that were compiled: they may not see a hook that comes later."""
    found = []
    for path, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            found.append(path or "(the model)")
    return found


def lazy_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules (nn.LazyLinear, …) whose parameters or statistics get their shapes by running."""
    found = []
    for path, module in model.named_modules():
        own: list[Any] = [*module._parameters.values(), *module._buffers.values()]
        if any(map(is_lazy, own)):
            found.append(path or "(the model)")
    return found


def quantized_in(model: nn.Module) -> list[str]:
    """Return the paths of all modules whose weights are packed into a few bits."""
    packed: list[str] = []
    for path, module in model.named_modules():
        # torch's own layers and those derived from them hold plain floating-point weights unless something packed them.
        weight = module._parameters.get("weight")
        integers = weight is not None and not is_lazy(weight) and not weight.is_floating_point()
        if (integers or "quantized" in type(module).__module__.split(".")) and not is_within(path, packed):
            packed.append(path)
    return packed


# Attention layers often hold an nn.Dropout just to read its `p`. Replacing such a module would change nothing but lose
# the mask. The class that owns it is looked at: the module counts as never called if the code of the class mentions the
# attribute, and only to read something from it.


def is_called(model: nn.Module, path: str) -> bool:
    """Return False where the owner's code only reads attributes of this module, else True."""
    parent_path, _, name = path.rpartition(".")
    parent = model.get_submodule(parent_path)
    mentions = [_mentions(owner, name) for owner in type(parent).__mro__ if owner not in (nn.Module, object)]
    used = any(whole for whole, _ in mentions)
    read = any(parts for _, parts in mentions)
    return used or not read


@lru_cache(maxsize=1024)
def _mentions(owner: type, name: str) -> tuple[bool, bool]:
    """Return whether a class uses `self.name` as a whole, and whether it reads an attribute of it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return True, False
    whole: set[int] = set()
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_self(node.value, name) and node.attr != "forward":
            inner.add(id(node.value))
        if _is_self(node, name) and isinstance(node.ctx, ast.Load):  # pyright: ignore[reportAttributeAccessIssue]
            whole.add(id(node))
    return not whole <= inner, bool(inner)


def _is_self(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


# What flows into what

_INPUTS: Callable[[fx.Node], Iterable[fx.Node]] = attrgetter("all_input_nodes")
_USERS: Callable[[fx.Node], Iterable[fx.Node]] = attrgetter("users")
_NEUTRAL = ("device", "dtype", "ndim")  # reading these of a tensor says nothing about its rows


# Names of modules and of functions, in lower case and without underscores: leaky_relu_ and LeakyReLU are leakyrelu.
_VERDICTS = {
    name: verdict
    for verdict, names in {
        "weights": """
            linear bilinear convnd conv1d conv2d conv3d convtranspose1d convtranspose2d convtranspose3d rnnbase
            rnncellbase multiheadattention transformer transformerencoder transformerdecoder transformerencoderlayer
            transformerdecoderlayer matmul mm bmm addmm einsum baddbmm scaleddotproductattention size dim shape
            getattr numel ndim
        """,
        "adds": "add iadd sub isub radd rsub",
        "breaks": """
            normbase batchnorm layernorm groupnorm instancenorm sigmoid logsigmoid softmax logsoftmax softmin
            softmax2d hardsigmoid softplus cosinesimilarity exp log cos
        """,
        "keeps": """
            turnoverdropout rmsnorm localresponsenorm normalize relu relu6 leakyrelu prelu rrelu elu selu celu gelu
            silu mish tanh hardtanh hardswish softsign tanhshrink softshrink hardshrink abs neg mul imul div truediv
            sqrt square identity flatten unflatten reshape view viewas transpose permute swapaxes t contiguous
            squeeze unsqueeze expand getitem cat concat concatenate stack chunk split mean sum amax amin max min
            dropout dropout1d dropout2d dropout3d upsample interpolate pixelshuffle fold unfold pad zeropad1d
            zeropad2d zeropad3d maxpool1d maxpool2d maxpool3d avgpool1d avgpool2d avgpool3d lppool1d lppool2d
            adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d adaptivemaxpool1d adaptivemaxpool2d
            adaptivemaxpool3d to float half bfloat16 clone detach typeas indexselect gather select narrow repeat
            movedim roll flip
        """,
    }.items()
    for name in names.split()
}


def zero_verdict(target: object) -> str | None:
    """Return what a module, function or method does to zero: "keeps", "breaks", "adds" (to something else), "weights".

    None: it is not known.
    """
    if not isinstance(target, nn.Module):
        return _VERDICTS.get(_name(target).replace("_", "").lower())
    for kind in type(target).__mro__:
        known = kind.__module__.startswith("torch.nn.") or kind is TurnOverDropout
        verdict = _VERDICTS.get(kind.__name__.replace("_", "").lower()) if known else None
        if verdict is not None:
            return verdict
    return None


# A trace replaces nn.Module.__call__ for all threads; of two at the same time, one would leave its own behind for good.
_tracing = threading.RLock()


class _Tracer(fx.Tracer):
    """Traces into everything but torch's own modules and some others; modules that other threads call just run."""

    def __init__(self, leaves: set[str]) -> None:
        super().__init__()
        self._leaves = leaves
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
        return module_qualified_name in self._leaves or super().is_leaf_module(m, module_qualified_name)


@dataclass(frozen=True)
class ZeroFlow:
    """The answer for one site."""

    keeps: bool | None  # None where the code cannot be traced
    reason: str = ""  # what breaks it, or why it is not known
    instead: str | None = None  # path of a later module that would be right, if there is one
    at_output: bool = False  # whether the units are outputs of the model


class Flow:
    """The code of a model with `sites`; `units` are modules that replicas would have for themselves."""

    def __init__(self, model: nn.Module, sites: Sequence[str], units: Sequence[str] = ()) -> None:
        self.model = model
        self.modules = dict(model.named_modules())
        self.sites = list(sites)
        self.units = list(units)
        self.learning: list[str] = []
        """The units with a parameter that learns."""
        for path in self.units:
            if True in [parameter.requires_grad for parameter in self.modules[path].parameters()]:
                self.learning.append(path)
        self._graphs: dict[str, fx.Graph | None] = {}
        graph = self._graph("", [*sites, *units])
        self._nodes: list[fx.Node] = [] if graph is None else list(graph.nodes)
        self._paths = {node: str(node.target) for node in self._nodes if node.op == "call_module"}
        self.traced = graph is not None
        called = list(dict.fromkeys(self._paths.values()))
        self.order = called if self.traced else list(self.modules)
        """The modules that are called, in their order; all as they are registered where the code cannot be traced."""

    def _graph(self, prefix: str, leaves: Sequence[str]) -> fx.Graph | None:
        """Return the graph of a module, with those below it of `leaves` as leaves; None: it cannot be traced."""
        if prefix not in self._graphs:
            module, start = self.modules[prefix], f"{prefix}." if prefix else ""
            inside = {path.removeprefix(start) for path in leaves if path.startswith(start)}
            modes = [(part, part.training) for part in module.modules()]
            try:
                with _tracing:
                    self._graphs[prefix] = _Tracer(inside).trace(module)
            except Exception:  # noqa: BLE001 - tracing runs the user's code with stand-ins; anything may come
                self._graphs[prefix] = None
            finally:
                for part, mode in modes:
                    part.training = mode
        return self._graphs[prefix]

    # What flows into what

    def first(self) -> str:
        """Return where replicas begin unless told: at what feeds the first site, or at that site if it is frozen."""
        called = [*filter(self.sites.__contains__, self.order), *self.sites]
        return next(iter(self.feeders(called[0])), called[0])

    def feeders(self, site: str) -> list[str]:
        """Return the units that learn and feed a site without passing another unit, in the order of the model."""
        feeding: set[str] = set()
        if site in self.units:
            feeding = {site}
        elif self.traced and site in self.order:
            own = self._calls(site)

            def step(node: fx.Node) -> Iterable[fx.Node]:
                return node.all_input_nodes if node in own or self._paths.get(node) not in self.units else ()

            for node in _reached(own, step):
                feeding.add(self._paths.get(node, ""))
        else:
            for path in self.modules:
                if path == site:
                    break
                feeding = {path} if path in self.units else feeding
        return list(filter(feeding.__contains__, self.learning))

    def from_split(self, start: str) -> tuple[tuple[str, ...], set[str]]:
        """Return the units that are replicated, and the sites that have masks for every replica."""
        paths = list(self.modules)
        behind = set(paths[paths.index(start) :])
        if self.traced:
            behind = (behind - self._closure(start, _INPUTS)) | self._closure(start, _USERS)
        return tuple(filter(behind.__contains__, self.learning)), behind.intersection(self.sites)

    def candidates(self) -> list[str]:
        """Return the modules at which the model could be split so that every site has masks for every replica."""
        found = []
        for path in filter(None, self.learning):
            units, sites = self.from_split(path)
            if len(sites) == len(self.sites) and self.entries({*units, *sites})[1] is None:
                found.append(path)
        return found

    def entries(self, expanding: Collection[str]) -> tuple[dict[str, bool], str | None]:
        """Return for replicated modules and sites whether the rows of the trunk reach them.

        And a place where rows of the trunk meet rows of replicas, in words; None if they never do, as far as is known.
        """
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
        return [node for node, called in self._paths.items() if is_within(called, [path])]

    def _closure(self, path: str, step: Callable[[fx.Node], Iterable[fx.Node]]) -> set[str]:
        own = self._calls(path)
        return {self._paths[node] for node in _reached(own, step) if node in self._paths and node not in own}

    def feeds_output_linear(self, path: str) -> bool:
        """Return whether a site feeds one nn.Linear and nothing else, which makes the model's output."""
        nodes = [node for node, called in self._paths.items() if called == path]
        if len(nodes) != 1 or len(nodes[0].users) != 1:
            return False
        (consumer,) = nodes[0].users
        linear = consumer.op == "call_module" and isinstance(self.model.get_submodule(str(consumer.target)), nn.Linear)
        return linear and [user.op for user in consumer.users] == ["output"]

    # Whether zero stays zero

    def zero(self, path: str) -> ZeroFlow:
        """Return for a site whether its zero stays zero up to the next weights."""
        parent, _, name = path.rpartition(".")
        # The code of torch's own transformer layers cannot be traced.
        if isinstance(self.model.get_submodule(parent), nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            inner = join(parent, "dropout")
            if name == "dropout":
                return ZeroFlow(True)
            if name in ("dropout1", "dropout2", "dropout3", "self_attn", "multihead_attn", "linear2"):
                return ZeroFlow(False, "its output is added to something else", inner)
        answer = ZeroFlow(None, "the forward pass cannot be traced")
        # From the whole model inwards: the larger the traced part, the further a unit can be followed.
        parts = path.split(".") if path else []
        for depth in range(len(parts)):
            prefix = ".".join(parts[:depth])
            graph = self._graph(prefix, self.sites)
            if graph is None:
                continue
            nodes = [n for n in graph.nodes if n.op == "call_module" and join(prefix, str(n.target)) == path]
            answer = ZeroFlow(True) if nodes else ZeroFlow(None, "the module is not called in the traced code")
            for node in nodes:
                of_call = self._follow(node, prefix)
                if of_call.keeps is False:
                    return replace(of_call, instead=self._instead(node, prefix))
                answer = answer if of_call.keeps else of_call
            if nodes:
                break
        return answer

    def _follow(self, start: fx.Node, prefix: str) -> ZeroFlow:
        """Return the worst answer over all ways from a node to the next weights."""
        unknown: ZeroFlow | None = None
        for node in _reached(start.users, lambda node: node.users if self._judge(node, prefix)[0] == "keeps" else ()):
            verdict, reason = self._judge(node, prefix)
            if verdict == "breaks":
                return ZeroFlow(False, reason)
            if verdict == "unknown":
                unknown = unknown or ZeroFlow(None, reason, at_output=node.op == "output" and not prefix)
        return unknown or ZeroFlow(True)

    def _judge(self, node: fx.Node, prefix: str) -> tuple[str, str]:
        """Return "keeps", "breaks", "weights" (the end of the way) or "unknown" for one step, and why."""
        if node.op == "output":
            outside = f"the code outside {prefix!r} cannot be traced"
            return "unknown", outside if prefix else "its units are outputs of the model"
        if node.op == "call_module":
            path = join(prefix, str(node.target))
            module = self.model.get_submodule(path)
            verdict, shown = zero_verdict(module), f"{type(module).__name__} {path!r}"
            if verdict is None and path in self.units and (inside := self._judge_inside(path)):
                return inside
        else:
            verdict, shown = zero_verdict(node.target), f"{_name(node.target)}()"
        if verdict is None:
            return "unknown", f"what {shown} does to zero is not known"
        if verdict == "adds":
            return "breaks", "its output is added to something else"
        return verdict, f"{shown} follows"

    def _judge_inside(self, unit: str) -> tuple[str, str] | None:
        """Return the verdict on a unit of the user's own, which the trace of the model does not look into."""
        graph = self._graph(unit, self.sites)
        if graph is None:
            return None
        worst = ("weights", "")
        inputs = [user for node in graph.nodes if node.op == "placeholder" for user in node.users]
        for node in _reached(inputs, lambda node: node.users if self._judge(node, unit)[0] == "keeps" else ()):
            if node.op == "output":
                worst = ("keeps", "")
            elif (verdict := self._judge(node, unit))[0] in ("breaks", "unknown"):
                return verdict
        return worst

    def _instead(self, start: fx.Node, prefix: str) -> str | None:
        """Return the first module further on from which zero would stay zero."""
        verdicts: dict[fx.Node, str | None] = {}
        for node in _reached(start.users, lambda node: () if verdicts.get(node) == "weights" else node.users):
            if node.op == "call_module":
                path = join(prefix, str(node.target))
                module = self.model.get_submodule(path)
                verdicts[node] = zero_verdict(module)
                candidate = verdicts[node] == "keeps" and not isinstance(module, nn.Flatten)
                if candidate and self._follow(node, prefix).keeps:
                    return path
        return None


def _reached(start: Iterable[fx.Node], step: Callable[[fx.Node], Iterable[fx.Node]]) -> Iterator[fx.Node]:
    """Yield these nodes and all that steps lead to, each once, the nearest first."""
    queue, seen = list(start), set[fx.Node]()
    while queue:
        node = queue.pop(0)
        if node not in seen:
            seen.add(node)
            yield node
            queue.extend(step(node))


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


def _name(target: object) -> str:
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return str(name)
