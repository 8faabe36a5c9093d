"""Is a method faithful? Its scores against retraining, and against labels that are known to be wrong.

Owns: the linear datamodeling score, its ground truth by retraining, and mislabel detection. Offers: the names below.
Must not know: which other methods there are (an entry point finds them), command line, reports.

| file | content |
| --- | --- |
| `lds.py` | linear datamodeling score and its ceiling |
| `mislabels.py` | mislabel detection |
| `ground_truth.py` | models retrained on subsets, plain or masked |
| `evaluate.py` | one recipe, many methods, one table; methods of other distributions |
| `statistics.py` | scores of any library as a matrix; correlations; bootstrap intervals |
"""

from .evaluate import METRICS, Method, Metric, Row, Table, evaluate, find_method, installed_methods
from .ground_truth import (
    Queries,
    SubsetOutcomes,
    View,
    identity_of,
    in_view,
    query_losses,
    query_predictions,
    subset_outcomes,
)
from .lds import LDS, Ceiling, lds, retraining_ceiling
from .mislabels import MislabelDetection, mislabel_detection, suspicion_of
from .statistics import (
    AnyScores,
    Bootstrap,
    Floats,
    Interval,
    correlation_or_zero,
    drawn,
    interval_of,
    matrix_of,
    mean_interval,
    mean_of_known,
    numbers_of,
    pearson,
    spearman,
)

__all__ = [
    "LDS",
    "METRICS",
    "AnyScores",
    "Bootstrap",
    "Ceiling",
    "Floats",
    "Interval",
    "Method",
    "Metric",
    "MislabelDetection",
    "Queries",
    "Row",
    "SubsetOutcomes",
    "Table",
    "View",
    "correlation_or_zero",
    "drawn",
    "evaluate",
    "find_method",
    "identity_of",
    "in_view",
    "installed_methods",
    "interval_of",
    "lds",
    "matrix_of",
    "mean_interval",
    "mean_of_known",
    "mislabel_detection",
    "numbers_of",
    "pearson",
    "query_losses",
    "query_predictions",
    "retraining_ceiling",
    "spearman",
    "subset_outcomes",
    "suspicion_of",
]
