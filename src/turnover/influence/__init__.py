"""The influence engine: scores of training instances by forward passes.

Owns: pairwise, mean, top, self-influence and held-out predictions, the fast paths to them and the estimators on top.
Offers: `Influence`, its options (`Curvature`, `ProcessExecutor`), and what others need to run models as it
does. Must not know: how models are trained, reports, or any library but torch, numpy and tqdm.

| file | one idea |
|---|---|
| `engine.py` | `Influence`: what users ask |
| `_setup.py` | what all questions share: options, models, executor, what the estimator fitted |
| `_instances.py` | the instances that can be asked about: names, mask ids, rows, labels |
| `_question.py`, `_answers.py` | a question about pairs, opened; every pair (in memory or a folder), mean, top |
| `_self_influence.py`, `_held_out.py` | questions about training rows; whether their ids are those of the training |
| `_views.py` | rows of the data as people see them, for notebooks |
| `blocks.py` | a block of queries: null, offset, mean and standard error over members |
| `estimate/` | estimators, of raw scores or of gradients; corrections of what masks alone do |
| `paths/` | from one model, queries and ids to raw scores |
| `_data.py` | single queries and training rows from data in any form |
| `members.py`, `measures.py` | the models of an ensemble; the score of an output for its target |
| `execution.py` | what an executor of tasks is, and the one of this process; the progress bar |
| `packing.py`, `processes.py` | tasks as bytes, models apart; worker processes on this machine |
| `spans.py` | tokens and spans of a text as queries |
| `fingerprint.py`, `_memory.py` | a checksum of data and functions; the memory of chunks stays with the process |
"""

from turnover.batches import null_ids

from .blocks import NULL_IDS
from .engine import Influence
from .estimate import Curvature, EstimatorOption
from .execution import Bundles, Executor, LocalExecutor, RemoteExecutor, Several, in_order
from .fingerprint import fingerprint_of
from .measures import Measure, MeasureOption
from .members import Member, evaluating
from .packing import UNPACKED, Shared, key_of, packed
from .processes import ProcessExecutor
from .spans import Span, span_queries

__all__ = [
    "NULL_IDS",
    "UNPACKED",
    "Bundles",
    "Curvature",
    "EstimatorOption",
    "Executor",
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
    "evaluating",
    "fingerprint_of",
    "in_order",
    "key_of",
    "null_ids",
    "packed",
    "span_queries",
]
