"""Evaluation of any attribution: against retraining, against known wrong labels, against other methods.

Owns: the metrics, their ground truth by retraining, and the table of all methods on one task. Offers: the names below.
Must not know: which tasks there are, command line, reports.

| file | content |
| --- | --- |
| `lds.py` | linear datamodeling score and its ceiling |
| `leave_one_out.py` | correlation with leave-one-out retraining |
| `mislabels.py` | mislabel detection |
| `brittleness.py` | predictions that change when helpful rows are removed |
| `ground_truth.py` | models retrained on subsets, plain or masked |
| `evaluate.py`, `table.py` | one task, many methods, one table; agreement between methods; Markdown tables |
| `cost.py` | seconds, peak memory and storage |
| `statistics.py` | scores of any library as a matrix; correlations; bootstrap intervals |
"""

from .brittleness import Brittleness, brittleness
from .cost import PeakResident
from .evaluate import METRICS, EvaluationConfig, Metric, Task, evaluate
from .ground_truth import (
    SubsetOutcomes,
    View,
    identity_of,
    in_view,
    query_losses,
    query_predictions,
    subset_outcomes,
)
from .lds import LDS, Ceiling, lds, retraining_ceiling
from .leave_one_out import LeaveOneOutCorrelation, loo_correlation
from .mislabels import MislabelDetection, mislabel_detection, suspicion_of
from .statistics import Bootstrap, Interval, drawn, interval_of, mean_interval, spearman
from .table import Agreement, Row, Table, agreement, markdown_table

__all__ = [
    "LDS",
    "METRICS",
    "Agreement",
    "Bootstrap",
    "Brittleness",
    "Ceiling",
    "EvaluationConfig",
    "Interval",
    "LeaveOneOutCorrelation",
    "Metric",
    "MislabelDetection",
    "PeakResident",
    "Row",
    "SubsetOutcomes",
    "Table",
    "Task",
    "View",
    "agreement",
    "brittleness",
    "drawn",
    "evaluate",
    "identity_of",
    "in_view",
    "interval_of",
    "lds",
    "loo_correlation",
    "markdown_table",
    "mean_interval",
    "mislabel_detection",
    "query_losses",
    "query_predictions",
    "retraining_ceiling",
    "spearman",
    "subset_outcomes",
    "suspicion_of",
]
