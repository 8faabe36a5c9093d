"""Checks of attribution methods beyond those of `turnover.evaluation`, and all of them in one table.

| file | content |
| --- | --- |
| `leave_one_out.py` | correlation with leave-one-out retraining |
| `brittleness.py` | predictions that change when helpful rows are removed |
| `evaluate.py`, `table.py` | one task, many methods, one table; agreement between methods; Markdown tables |
| `cost.py` | seconds, peak memory and storage |
"""

from .brittleness import Brittleness, brittleness
from .cost import PeakResident
from .evaluate import METRICS, EvaluationConfig, Metric, Task, evaluate
from .leave_one_out import LeaveOneOutCorrelation, loo_correlation
from .table import Agreement, Row, Table, agreement, markdown_table

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
