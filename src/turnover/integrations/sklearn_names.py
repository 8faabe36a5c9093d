"""The estimators by name, with a stand-in where scikit-learn is missing, so that `from turnover import *` works."""

from importlib import import_module
from typing import Any

from turnover.errors import MissingExtraError


def estimator(name: str) -> type[Any]:
    """Return an estimator's class; where scikit-learn is missing, one that says so when it is used.

    Args:
        name: "TurnOverClassifier" or "TurnOverRegressor".

    Example:
        >>> estimator("TurnOverRegressor").__name__
        'TurnOverRegressor'
    """
    try:
        return getattr(import_module("turnover.integrations.sklearn_estimators"), name)
    except MissingExtraError as error:
        return _stand_in(name, str(error))


def _stand_in(name: str, message: str) -> type[Any]:
    def refuse(*args: Any, **options: Any) -> None:
        raise MissingExtraError(message)

    return type(name, (), {"__init__": refuse, "__doc__": message})
