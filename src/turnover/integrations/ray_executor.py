"""`RayExecutor`: tiles on the nodes of a Ray cluster.

Models, data and the state of a block of queries are put into the object store, once per node; an item is a range of
instances or rows, and a task of Ray has as many of them as take half a second. Workers write tiles into the shared
folder by themselves; the driver counts them. A worker or node that is lost costs its running tasks: Ray runs these
again elsewhere.
"""

import logging
import os
import socket
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from copy import copy
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import ray
import torch
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, NodeDiedError, RayError, RayTaskError, TaskUnschedulableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from turnover._version import __version__
from turnover.errors import InfluenceError, TurnOverError, TurnOverWarning
from turnover.influence import UNPACKED, Bundles, Several, Shared, in_order, key_of, packed
from turnover.storage import open_folder

_TASKS_PER_SLOT = 3
_SECONDS_TO_CONNECT = 10
_SECONDS_TO_ANSWER = 600  # of a node whose first worker has to import torch, on a loaded machine
_MOST_RETRIES = 10
_KEPT = 4
_OF_A_PROCESS = 400 * 2**20  # Python with torch
_Node = dict[str, Any]
_given: dict[str, str | None] = {}
"""By the address that Ray has for a cluster: the one that it was reached by, which may name the host otherwise."""


