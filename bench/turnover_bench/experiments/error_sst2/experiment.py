"""Errors on SST-2 and the training rows behind them, measured as for all three data sets."""

from turnover_bench.experiments.errors import Config, findings, page, run
from turnover_bench.experiments.runner import Needs

__all__ = ["NEEDS", "SIZES", "findings", "page", "run"]

SIZES = {
    "toy": Config("sst2", rows=80, test_rows=40, shown=2, errors=2, seeds=(0,), epochs=2, hidden=32),
    "small": Config("sst2", rows=5000),
    "medium": Config("sst2", rows=5000, errors=150, seeds=(0,)),
    # The paper's: BERT with adapters on 5,000 sentences.
    "full": Config("sst2", rows=5000, model="bert-base-cased", adapters=64, epochs=10, errors=20, seeds=(0,)),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4.0, hours=0.1), "full": Needs(disk=4.0, memory=12.0, hours=120.0)}
