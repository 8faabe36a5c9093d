"""The influence engine: scores of training instances, by masks or by gradients.

Owns: pairwise, mean, top, self-influence and held-out predictions, and the estimators of them. Offers: `Influence`, its
options (`Curvature`, `TurnOver`, `ProcessExecutor`), and what others need to run models as it does. Must not know: how
models are trained, reports, or any library but torch, numpy and tqdm.

| file | one idea |
|---|---|
| `engine.py` | `Influence`: what users ask |
| `ensemble.py` | `Ensemble`: the members that a question is put to, and how they are run |
| `estimators.py` | `Estimator` and `Fitted`: what a family of estimators is; blocks of queries, tiles of instances |
| `curvature/`, `turnover_dropout/` | its two families |
| `_answers.py` | a question about pairs: every pair (in memory or a folder), mean, top |
| `_rows.py` | training rows and their instances, from data in any form; rows as people see them |
| `executors.py` | who computes tasks: this process, worker processes, a cluster; tasks as bytes |
| `measures.py` | the score of an output for its target |
| `spans.py` | tokens and spans of a text as queries |
| `fingerprint.py` | a checksum of data and functions |
"""

from turnover.batches import null_ids

from .curvature import Curvature
from .engine import EstimatorOption, Influence
from .ensemble import Ensemble, Member, evaluating
from .estimators import NULL_IDS, Estimator, Fitted
from .executors import (
    UNPACKED,
    Bundles,
    Executor,
    LocalExecutor,
    ProcessExecutor,
    RemoteExecutor,
    Several,
    Shared,
    in_order,
    key_of,
    packed,
)
from .fingerprint import fingerprint_of
from .measures import Measure, MeasureOption
from .spans import Span, span_queries
from .turnover_dropout import TurnOver

__all__ = [
    "NULL_IDS",
    "UNPACKED",
    "Bundles",
    "Curvature",
    "Ensemble",
    "Estimator",
    "EstimatorOption",
    "Executor",
    "Fitted",
    "Influence",
    "LocalExecutor",
    "Measure",
    "MeasureOption",
    "Member",
    "ProcessExecutor",
    "RemoteExecutor",
    "Several",
    "Shared",
    "Span",
    "TurnOver",
    "evaluating",
    "fingerprint_of",
    "in_order",
    "key_of",
    "null_ids",
    "packed",
    "span_queries",
]
