"""Errors and the training rows behind them, for the experiments on SST-2, Yahoo Answers and CIFAR-10.

Owns: the run, its errors with their supporting rows, retraining without them, figures and page. Offers what an
experiment has. Must not know: which data set it is; error_sst2, error_yahoo and error_cifar10 say that.

| file | idea |
| --- | --- |
| `config.py` | settings |
| `run.py` | data as files, a run of the command line's own code, its errors, retraining without supporting rows |
| `figures.py`, `page.py` | texts with shared subwords or images; the page |
"""

from .config import Config
from .page import findings, page
from .run import run

__all__ = ["Config", "findings", "page", "run"]
