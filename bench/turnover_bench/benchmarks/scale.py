"""Cost at scale, one thread: points of growing size, each foretold from the smaller ones, and what they say of more.

The cost model has three rates for each path: processor seconds per question, per row (its own passes) and per pair of
row and query. They are fitted on the smaller points; the largest point of each path is left out of that fit and shows
how good it is. Memory is what a question adds to the process beside data and network.

    python -m turnover_bench.benchmarks scale            points up to 10^6, minutes
    python -m turnover_bench.benchmarks scale --big  10^7 ids, 10^6 rows: hours
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from turnover.layers import masking_of
from turnover_bench.experiments.timing import one_thread

from .faithfulness.trainings import Cost

_WIDE = 784
_TOLD = (10**6, 10**8, 10**9)
_TOLD_QUERIES = 1000
Question = Callable[[turnover.Influence, tuple[Tensor, Tensor], Tensor], object]


@dataclass(frozen=True)
class Path:
    """A way to the answer of one question, with the sizes (rows, queries) at which it is measured, the largest last."""

    name: str
    ask: Question
    at: tuple[str, ...]  # masked modules; none: a finished network
    replicas: int
    sizes: tuple[tuple[int, int], ...]
    largest: tuple[int, int]
    needs_rows: bool = False


@dataclass(frozen=True)
class Point:
    """What one question cost."""

    rows: int
    queries: int
    seconds: float  # of the processor
    wall: float
    peak_bytes: int


def _top(influence: turnover.Influence, queries: tuple[Tensor, Tensor], ids: Tensor) -> object:
    return influence.top(queries, k=10, ids=ids, progress=False)


def _mean(influence: turnover.Influence, queries: tuple[Tensor, Tensor], ids: Tensor) -> object:
    return influence.mean(queries, ids=ids, progress=False)


_SMALL = ((10**4, 10), (10**4, 100), (10**5, 10), (10**5, 100))
_ROWS = ((3000, 100), (10**4, 10), (10**4, 100), (10**4, 1000))
PATHS = (
    Path("tod, last layer: top(10)", _top, ("3",), 1, (*_SMALL, (10**6, 10)), (10**7, 10)),
    Path("tod, broadcast at the first site: top(10)", _top, ("1", "3"), 1, _SMALL[:3], (10**6, 10)),
    Path("curvature, one network: top(10)", _top, (), 1, (*_ROWS, (10**5, 100)), (10**6, 100), needs_rows=True),
    Path("curvature, one network: mean", _mean, (), 1, (*_ROWS, (10**5, 100)), (10**6, 100), needs_rows=True),
    Path("curvature, 8 replicas: top(10)", _top, ("1", "3"), 8, _ROWS, (10**5, 100), needs_rows=True),
)


def _network(path: Path) -> nn.Module:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(_WIDE, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    if not path.at:
        return plain.eval()
    wrapped = turnover.wrap(plain, at=list(path.at), replicas=path.replicas)
    masking_of(wrapped).learned.passes = 1
    return wrapped.eval()


def _data(rows: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(rows)
    x = torch.empty(rows, _WIDE)
    for part in x.split(10_000):
        part.normal_(generator=random)
    return x, torch.randint(10, (rows,), generator=random)


def measure(path: Path, rows: int, queries: int) -> Point:
    """Return the cost of the path's question about so many rows and queries."""
    ids = torch.arange(rows)
    train = (*_data(rows), ids) if path.needs_rows else None
    if train is not None and not path.at:
        train = train[:2]
    influence = turnover.Influence(_network(path), train=train)
    asked = _data(queries)
    began = time.perf_counter()
    with Cost() as cost, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network was not trained: no temperature, no signal
        path.ask(influence, asked, ids)
    return Point(rows, queries, cost.seconds, time.perf_counter() - began, cost.peak_bytes or 0)


def rates(points: list[Point]) -> np.ndarray:
    """Return processor seconds per question, per row and per pair, none below 0, with the least relative error.

    Example:
        >>> sizes = ((10, 1), (10, 100), (100, 10), (1000, 1))
        >>> rates([Point(n, q, 0.5 + 1e-3 * n + 1e-5 * n * q, 0, 0) for n, q in sizes]).round(6).tolist()
        [0.5, 0.001, 1e-05]
    """
    from scipy.optimize import nnls

    sizes = np.array([_terms(point.rows, point.queries) for point in points])
    return nnls(sizes / np.array([point.seconds for point in points])[:, None], np.ones(len(points)))[0]


def _terms(rows: int, queries: int) -> tuple[float, float, float]:
    return 1.0, float(rows), float(rows * queries)


def _foretold(per: np.ndarray, rows: int, queries: int) -> float:
    return float(per @ _terms(rows, queries))


def _lines(path: Path, *, big: bool) -> Iterator[str]:
    points = []
    for rows, queries in path.sizes:
        points.append(measure(path, rows, queries))
        yield _line(points[-1])
    *smaller, last = points
    if big:
        smaller, last = points, measure(path, *path.largest)
        yield _line(last)
    per = rates(smaller)
    told = _foretold(per, last.rows, last.queries)
    yield f"the last of them foretold by the others: {told:,.1f} s, {told / last.seconds:.2f} of the truth"
    per = rates([*smaller, last])
    yield f"{per[0]:.1f} s + {per[1] * 1e6:.2f} µs per row + {per[2] * 1e9:,.1f} ns per pair of row and query"
    for rows in _TOLD:
        hours = _foretold(per, rows, _TOLD_QUERIES) / 3600
        yield f"{rows:>13,} rows × {_TOLD_QUERIES:,} queries: {hours:,.1f} core hours"


def _line(point: Point) -> str:
    return (
        f"{point.rows:>13,} rows × {point.queries:,} queries: {point.seconds:,.1f} processor seconds, "
        f"{point.wall:,.1f} s, {point.peak_bytes / 2**20:,.0f} MiB"
    )


def main() -> None:
    """Print points and rates of all paths."""
    big = "--big" in sys.argv
    only = [name for name in sys.argv[1:] if name.startswith("--path=")]
    print("cost at scale, MLP 784-512-512-10, one thread", flush=True)
    chosen = [path for path in PATHS if not only or any(path.name.startswith(name[7:]) for name in only)]
    show = partial(print, flush=True)
    with one_thread():
        for path in chosen:
            show(f"  {path.name}")
            for line in _lines(path, big=big):
                show(f"    {line}")


if __name__ == "__main__":
    main()
