"""Turn-over dropout: which training examples made a prediction, which harm it and which were memorized.

Wrap a model before training, train it with instance ids, then ask. See README.md for the twenty-line example. The
sub-packages `applications`, `baselines`, `evaluation` and `integrations`, and the scikit-learn estimators, are loaded
when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .batches import with_instance_ids
from .errors import MissingExtraError, TurnOverError
from .influence import Influence
from .layers import TurnOverDropout, checkpoint_contexts, instances
from .scores import Scores
from .wrapping import audit, load, plan, recalibrate, save, unwrap, wrap

if TYPE_CHECKING:
    from . import applications, baselines, evaluation, integrations
    from .integrations import TurnOverClassifier, TurnOverRegressor

__all__ = [
    "Influence",
    "Scores",
    "TurnOverClassifier",
    "TurnOverDropout",
    "TurnOverError",
    "TurnOverRegressor",
    "applications",
    "audit",
    "baselines",
    "checkpoint_contexts",
    "evaluation",
    "instances",
    "integrations",
    "load",
    "plan",
    "recalibrate",
    "save",
    "unwrap",
    "with_instance_ids",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Load a public sub-package, or an estimator of the extra `sklearn`, when it is first used."""
    if name in ("applications", "baselines", "evaluation", "integrations"):
        return import_module(f".{name}", __name__)
    if name in ("TurnOverClassifier", "TurnOverRegressor"):
        try:
            return getattr(import_module(".integrations", __name__), name)
        except MissingExtraError as error:
            return _unavailable(name, str(error))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names too, some of which are not loaded yet."""
    return sorted({*globals(), *__all__})


def _unavailable(name: str, message: str) -> type[Any]:
    """Return a class that raises when it is used, so that `from turnover import *` works without scikit-learn."""

    def raise_error(*args: Any, **options: Any) -> None:
        raise MissingExtraError(message)

    return type(name, (), {"__init__": raise_error, "__doc__": message})