class RayExecutor:
    """Computes tiles on a Ray cluster; give it as `Influence(..., executor=RayExecutor(address="auto"))`.

    Scores are the same, to the byte, as those of one process with as many threads as a task has.

    Args:
        address: of the cluster, "host:6379", "ray://host:10001" (needs ray[client]) or "auto"; None: the one that this
            process has connected to, else Ray's own default, which starts Ray on this machine.
        threads: threads of torch in each task; a node runs as many tasks as it has CPUs for.

    Raises:
        InfluenceError: the cluster cannot be reached.
    """

    def __init__(self, address: str | None = None, *, threads: int = 1) -> None:
        """Connect to the cluster."""
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise InfluenceError(f"RayExecutor(threads=) must be an integer >= 1, got {threads!r}.")
        if not isinstance(address, str | None):
            raise InfluenceError(
                f"RayExecutor(address=) must be a string, got {address!r}. Give 'host:6379', 'ray://host:10001' or "
                "'auto'."
            )
        self._threads = threads
        _connect(address)
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()  # by key: in the object store, bytes
        self._shared: tuple[Shared, ...] = ()
        self._task_memory = 0
        self._checked: set[str] = set()

    @property
    def threads(self) -> int:
        """Return how many threads of torch a task has."""
        return self._threads

    def sharing(self, objects: Sequence[Shared], *, memory: int) -> "RayExecutor":
        """Return the same executor with objects that many tasks hold, or raise where its nodes cannot work."""
        other = copy(self)
        other._shared = tuple(objects)
        # A task reads what is shared from the object store, and has it unpacked once.
        unpacked = sum(self._put(one)[1] for one in objects)
        other._task_memory = _OF_A_PROCESS + 2 * unpacked + memory
        other._check_nodes()
        return other

    def check_folder(self, folder: str) -> None:
        """Raise where a node cannot write to a folder, or sees another one under its name."""
        place, token = open_folder(folder), f".{uuid.uuid4().hex}.part"
        place.write(token, token.encode())
        wrong = []
        try:
            for node, answer in self._ask_nodes(self._nodes(), ray.remote(_answer_token), folder, token):
                name = f"{token[:-5]}.{node['NodeID']}.part"
                if answer is None and place.read(name) != node["NodeID"].encode():
                    answer = "what it wrote there cannot be seen here"
                if answer is not None:
                    wrong.append(f"{_name(node)}: {answer}")
                place.remove(name)
        finally:
            place.remove(token)
        if wrong:
            raise InfluenceError(
                f"the folder {folder!r} is not one that all nodes share:\n  " + "\n  ".join(wrong) + "\nGive out= a "
                "folder of a network drive that every node has under this path, or an object store: "
                "out='s3://bucket/folder'."
            )

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield `task(item)` for every item, in order; a task of Ray runs several."""
        data = packed(Several(task), self._shared, pickler=cloudpickle.Pickler)
        key = key_of(data)
        stored = {key: ray.put(np.frombuffer(data, np.uint8))}
        stored |= {one.key: self._put(one)[0] for one in self._shared}
        run = ray.remote(_run).options(
            num_cpus=self._threads, memory=self._task_memory, max_retries=_MOST_RETRIES, retry_exceptions=False
        )
        running: dict[Future[Any], Any] = {}

        def submit(bundle: list[Any]) -> "Future[Any]":
            content = packed(bundle, self._shared, pickler=cloudpickle.Pickler)
            reference = run.remote(key, content, stored, self._threads, _versions())
            future = reference.future()
            running[future] = reference
            future.add_done_callback(lambda done: running.pop(done, None))
            return future

        slots = sum(int(node["Resources"]["CPU"] // self._threads) for node in self._nodes())
        bundles = Bundles(items, max(slots, 1))
        try:
            yield from bundles.results(in_order(bundles, submit, window=_TASKS_PER_SLOT * max(slots, 1)))
        except RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, Exception) else error) from error
        except RayError as error:
            raise InfluenceError(
                f"the Ray cluster gave up on a task ({type(error).__name__}: {error}). What is finished is kept: with "
                "out=, the same call goes on there."
            ) from error
        finally:
            for reference in list(running.values()):
                ray.cancel(reference)

    def _put(self, one: Shared) -> tuple[Any, int]:
        """Return where a shared object is in the object store, and its bytes; it is put there once."""
        if one.key not in self._kept:
            while len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            data = packed(one.value, pickler=cloudpickle.Pickler)
            self._kept[one.key] = ray.put(np.frombuffer(data, np.uint8)), len(data)
        self._kept.move_to_end(one.key)
        return self._kept[one.key]

    # Nodes

    def _nodes(self) -> list[_Node]:
        """Return the nodes that can run a task."""
        return [
            node
            for node in ray.nodes()
            if node["Alive"]
            and node["Resources"].get("CPU", 0) >= self._threads
            and node["Resources"].get("memory", 0) >= self._task_memory
        ]

    def _check_nodes(self) -> None:
        """Raise where a node has other versions than this process, or no node can run a task."""
        able = self._nodes()
        ids = {node["NodeID"] for node in able}
        others = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in ids]
        small = [
            f"{_name(node)}: {node['Resources'].get('CPU', 0):g} CPUs, "
            f"{node['Resources'].get('memory', 0) / 2**30:.2f} GiB"
            for node in others
            if node["Resources"].get("CPU", 0) > 0  # a head node without any was not meant to work
        ]
        need = f"a task needs {self._threads} CPUs and {self._task_memory / 2**30:.2f} GiB"
        if not able:
            raise InfluenceError(
                f"no node of the Ray cluster can run a task: {need}.\n  "
                + "\n  ".join(small or ["it has no nodes"])
                + "\nStart Ray with more memory (ray start --memory=BYTES), or give less: Influence(memory=...)."
            )
        if small:
            warnings.warn(
                f"{need}; these nodes of the Ray cluster are left out: {'; '.join(small)}.",
                TurnOverWarning,
                stacklevel=6,
            )
        fresh = [node for node in able if node["NodeID"] not in self._checked]
        wrong = []
        for node, found in self._ask_nodes(fresh, ray.remote(_probe())):
            if isinstance(found, str):
                wrong.append(f"{_name(node)}: {found}")
                continue
            wrong += [
                f"{_name(node)} has {name} {found[name]}, this process {version}"
                for name, version in _versions().items()
                if found[name] != version
            ]
        if wrong:
            raise InfluenceError(
                "these nodes of the Ray cluster cannot work for this process:\n  "
                + "\n  ".join(wrong)
                + f"\nInstall the same everywhere: pip install 'turnover[ray]=={__version__}' "
                f"'torch=={torch.__version__.partition('+')[0]}'."
            )
        self._checked |= {node["NodeID"] for node in fresh}

    def _ask_nodes(self, nodes: Sequence[_Node], function: Any, *given: Any) -> list[tuple[_Node, Any]]:
        """Return what a function answers on each node, or in words why there is no answer.

        Nodes that have ended since they were listed are left out: a cluster notices that only after some seconds.
        """
        asked = []
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = function.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            asked.append((node, options.remote(*given, *([node["NodeID"]] if given else []))))
        answers = [(node, _answer(reference)) for node, reference in asked]
        return [(node, answer) for node, answer in answers if answer is not _ENDED]


def _connect(address: str | None) -> None:
    """Connect this process to a cluster, unless it is."""
    if ray.is_initialized():
        known = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", known, _given.get(known)):
            raise InfluenceError(
                f"this process is connected to the Ray cluster at {known}, not to {address}. Call ray.shutdown() first."
            )
        return
    try:
        _check_reachable(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise InfluenceError(
            f"cannot connect to a Ray cluster at {address or 'the default address'} ({error}). Start one: ray start "
            "--head on this machine, then ray start --address=HOST:6379 on the others; and give its address."
        ) from error
    _given[ray.get_runtime_context().gcs_address] = address


def _check_reachable(address: str | None) -> None:
    """Raise at once where nobody listens at an address: Ray itself would try for minutes."""
    if address in (None, "auto", "local"):
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.hostname is None or parts.port is None:
        raise ValueError("an address is host:port, ray://host:port or 'auto'")
    socket.create_connection((parts.hostname, parts.port), timeout=_SECONDS_TO_CONNECT).close()


def _versions() -> dict[str, str]:
    return {"turnover": __version__, "torch": torch.__version__}


def _name(node: _Node) -> str:
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:8]})"


_ENDED = object()


def _answer(reference: Any) -> Any:
    try:
        return ray.get(reference, timeout=_SECONDS_TO_ANSWER)
    except (TaskUnschedulableError, NodeDiedError):
        return _ENDED
    except GetTimeoutError:
        return f"no answer within {_SECONDS_TO_ANSWER} seconds"
    except RayError as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"


def _probe() -> Callable[[], Any]:
    """Return what tells about a node; it travels as code, since turnover may be missing there."""

    def probe() -> Any:
        try:
            import torch

            from turnover._version import __version__
        except ImportError as error:
            return f"turnover cannot be imported there ({error})"
        return {"turnover": __version__, "torch": torch.__version__}

    return probe


def _answer_token(folder: str, token: str, node: str) -> str | None:
    """Return in words what is wrong with a folder on this node; leave an answer in it where nothing is."""
    try:
        place = open_folder(folder)
        if place.read(token) != token.encode():
            return "what was just written there cannot be seen"
        place.write(f"{token[:-5]}.{node}.part", node.encode())
    except (OSError, TurnOverError) as error:
        return str(error)
    return None


def _run(key: str, item: bytes, stored: dict[str, Any], threads: int, versions: dict[str, str]) -> Any:
    """Run some items in a worker; also of a node that has joined since the others were looked at."""
    if versions != _versions():
        raise InfluenceError(
            f"a worker on {socket.gethostname()} (pid {os.getpid()}) has {_versions()}, the driver {versions}. Install "
            "the same versions on all nodes."
        )
    return UNPACKED.run(key, item, lambda name: ray.get(stored[name]), threads=threads)
