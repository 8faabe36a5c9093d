"""Turn-over dropout: which training examples made a prediction, which harm it and which were memorised.

Wrap a model before training, train it with instance ids, then ask. See README.md for the twenty-line example.
"""

from .errors import TurnOverError
from .ids import with_instance_ids
from .influence import Influence
from .layers import TurnOverDropout, checkpoint_contexts, instances
from .scores import Scores
from .wrapping import audit, load, plan, save, unwrap, wrap

__version__ = "0.1.0"

__all__ = [
    "Influence",
    "Scores",
    "TurnOverDropout",
    "TurnOverError",
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
