"""Errors on CIFAR-10 and the training rows behind them, measured as for all three data sets."""

from turnover_bench.experiments.errors import Config, findings, page, run
from turnover_bench.experiments.runner import Needs

__all__ = ["NEEDS", "SIZES", "findings", "page", "run"]

SIZES = {
    "toy": Config("cifar10", rows=120, test_rows=40, shown=2, errors=2, seeds=(0,), epochs=2, hidden=32, image_size=16),
    "small": Config("cifar10", rows=3000, shown=6, errors=12, seeds=(0,), epochs=6, image_size=16),
    "medium": Config("cifar10", rows=3000, shown=6, errors=125, seeds=(0,), epochs=6, image_size=16),
    # The paper's network is VGG19 (see side-effects); here that of `turnover run`, on every image the file has.
    "full": Config("cifar10", rows=50_000, shown=6, errors=100, seeds=(0, 1, 2), epochs=30),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4.0, hours=0.6), "full": Needs(disk=4.0, memory=16.0, hours=60.0)}
