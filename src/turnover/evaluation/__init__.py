"""Is a method faithful? Its scores against retraining, and against labels that are known to be wrong.

Owns: the linear datamodeling score, its ground truth by retraining, and mislabel detection. Offers: the names below.
Must not know: which other methods there are (an entry point finds them), command line, reports.

| file | content |
| --- | --- |
| `lds.py` | linear datamodeling score and its ceiling; models retrained on subsets, plain or masked |
| `evaluate.py` | mislabel detection; one recipe, many methods, one table; methods of other distributions |
| `statistics.py` | scores of any library as a matrix; correlations; bootstrap intervals |
"""

from .evaluate import (
    METRICS,
    Method,
    Metric,
    MislabelDetection,
    Row,
    Table,
    evaluate,
    find_method,
    installed_methods,
    mislabel_detection,
)
from .lds import (
    LDS,
    Ceiling,
    Queries,
    SubsetOutcomes,
    View,
    identity_of,
    in_view,
    lds,
    query_losses,
    query_predictions,
    retraining_ceiling,
    subset_outcomes,
)
from .statistics import (
    AnyScores,
    Bootstrap,
    Floats,
    Interval,
    interval_of,
    matrix_of,
    mean_interval,
    mean_of_known,
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
    "query_losses",
    "query_predictions",
    "retraining_ceiling",
    "spearman",
    "subset_outcomes",
]
