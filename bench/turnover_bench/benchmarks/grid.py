"""Jobs of every size against the authors' loop: ratios over numbers of ids and of queries; none may be below 1.

The loop is what one writes without the engine: 100 repeated inputs per batch, `turnover.instances(ids, view=...)`
around two passes, query after query, no null ids. The engine is new for every question and scores null ids besides.
What earlier questions to the same model left behind is there: the weights' checksum, and for few pairs the path, packed
weights and the mask words of the same ids. What first questions take is printed by itself, with the checksum and
without. Both are timed in turns, in processor seconds of one thread, and the least of each counts: other work on the
machine is nobody's.

Cells that would take long are not run. They are marked ~ and multiplied from one job of a single query: the loop's by
the number of pairs, the engine's by the number of pairs with those of null ids, fixed costs and all.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.influence import NULL_IDS, Member
from turnover.layers import masking_of
from turnover_bench.experiments.networks import ResidualNetwork, residual_sites
from turnover_bench.experiments.timing import one_thread, seconds

IDS = (10, 100, 1_000, 10_000, 100_000)
QUERIES = (1, 10, 100)
_LOOP_BATCH = 100
_PATIENCE = 1.0  # processor seconds of the loop, beyond which a cell is multiplied from a sample
_SAMPLED_PAIRS = 1_200  # more than what passes for a small job, which is always run
_ROUNDS, _MOST_SECONDS = 5, 2.0
_ASKED_BEFORE = 1_000  # pairs of an earlier question, after which the path of few pairs is known


@dataclass(frozen=True)
class Case:
    """A model with masks, and queries for it."""

    name: str
    model: nn.Module
    inputs: dict[str, Tensor]
    labels: Tensor

    def queries(self, count: int) -> Any:
        """Return the first queries, as users give them."""
        if "x" in self.inputs:
            return self.inputs["x"][:count], self.labels[:count]
        return {**{name: value[:count] for name, value in self.inputs.items()}, "labels": self.labels[:count]}


def masked(model: nn.Module, **options: Any) -> nn.Module:
    """Return a model with masks that passes for trained: speed does not depend on what was learned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = turnover.wrap(model, **options)
    masking_of(wrapped).learned.passes = 1
    return wrapped.eval()


