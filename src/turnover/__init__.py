"""Turn-over dropout: which training examples made a prediction, which harm it and which were memorized.

Wrap a model before training, train it with instance ids, then ask. See README.md for the twenty-line example.
"""

from typing import TYPE_CHECKING, Any

from .batches import with_instance_ids
from .errors import TurnOverError
from .influence import Influence
from .layers import TurnOverDropout, checkpoint_contexts, instances
from .scores import Scores
from .wrapping import audit, load, plan, save, unwrap, wrap

if TYPE_CHECKING:
    from .integrations.sklearn_estimators import TurnOverClassifier, TurnOverRegressor

__version__ = "0.1.0"

__all__ = [
    "Influence",
    "Scores",
    "TurnOverClassifier",
    "TurnOverDropout",
    "TurnOverError",
    "TurnOverRegressor",
    "audit",
    "checkpoint_contexts",
    "instances",
    "load",
    "plan",
    "save",
    "unwrap",
    "with_instance_ids",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Load the estimators when they are asked for: scikit-learn is an extra."""
    if name in ("TurnOverClassifier", "TurnOverRegressor"):
        from .integrations.sklearn_names import estimator

        return estimator(name)
    raise AttributeError(f"module 'turnover' has no attribute {name!r}")
