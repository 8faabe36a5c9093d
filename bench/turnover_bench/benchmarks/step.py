"""A whole training step against the same model with nn.Dropout in the same places."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover_bench.experiments.timing import ratio


class Encoder(nn.Module):
    """Six transformer layers with one dropout each, between the two layers of the feed-forward block."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        layer.dropout = nn.Dropout(0.5)
        self.layers = nn.TransformerEncoder(layer, 6)
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x)[:, 0])


def _mlp() -> nn.Module:
    hidden = [nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*hidden, nn.Linear(512, 10))


def _step(model: nn.Module, x: Tensor, y: Tensor, *, with_ids: bool) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.01)
    starts = itertools.count(0, len(x))

    def run() -> None:
        optimizer.zero_grad()
        if with_ids:
            start = next(starts)
            with turnover.instances(torch.arange(start, start + len(x))):
                loss = functional.cross_entropy(model(x), y)
        else:
            loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return run


def main() -> None:
    """Print the ratios."""
    print("training step against the same model with nn.Dropout (goal <= 1.05)")
    cases = {
        "MLP 784-512-512-10, batch 128": (_mlp, torch.randn(128, 784), None),
        "MLP 784-512-512-10, batch 1024": (_mlp, torch.randn(1024, 784), None),
        "6-layer transformer, 32 x 64 x 256": (Encoder, torch.randn(32, 64, 256), ["layers.layers.*.dropout"]),
    }
    for name, (make, x, at) in cases.items():
        y = torch.randint(10, (len(x),))
        plain = make()
        ours = turnover.wrap(plain, at=at)
        rounds = 101 if make is _mlp else 15
        runs = _step(ours, x, y, with_ids=True), _step(plain, x, y, with_ids=False)
        print(f"  {name:<36} {ratio(*runs, rounds=rounds)}", flush=True)


if __name__ == "__main__":
    main()
