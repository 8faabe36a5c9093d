"""Honest evaluation of any attribution: against retraining, against known wrong labels, against other methods.

Owns: linear datamodeling score, leave-one-out correlation, mislabel detection, brittleness, agreement, and the table of
all methods on one task. Must not know: which tasks there are, command line, reports.
"""

from .agreement import Agreement, agreement
from .brittleness import Brittleness, brittleness
from .correlation import spearman
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
from .intervals import Bootstrap, Interval, drawn, interval_of, mean_interval
from .lds import LDS, Ceiling, lds, retraining_ceiling
from .leave_one_out import LeaveOneOutCorrelation, loo_correlation
from .markdown import markdown_table
from .mislabels import MislabelDetection, mislabel_detection, suspicion_of
from .table import Row, Table

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