def bert(*, layers: int = 4, width: int = 256) -> nn.Module:
    """Return a Hugging Face BERT with random weights and masked adapters in every block."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes: dict[str, Any] = {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 4 * width}
    sizes |= {"num_attention_heads": width // 64, "vocab_size": 1000, "num_labels": 2}
    return masked(BertForSequenceClassification(BertConfig(**sizes)), adapters=64)


def cases() -> Iterator[Case]:
    """Yield the three models."""
    torch.manual_seed(0)
    most = max(QUERIES)
    mlp = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    classes = torch.randint(10, (most,))
    yield Case("MLP 784-512-512-10", masked(mlp, at=["1", "3"]), {"x": torch.randn(most, 784)}, classes)
    cnn = ResidualNetwork(blocks=1)
    images = {"x": torch.randn(most, 3, 32, 32)}
    yield Case("residual CNN, 7 convolutions", masked(cnn, at=residual_sites(cnn)), images, classes)
    tokens = {"input_ids": torch.randint(1000, (most, 32))}
    yield Case("BERT, 4 blocks of 256, 32 tokens, adapters", bert(), tokens, classes % 2)


@torch.no_grad()
def loop(case: Case, ids: int, queries: int) -> None:
    """Score all pairs as the authors do."""
    for place in range(queries):
        for start in range(0, ids, _LOOP_BATCH):
            part = torch.arange(start, min(start + _LOOP_BATCH, ids))
            inputs = [value[place : place + 1].expand(len(part), *value.shape[1:]) for value in case.inputs.values()]
            targets = case.labels[place].expand(len(part))
            losses = {}
            for view in ("keep", "flip"):
                with turnover.instances(part, view=view):
                    outputs = case.model(*[one.contiguous() for one in inputs])
                logits = outputs if isinstance(outputs, Tensor) else outputs.logits
                losses[view] = functional.cross_entropy(logits, targets, reduction="none")
            _ = losses["flip"] - losses["keep"]


@dataclass(frozen=True)
class Cell:
    """What a job took: processor seconds of the loop and of the engine, and how many null ids the engine scored."""

    loop: float
    engine: float
    nulls: int
    sampled: bool = False

    @property
    def ratio(self) -> float:
        return self.loop / self.engine

    def __str__(self) -> str:
        return f"{'~' if self.sampled else ''}{self.ratio:.2f} ({self.nulls:,})"

    def multiplied(self, pairs: int, ids: int) -> "Cell":
        """Return a larger job in proportion, where this one was of a single query and so many ids."""
        known = _SAMPLED_PAIRS
        nulls = round(min(NULL_IDS, self.nulls * ids / known))
        all_pairs = pairs * (1 + nulls / ids)
        return Cell(self.loop * pairs / known, self.engine * all_pairs / (known + self.nulls), nulls, sampled=True)


def measure(case: Case, ids: int, queries: int) -> Cell:
    """Return what a job takes, the loop and the engine in turns."""
    asked, loops, engines, nulls = case.queries(queries), [], [], 0
    stop = time.process_time() + _MOST_SECONDS
    while len(loops) < _ROUNDS and (len(loops) < 2 or time.process_time() < stop):
        loops.append(seconds(lambda: loop(case, ids, queries)))
        ask = turnover.Influence(case.model)
        start = time.process_time()
        null = ask.pairwise(asked, ids=range(ids), progress=False).null
        engines.append(time.process_time() - start)
        nulls = 0 if null is None else len(null)
    return Cell(min(loops), min(engines), nulls)


def measure_first(case: Case, ids: int, queries: int) -> tuple[Cell, float]:
    """Return what the first question to a model takes, and what of it is the checksum of the weights.

    A copy of the model is asked each time, and so is the loop: both are the first to use it.
    """
    loops, engines, checksums = [], [], []
    for _ in range(_ROUNDS):
        copy = replace(case, model=deepcopy(case.model))
        loops.append(seconds(lambda copy=copy: loop(copy, ids, queries)))
        ask, asked = turnover.Influence(deepcopy(case.model)), case.queries(queries)
        engines.append(seconds(lambda ask=ask, asked=asked: ask.pairwise(asked, ids=range(ids), progress=False)))
        checksums.append(seconds(Member(deepcopy(case.model)).digest))
    return Cell(min(loops), min(engines), 0), min(checksums)


def row(case: Case, ids: int, sample: Cell) -> list[Cell]:
    """Return the cells of one model and number of ids; what would take long is multiplied from a sample."""
    per_pair = sample.loop / _SAMPLED_PAIRS
    return [
        measure(case, ids, queries)
        if ids * queries < _SAMPLED_PAIRS or ids * queries * per_pair < _PATIENCE
        else sample.multiplied(ids * queries, ids)
        for queries in QUERIES
    ]


def growth(name: str, at: list[str], counts: tuple[int, ...]) -> None:
    """Print how the cost of a pair changes up to many instances; `top` holds a tile of them at a time."""
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    ask = turnover.Influence(masked(net, at=at))
    data = torch.randn(4, 784), torch.zeros(4, dtype=torch.int64)
    costs = {}
    for count in counts:
        ids = torch.arange(count)
        tries = 3 if count < 100_000 else 1
        spent = min(seconds(lambda ids=ids: ask.top(data, ids=ids, progress=False)) for _ in range(tries))
        costs[count] = spent / (count * len(data[0]))
    base = costs[counts[0]]
    shown = ", ".join(f"{count:,}: {cost / base:.2f}" for count, cost in costs.items())
    print(
        f"  cost of a pair, {name}, relative to {counts[0]:,} ids ({base * 1e6:.2f} µs): {shown}  goal <= 1.2",
        flush=True,
    )


def main() -> None:
    """Print the tables; --big adds the growth of costs to 10^7 ids."""
    print("ratio of the loop's seconds to the engine's, null ids included (their number in brackets); goal >= 1")
    with one_thread():
        for case in cases():
            print(f"  {case.name}; ids by queries")
            print("    " + f"{'':>9}" + "".join(f"{queries:>16,}" for queries in QUERIES), flush=True)
            turnover.Influence(case.model).pairwise(case.queries(1), ids=range(_ASKED_BEFORE), progress=False)
            sample, cells = measure(case, _SAMPLED_PAIRS, 1), []
            for ids in IDS:
                found = row(case, ids, sample)
                print("    " + f"{ids:>9,}" + "".join(f"{cell!s:>16}" for cell in found), flush=True)
                cells += found
            shown = []
            for ids, queries in ((10, 1), (100, 1), (10, 10)):
                first, checksum = measure_first(case, ids, queries)
                without = first.loop / (first.engine - checksum)
                shown.append(f"{ids} x {queries} {first.ratio:.2f} ({without:.2f})")
            print(f"    the first question to a model (without the weights' checksum): {', '.join(shown)}", flush=True)
            least = min(cells, key=lambda cell: cell.ratio)
            print(f"    least {least}: {least.loop * 1e3:.2f} ms against {least.engine * 1e3:.2f} ms", flush=True)
        big = (10_000_000,) if "--big" in sys.argv else ()
        growth("last layer", ["3"], (10_000, 100_000, 1_000_000, *big))
        growth("MLP with two sites", ["1", "3"], (10_000, 100_000))


if __name__ == "__main__":
    main()
