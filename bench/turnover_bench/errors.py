"""The error of the bench's own methods."""

from turnover.errors import TurnOverError


class BaselineError(TurnOverError, RuntimeError):
    """A compared method cannot be computed on this model, data or option."""
