"""The estimator that a user names, and the recommended one."""

from collections.abc import Sequence
from typing import Any, Literal

from turnover.errors import InfluenceError, ModelError

from .curvature import Curvature
from .original import Estimator, Original

EstimatorOption = Literal["auto", "tod", "curvature"] | Estimator
_NAMED: dict[str, type[Any]] = {"tod": Original, "curvature": Curvature}
# Chosen on trainings of digits, SST-2 and Yahoo Answers that are not reported (docs/evidence.md).
RECOMMENDED = Curvature(damping=5.0, mean_damping=5000.0)


def as_estimator(given: Any, *, has_train: bool, has_masks: bool, of_masks: Sequence[str] = ()) -> Estimator:
    """Return the estimator that was named, or raise where it cannot work.

    "auto" is `RECOMMENDED` where training rows are given, else the original estimator. `of_masks` are options that say
    how masks are compared: with one of them "auto" is the original estimator, too.
    """
    if isinstance(given, str) and given == "auto":
        given = RECOMMENDED if has_train and not of_masks else "tod"
    if isinstance(given, str) and given in _NAMED:
        given = _NAMED[given]()
    if isinstance(given, type):
        raise InfluenceError(
            f"estimator= must be an object, got the class {given.__name__}. Call it: {given.__name__}()."
        )
    if isinstance(given, str) or not all(hasattr(given, name) for name in ("fit", "needs_train", "as_data")):
        raise InfluenceError(
            f"estimator={given!r} is unknown. Give 'auto', 'tod', 'curvature', or one with options of its own: "
            "turnover.influence.Curvature(...)."
        )
    if given.needs_train and not has_train:
        raise InfluenceError(
            f"estimator={given.name!r} is fitted on all training rows and their labels, but there is no train. Give "
            f"Influence(model, train=turnover.with_instance_ids(dataset), estimator={given.name!r})."
        )
    if given.needs_masks and not has_masks:
        raise ModelError(
            f"estimator={given.name!r} needs masks, and this model was never wrapped. Wrap it before training "
            "(turnover.wrap), or give its training data: Influence(model, train=data, estimator='curvature')."
        )
    if of_masks and not given.needs_masks:
        raise InfluenceError(
            f"{' and '.join(of_masks)} say how masks are compared, and estimator={given.name!r} does not use masks. "
            "Give estimator='tod' beside them."
        )
    return given
