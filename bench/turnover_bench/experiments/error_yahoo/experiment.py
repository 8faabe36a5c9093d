"""Errors on Yahoo Answers and the training rows behind them, measured as for all three data sets."""

from turnover_bench.experiments.errors import Config, findings, page, run
from turnover_bench.experiments.runner import Needs

__all__ = ["NEEDS", "SIZES", "findings", "page", "run"]

SIZES = {
    "toy": Config("yahoo", rows=50, test_rows=24, shown=2, errors=2, seeds=(0,), epochs=2, hidden=32),
    "small": Config("yahoo", rows=4000),
    "medium": Config("yahoo", rows=4000, errors=200, seeds=(0,)),
    # The paper's: BERT with adapters, as many of its 5,000 questions as the file has beside a test.
    "full": Config("yahoo", rows=4000, model="bert-base-cased", adapters=64, epochs=10, errors=20, seeds=(0,)),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4.0, hours=0.3), "full": Needs(disk=4.0, memory=12.0, hours=200.0)}
