"""Training with eight replicas against training with one, on the digits network."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover_bench.experiments.timing import ratio

REPLICAS = 8


def _model(replicas: int) -> nn.Module:
    hidden = [nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return turnover.wrap(nn.Sequential(*hidden, nn.Linear(512, 10)), at=["1", "3"], replicas=replicas).train()


def _step(replicas: int, optimizer: Callable[..., torch.optim.Optimizer], x: Tensor, y: Tensor) -> Callable[[], None]:
    model = _model(replicas)
    steps = optimizer(model.parameters())
    ids = torch.arange(len(x))

    def run() -> None:
        with turnover.instances(ids) as now:
            loss = functional.cross_entropy(model(x), now.repeat(y))
        steps.zero_grad()
        loss.backward()
        steps.step()

    return run


def main() -> None:
    """Print the ratios."""
    print(f"training step with {REPLICAS} replicas against one, MLP 64-512-512-10, two sites (goal <= 4)")
    optimizers = {
        "Adam, fused": partial(torch.optim.Adam, lr=1e-3, fused=True),
        "Adam": partial(torch.optim.Adam, lr=1e-3),
        "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    }
    for rows in (32, 64, 256):
        x, y = torch.randn(rows, 64), torch.randint(10, (rows,))
        for name, optimizer in optimizers.items():
            runs = _step(REPLICAS, optimizer, x, y), _step(1, optimizer, x, y)
            print(f"  batch {rows:>4}, {name:<18} {ratio(*runs, rounds=41)}", flush=True)


if __name__ == "__main__":
    main()
