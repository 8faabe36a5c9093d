"""A driver as a process of its own: `python -m tests.ray.driver FOLDER ADDRESS FIRST LAST CLASSES [warm]`.

It scores the ids from FIRST to LAST on 100 queries, and prints the seconds; ADDRESS `-`: without a cluster. With `warm`
the seconds do not count the start of workers.
"""

import sys
import time

import torch
from torch import nn

import turnover

QUERIES, WIDTH = 100, 64


def influence(classes: int, executor=None) -> turnover.Influence:
    torch.manual_seed(0)
    net = turnover.wrap(nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes)), at=["1"])
    with turnover.instances(range(4)):
        net(torch.randn(4, 16))
    return turnover.Influence(net, executor=executor)


def queries(classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(QUERIES, 16, generator=generator), torch.arange(QUERIES) % classes


def main() -> None:
    folder, address = sys.argv[1:3]
    first, last, classes = map(int, sys.argv[3:6])
    torch.set_num_threads(1)
    executor = None
    if address != "-":
        from turnover.integrations import RayExecutor

        executor = RayExecutor(address, threads=1)
    inf = influence(classes, executor)
    if sys.argv[6:] == ["warm"]:
        inf.pairwise(queries(classes), ids=range(first, first + 8 * 8192), progress=False)
    start = time.perf_counter()
    inf.pairwise(queries(classes), ids=range(first, last), out=folder, progress=False)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
