"""Checks of attribution methods beyond those of `turnover.evaluation`, and all of them in one table.

| file | content |
| --- | --- |
| `retraining.py` | correlation with leave-one-out retraining; predictions that change without helpful rows |
| `evaluate.py` | one task, many methods, one table; agreement between methods; Markdown tables |
| `cost.py` | seconds, peak memory and storage |
"""

from .cost import PeakResident
from .evaluate import (
    METRICS,
    Agreement,
    EvaluationConfig,
    Metric,
    Row,
    Table,
    Task,
    agreement,
    evaluate,
    markdown_table,
)
from .retraining import Brittleness, LeaveOneOutCorrelation, brittleness, loo_correlation

__all__ = [
    "METRICS",
    "Agreement",
    "Brittleness",
    "EvaluationConfig",
    "LeaveOneOutCorrelation",
    "Metric",
    "PeakResident",
    "Row",
    "Table",
    "Task",
    "agreement",
    "brittleness",
    "evaluate",
    "loo_correlation",
    "markdown_table",
]
