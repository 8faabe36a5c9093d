"""The influence engine: scores of training instances by forward passes.

Owns: pairwise, mean, top, self-influence and out-of-sample scores, and the fast paths to them. Must not know: how
models are trained, reports, or any library but torch and numpy.
"""

from .engine import Influence
from .executor import Executor, LocalExecutor
from .ridge import Ridge

__all__ = ["Executor", "Influence", "LocalExecutor", "Ridge"]
