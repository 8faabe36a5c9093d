"""Turn-over dropout: which training examples made a prediction, which harm it and which were memorized.

Wrap a model before training, train it with instance ids, then ask. See README.md for the twenty-line example. Names are
loaded when they are first used: `import turnover` alone loads neither torch nor any other package.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .errors import MissingExtraError, TurnOverError

if TYPE_CHECKING:
    from . import applications, evaluation, integrations
    from .batches import with_instance_ids
    from .influence import Influence
    from .integrations import TurnOverClassifier, TurnOverRegressor
    from .layers import TurnOverDropout, checkpoint_contexts, instances
    from .scores import Scores
    from .wrapping import audit, load, plan, recalibrate, save, unwrap, wrap

__all__ = [
    "Influence",
    "Scores",
    "TurnOverClassifier",
    "TurnOverDropout",
    "TurnOverError",
    "TurnOverRegressor",
    "applications",
    "audit",
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

_FOLDER_OF = {
    "Influence": "influence",
    "Scores": "scores",
    "TurnOverClassifier": "integrations",
    "TurnOverDropout": "layers",
    "TurnOverRegressor": "integrations",
    "audit": "wrapping",
    "checkpoint_contexts": "layers",
    "instances": "layers",
    "load": "wrapping",
    "plan": "wrapping",
    "recalibrate": "wrapping",
    "save": "wrapping",
    "unwrap": "wrapping",
    "with_instance_ids": "batches",
    "wrap": "wrapping",
}
_FOLDERS = {"applications", "evaluation", "masks", *_FOLDER_OF.values()}


def __getattr__(name: str) -> Any:
    """Load a public name or sub-package when it is first used."""
    if name in _FOLDERS:
        return import_module(f".{name}", __name__)
    if name not in _FOLDER_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f".{_FOLDER_OF[name]}", __name__), name)
    except MissingExtraError as error:
        return _unavailable(name, str(error))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names too, some of which are not loaded yet."""
    return sorted({*globals(), *__all__})


def _unavailable(name: str, message: str) -> type[Any]:
    """Return a class that raises when it is used, so that `from turnover import *` works without scikit-learn."""

    def raise_error(*args: Any, **options: Any) -> None:
        raise MissingExtraError(message)

    return type(name, (), {"__init__": raise_error, "__doc__": message})


if "torch" in sys.modules:  # then only the first call would be slower for it
    for _name, _folder in _FOLDER_OF.items():
        if _folder != "integrations":
            __getattr__(_name)
