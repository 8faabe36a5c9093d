"""What flows into what in a traced forward pass, for splitting a model into trunk and replicas."""

from collections.abc import Callable, Collection, Sequence

from torch import fx, nn

from turnover.wrapping.plan.zero_flow import trace

# Reading these of a tensor says nothing about its rows.
_NEUTRAL = ("device", "dtype", "ndim")


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
        queue = [before for node in self._calls(path) for before in node.all_input_nodes]
        seen: set[fx.Node] = set()
        found: list[str] = []
        while queue:
            node = queue.pop(0)
            if node in seen:
                continue
            seen.add(node)
            if self._paths.get(node) in units:
                found.append(self._paths[node])
            else:
                queue.extend(node.all_input_nodes)
        return found

    def before(self, path: str) -> set[str]:
        """Return the modules that a module's input depends on."""
        return self._closure(path, lambda node: node.all_input_nodes)

    def behind(self, path: str) -> set[str]:
        """Return the modules that a module's output flows into."""
        return self._closure(path, lambda node: list(node.users))

    def mixes(self, replicated: Collection[str], sites: Collection[str]) -> str | None:
        """Return a place where rows of the trunk meet rows of replicas, in words; None if they never do."""
        return self._grow({*replicated, *sites})[1]

    def entries(self, replicated: Collection[str], sites: Collection[str]) -> dict[str, bool]:
        """Return for every replicated module and site whether the rows of the trunk reach it."""
        return self._grow({*replicated, *sites})[0]

    def _grow(self, growers: Collection[str]) -> tuple[dict[str, bool], str | None]:
        grown: set[fx.Node] = set()
        rows: set[fx.Node] = set()
        entries: dict[str, bool] = {}
        mixed: str | None = None
        for node in self._nodes:
            path = self._paths.get(node)
            inputs = set(node.all_input_nodes)
            if path in growers:
                entries.setdefault(str(path), not inputs & grown)
                grown.add(node)
            elif inputs & grown:
                grown.add(node)
                if inputs & rows:
                    mixed = mixed or (f"{path!r}" if path else f"{_name(node)}(...)")
            elif node.op == "placeholder" or (inputs & rows and not _neutral(node)):
                rows.add(node)
        return entries, mixed

    def _calls(self, path: str) -> list[fx.Node]:
        inside = f"{path}."
        return [node for node, found in self._paths.items() if found == path or found.startswith(inside)]

    def _closure(self, path: str, step: Callable[[fx.Node], list[fx.Node]]) -> set[str]:
        queue = list(self._calls(path))
        seen: set[fx.Node] = set()
        while queue:
            node = queue.pop()
            if node not in seen:
                seen.add(node)
                queue.extend(step(node))
        own = set(self._calls(path))
        return {self._paths[node] for node in seen - own if node in self._paths}


def flow_of(model: nn.Module, leaves: Sequence[str]) -> Flow | None:
    """Return the flow of a model with these modules as leaves, or None where its code cannot be traced."""
    graph = trace(model, "", list(leaves))
    return None if graph is None else Flow(graph)


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def _neutral(node: fx.Node) -> bool:
    """Tell whether a node reads something of a tensor that does not depend on its rows."""
    name = _name(node)
    if name == "getattr":
        return node.args[1] in _NEUTRAL
    if name == "getitem":  # x.shape[1]
        whole = node.args[0]
        is_shape = isinstance(whole, fx.Node) and (_name(whole) == "size" or _name(whole) == "getattr")
        return is_shape and bool(node.args[1] != 0)
    return name == "size" and len(node.args) > 1 and bool(node.args[1] != 0)
