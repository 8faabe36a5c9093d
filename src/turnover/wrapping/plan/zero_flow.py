"""Does zero stay zero from a site up to the next weights?

A mask hides a unit only where its zero reaches the next weights as a zero. ReLU, GELU, tanh and pooling keep it;
BatchNorm, LayerNorm, sigmoid, softmax and additions do not: they hand the next weights a value, and with it a
gradient, for every dropped unit. The question is answered on a symbolic trace (torch.fx) of the model, or of the
largest enclosing module that can be traced.
"""

from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from .zero_table import BREAKS, KEEPS, WEIGHTS, function_verdict

OUTPUTS = "its units are outputs of the model"


@dataclass(frozen=True)
class ZeroFlow:
    """The answer for one site.

    Attributes:
        keeps: True or False; None where the code cannot be traced.
        reason: what breaks it, or why it is not known.
        instead: path of a later module that would be right, if there is one.
    """

    keeps: bool | None
    reason: str = ""
    instead: str | None = None


def zero_flows(model: nn.Module, paths: list[str]) -> dict[str, ZeroFlow]:
    """Return for every site path whether zero stays zero up to the next weights."""
    traces: dict[str, fx.Graph | None] = {}
    return {path: _flow(model, path, paths, traces) for path in paths}


def feeds_output_linear(model: nn.Module, path: str) -> bool:
    """Return whether a site's output goes into one nn.Linear and nowhere else, and that makes the model's output."""
    graph = trace(model, "", [path])
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
            traces[prefix] = trace(model.get_submodule(prefix), prefix, sites)
        graph = traces[prefix]
        if graph is None:
            continue
        nodes = [node for node in graph.nodes if node.op == "call_module" and _full(prefix, node) == path]
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


class _SiteTracer(fx.Tracer):
    """Traces into everything but torch's own modules and the sites."""

    def __init__(self, sites: set[str]) -> None:
        super().__init__()
        self._sites = sites

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self._sites or super().is_leaf_module(m, module_qualified_name)


def trace(module: nn.Module, prefix: str, sites: list[str]) -> fx.Graph | None:
    """Return the graph of a module, with the sites below it as leaves; None where its code cannot be traced."""
    start = f"{prefix}." if prefix else ""
    inside = {path[len(start) :] for path in sites if path.startswith(start)}
    modes = [(m, m.training) for m in module.modules()]
    try:
        return _SiteTracer(inside).trace(module)
    except Exception:  # noqa: BLE001 - tracing runs the user's code with stand-ins; anything may come
        return None
    finally:
        for m, mode in modes:
            m.training = mode


def _full(prefix: str, node: fx.Node) -> str:
    return f"{prefix}.{node.target}" if prefix else str(node.target)


class _Walk:
    """Follows a value through a traced graph."""

    def __init__(self, model: nn.Module, prefix: str) -> None:
        self._model = model
        self._prefix = prefix

    def from_site(self, nodes: list[fx.Node]) -> ZeroFlow:
        flow = ZeroFlow(True)
        for node in nodes:
            found = self._follow(node)
            if found.keeps is False:
                return ZeroFlow(False, found.reason, self._instead(node))
            if found.keeps is None:
                flow = found
        return flow

    def _follow(self, start: fx.Node) -> ZeroFlow:
        """Return the worst answer over all ways from a node to the next weights."""
        queue, seen = list(start.users), {start}
        unknown: ZeroFlow | None = None
        while queue:
            node = queue.pop(0)
            if node in seen:
                continue
            seen.add(node)
            verdict, reason = self._judge(node)
            if verdict == "breaks":
                return ZeroFlow(False, reason)
            if verdict == "unknown":
                unknown = unknown or ZeroFlow(None, reason)
            elif verdict == "keeps":
                queue.extend(node.users)
        return unknown or ZeroFlow(True)

    def _judge(self, node: fx.Node) -> tuple[str, str]:
        """Return "keeps", "breaks", "weights" or "unknown" for one step, and why."""
        if node.op == "output":
            if self._prefix:
                return "unknown", f"the code outside {self._prefix!r} cannot be traced"
            return "unknown", OUTPUTS
        if node.op == "call_module":
            module, path = (
                self._model.get_submodule(_full(self._prefix, node)),
                _full(self._prefix, node),
            )
            for verdict, kinds in (("weights", WEIGHTS), ("breaks", BREAKS), ("keeps", KEEPS)):
                if isinstance(module, kinds):
                    return verdict, f"{type(module).__name__} {path!r} follows"
            return "unknown", f"what {type(module).__name__} {path!r} does to zero is not known"
        return function_verdict(_name(node.target))

    def _instead(self, start: fx.Node) -> str | None:
        """Return the first module further on from which zero would stay zero."""
        queue, seen = list(start.users), {start}
        while queue:
            node = queue.pop(0)
            if node in seen:
                continue
            seen.add(node)
            if node.op == "call_module":
                path = _full(self._prefix, node)
                module = self._model.get_submodule(path)
                if isinstance(module, WEIGHTS):
                    continue
                if isinstance(module, KEEPS) and not isinstance(module, nn.Flatten) and self._follow(node).keeps:
                    return path
            queue.extend(node.users)
        return None


def _name(target: Any) -> str:
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return str(name)
