"""The layer against nn.Dropout at 4096 x 768."""

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

import turnover
from turnover_bench.experiments.timing import ratio

ROWS, WIDTH = 4096, 768


def _batches() -> Iterator[Tensor]:
    for start in itertools.count(0, ROWS):
        yield torch.arange(start, start + ROWS)


def _runs(compiled: bool, backward: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    x = torch.randn(ROWS, WIDTH, requires_grad=backward)
    upstream = torch.randn(ROWS, WIDTH)
    wrapped = turnover.wrap(nn.Sequential(turnover.TurnOverDropout())).train()
    ours: nn.Module = torch.compile(wrapped) if compiled else wrapped
    plain = nn.Sequential(nn.Dropout(0.5)).train()
    ids = _batches()

    def run_ours() -> None:
        with torch.set_grad_enabled(backward), turnover.instances(next(ids)):
            out = ours(x)
        if backward:
            torch.autograd.grad(out, x, upstream)

    def run_plain() -> None:
        with torch.set_grad_enabled(backward):
            out = plain(x)
        if backward:
            torch.autograd.grad(out, x, upstream)

    return run_ours, run_plain


def main() -> None:
    """Print the ratios."""
    print(f"layer against nn.Dropout, {ROWS} x {WIDTH}, both with ids that change every batch")
    for compiled, goal in ((False, 0.5), (True, 0.3)):
        for backward in (False, True):
            name = f"{'compiled' if compiled else 'eager'}, forward{' + backward' if backward else ''}"
            print(f"  {name:<32} {ratio(*_runs(compiled, backward))}   goal <= {goal}", flush=True)


if __name__ == "__main__":
    main()
