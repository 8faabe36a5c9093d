"""The influence engine: scores of training instances by forward passes.

Owns: pairwise, mean, top, self-influence and out-of-sample scores, and the fast paths to them. Must not know: how
models are trained, reports, or any library but torch and numpy.
"""

from .engine import Influence
from .estimate.ridge import Ridge
from .executor import Executor, LocalExecutor
from .fingerprint import fingerprint_of
from .measures import Goodness
from .members import Member, evaluating
from .options import NULL_IDS, null_ids

__all__ = [
    "NULL_IDS",
    "Executor",
    "Goodness",
    "Influence",
    "LocalExecutor",
    "Member",
    "Ridge",
    "evaluating",
    "fingerprint_of",
    "null_ids",
]
