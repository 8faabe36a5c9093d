"""Honest evaluation of any attribution: against retraining, against known wrong labels, against other methods.

Owns: linear datamodeling score, leave-one-out correlation, mislabel detection, brittleness, agreement, and the table of
all methods on one task. Must not know: which tasks there are, command line, reports.
"""

from .agreement import Agreement, agreement
from .brittleness import Brittleness, brittleness
from .evaluate import METRICS, EvaluationConfig, Task, evaluate
from .ground_truth import SubsetOutcomes, subset_outcomes
from .intervals import Bootstrap, Interval
from .lds import LDS, Ceiling, lds, retraining_ceiling
from .leave_one_out import LeaveOneOutCorrelation, loo_correlation
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
    "MislabelDetection",
    "Row",
    "SubsetOutcomes",
    "Table",
    "Task",
    "agreement",
    "brittleness",
    "evaluate",
    "lds",
    "loo_correlation",
    "mislabel_detection",
    "retraining_ceiling",
    "subset_outcomes",
    "suspicion_of",
]
