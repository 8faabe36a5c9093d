"""The engine against the authors' loop: 100 repeated inputs per batch, one pass per view, on the plain model.

The loop has no masks at all, so slow masks cannot flatter the ratio. Pairs of null ids, which the engine scores
for its offsets and standard errors, count as pairs: they are work that was asked for.
"""

import time
import warnings
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.influence import NULL_IDS
from turnover.layers import masking_of
from turnover_bench.experiments.networks import VGG19, vgg_sites
from turnover_bench.experiments.timing import seconds

_LOOP_BATCH = 100
wall_seconds = partial(seconds, clock=time.perf_counter)


class Encoder(nn.Module):
    """A 6-layer BERT-sized encoder with a classifier, written out so that every part is a module."""

    def __init__(self, width: int = 384, heads: int = 12, classes: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.pooled = nn.Identity()
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pooled(self.encoder(x)[:, 0]))


def _trained(model: nn.Module, at: object) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = turnover.wrap(model, at=at)
    masking_of(wrapped).learned.passes = 1
    return wrapped.eval()


def _loop_seconds_per_pair(model: nn.Module, x: Tensor, y: Tensor, rounds: int) -> float:
    """Return what one pair costs in the loop: two passes of the plain model over repeated inputs."""
    model.eval()
    inputs = x[:1].repeat(_LOOP_BATCH, *[1] * (x.dim() - 1))
    targets = y[:1].repeat(_LOOP_BATCH)

    def once() -> None:
        with torch.no_grad():
            for _ in range(2):
                functional.cross_entropy(model(inputs), targets, reduction="none")

    once()
    return min(wall_seconds(once) for _ in range(rounds)) / _LOOP_BATCH


def compare(
    name: str, plain: nn.Module, at: object, x: Tensor, y: Tensor, ids: int, *, goal: float, rounds: int
) -> None:
    """Print the ratio of the loop's time per pair to the engine's, measured in turns."""
    inf = turnover.Influence(_trained(plain, at))
    ours, loop, path = [], [], ""
    for _ in range(3):
        loop.append(_loop_seconds_per_pair(plain, x, y, rounds))
        start = time.perf_counter()
        path = inf.pairwise((x, y), ids=range(ids), progress=False).path
        ours.append((time.perf_counter() - start) / ((ids + NULL_IDS) * len(x)))
    ratio = sorted(a / b for a, b in zip(loop, ours, strict=True))[1]
    print(
        f"  {name:<44} {ratio:8.1f}x  goal >= {goal:g}x  ({min(loop) * 1e6:.0f} against {min(ours) * 1e6:.2f} µs per "
        f"pair; {path})",
        flush=True,
    )


def _peak_share() -> None:
    """Print which share of this machine's measured matrix-product peak the last-layer path reaches."""
    width, queries, classes, ids = 768, 100, 10, 100_000
    net = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, classes))
    inf = turnover.Influence(_trained(net, ["1"]))
    data = torch.randn(queries, 32), torch.randint(classes, (queries,))
    a, b = torch.randn(4096, width), torch.randn(width, queries * classes)
    a @ b
    shares = []
    for _ in range(3):
        product = min(wall_seconds(lambda: a @ b) for _ in range(5)) / 4096
        spent = wall_seconds(lambda: inf.pairwise(data, ids=range(ids), progress=False)) / (ids + NULL_IDS)
        shares.append(product / spent)
    print(f"  last layer: share of the measured matrix-product peak {sorted(shares)[1]:.0%}  goal >= 60%", flush=True)


def _growth(name: str, at: list[str]) -> None:
    """Print how the cost of a pair changes from 10^4 to 10^6 instances."""
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    inf = turnover.Influence(_trained(net, at))
    data = torch.randn(4, 784), torch.zeros(4, dtype=torch.int64)
    inf.mean(data, ids=torch.arange(5000), progress=False)
    costs = {}
    for count in (10_000, 100_000, 1_000_000):
        tries = 3 if count < 100_000 else 1
        ids = torch.arange(count)
        spent = min(wall_seconds(lambda ids=ids: inf.mean(data, ids=ids, progress=False)) for _ in range(tries))
        costs[count] = spent / (count + NULL_IDS)  # the same queries for all
    base = costs[10_000]
    shown = ", ".join(f"{count:,}: {cost / base:.2f}" for count, cost in costs.items())
    print(f"  cost of a pair, {name}, relative to 10^4 instances: {shown}  goal 0.8 to 1.2", flush=True)


def main() -> None:
    """Print the ratios."""
    print("engine against the authors' loop on the unwrapped model, time per pair")
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.randn(4, 784), torch.tensor([0, 1, 2, 3])
    compare("MLP 784-512-512-10, two sites", mlp, ["1", "3"], x, y, 20_000, goal=3, rounds=20)
    vgg, image, label = VGG19(), torch.randn(1, 3, 32, 32), torch.tensor([3])
    compare("VGG19, the paper's sites", vgg, vgg_sites(), image, label, 1000, goal=4, rounds=2)
    flat = {"classifier_input": "features"}
    compare("VGG19, the classifier's input only", vgg, flat, image, label, 20_000, goal=20, rounds=2)
    encoder, tokens = Encoder(), torch.randn(1, 32, 384)
    sites = ["encoder.layers.4.linear2", "encoder.layers.5.linear2"]
    compare("6-layer encoder, last two feed-forward outs", encoder, sites, tokens, label % 2, 1000, goal=4, rounds=2)
    wide, many = Encoder(768, 12, 10), torch.randn(100, 32, 768)
    labels = torch.randint(10, (100,))
    compare("last layer behind a 6-layer encoder", wide, ["pooled"], many, labels, 100_000, goal=100, rounds=1)
    _peak_share()
    _growth("MLP with two sites", ["1", "3"])
    _growth("last layer", ["3"])


if __name__ == "__main__":
    main()
