"""Every exception and warning that turnover raises.

Owns: the names users catch. Must not know: anything else in the package.

Each message says what was given, what is needed, what to type, and the module path concerned. Catch
`TurnOverError` for all of them.
"""

import math
import re


class TurnOverError(Exception):
    """Base of every error raised by turnover."""


class _CurableError(Exception):
    """An error whose cure depends on who made what it is about, so that callers may give another.

    Attributes:
        problem: what is wrong, without a full stop where a cure follows.
        cure: the sentence that says what to do; "" where there is none.
    """

    def __init__(self, problem: str, *, cure: str = "") -> None:
        """Join both into one message and keep them as data."""
        self.problem = problem
        self.cure = cure
        super().__init__(f"{problem}. {cure}" if cure else problem)


class PlanError(TurnOverError, ValueError):
    """A model cannot be wrapped as asked; the message lists all problems at once."""

    def __init__(self, problems: list[str]) -> None:
        """Join the problems into one message and keep them as data."""
        self.problems = list(problems)
        head = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"the model was not changed: {head} with this plan{lines}")

    def __reduce__(self) -> tuple[type["PlanError"], tuple[list[str]]]:
        """Pickle by the list of problems, not by the joined message."""
        return type(self), (self.problems,)


class MaskError(TurnOverError, ValueError):
    """A mask was asked for that does not exist: keep rate, width, seed or source out of range."""


class InstanceIdError(TurnOverError, ValueError):
    """Instance ids have the wrong type, range or number."""


class DuplicateIdError(InstanceIdError):
    """Two different rows carry the same instance id."""


class ReservedIdError(InstanceIdError):
    """An id from 2**62 on was met where ids are given out or trained; those belong to the null."""


class MissingIdError(InstanceIdError):
    """A row or a batch has no instance id where one is needed."""


class MissingInstancesError(TurnOverError, RuntimeError):
    """A masked module ran in training mode outside `turnover.instances(ids)`."""


class NestedInstancesError(TurnOverError, RuntimeError):
    """`turnover.instances` was entered while another one was active."""


class ViewError(TurnOverError, ValueError):
    """A view other than "keep", "flip" or "full", or not one per row."""


class BatchSizeError(TurnOverError, ValueError):
    """The number of ids and the batch that reached a site do not fit."""


class SiteNotReachedError(TurnOverError, RuntimeError):
    """A forward pass in keep or flip view went around a site."""


class SiteOutputError(TurnOverError, TypeError):
    """A masked module returned something that cannot carry a mask."""


class WidthMismatchError(TurnOverError, ValueError):
    """The masked dimension of a site does not have the width it must have."""


class RecomputationError(TurnOverError, RuntimeError):
    """Activation checkpointing recomputed a site without its instances."""


class RepeatBeforeForwardError(TurnOverError, RuntimeError):
    """`repeat` was called before the model ran in this context."""


class ReplicaError(TurnOverError, RuntimeError):
    """The rows of a model with replicas do not come one replica after the other."""


class NotWrappedError(TurnOverError, TypeError):
    """A wrapped model is needed and something else was given."""


class AlreadyWrappedError(TurnOverError, ValueError):
    """A model that already has masks was given to `wrap`."""


class RecipeMismatchError(TurnOverError, RuntimeError):
    """Weights trained under one mask recipe met a model with another."""


class ShardedModelError(TurnOverError, RuntimeError):
    """The weights of a model are spread over processes in a form that cannot be gathered here."""


class SavedModelError(_CurableError, TurnOverError, RuntimeError):
    """A saved model folder is missing, damaged or of another format; has `problem` and `cure`."""


class DataSetError(TurnOverError, TypeError):
    """A data set or loader cannot be given instance ids as it is."""


class BatchError(TurnOverError, ValueError):
    """A batch or data set cannot be taken apart into inputs, target and ids."""


class TargetError(TurnOverError, ValueError):
    """Outputs and targets do not fit together for the loss."""


class AuditError(TurnOverError, ValueError):
    """The leak audit cannot run on this model, batch or loss."""


class MissingExtraError(TurnOverError, ImportError):
    """An optional package is needed for this call; the message says which extra to install."""

    def __init__(self, message: str) -> None:
        extra = re.search(r"'turnover(\[.*?\])'", message)
        in_clone = f" (in a clone of turnover: pip install '.{extra[1]}')" if extra else ""
        super().__init__(f"{message.removesuffix('.')}{in_clone}{'.' * message.endswith('.')}")


class StoreError(TurnOverError, RuntimeError):
    """A folder of results cannot be used as asked."""


class StoreMismatchError(StoreError):
    """A folder of results was made by another model, seed, data set or option; the message names what differs."""


class StoreLockedError(StoreError):
    """Another process is writing to this folder.

    Attributes:
        holder: which one, in words.
    """

    def __init__(self, message: str, *, holder: str = "another process") -> None:
        """Keep the holder as data."""
        self.holder = holder
        super().__init__(message)


class StoreDamagedError(_CurableError, StoreError):
    """A folder or file of results is damaged or half written and cannot be read; has `problem` and `cure`."""


class DeviceError(TurnOverError, ValueError):
    """A device is unknown, or not on this machine."""


class TooLargeError(TurnOverError, ValueError):
    """What a file or setting asks for needs more memory than is free."""


class ScoresError(TurnOverError, ValueError):
    """Scores cannot be made, combined or read as asked."""


class UnknownNameError(ScoresError, KeyError):
    """Scores were asked for by a name that no instance has; the message says which, and what is near."""

    __str__ = Exception.__str__  # that of KeyError puts the message in quotes


class InfluenceError(TurnOverError, ValueError):
    """Influence cannot be computed with this model, loss, data or option."""


class TrainingError(TurnOverError, ValueError):
    """A training recipe cannot be run as asked."""


class BaselineError(TurnOverError, RuntimeError):
    """A compared method cannot be computed on this model, data or option."""


class RunError(TurnOverError, RuntimeError):
    """A run folder or the settings of a run cannot be used as asked."""


class DataFileError(TurnOverError, ValueError):
    """A file of data cannot be read as asked: a column, a label, an encoding or an image."""


class ApplicationError(TurnOverError, ValueError):
    """An application (explain, cleanse, memorized, groups, ...) cannot answer with what it was given."""


class TurnOverWarning(UserWarning):
    """Something works, but scores will be less trustworthy than they could be."""


class CurvatureWarning(TurnOverWarning):
    """Scores by curvature rest on less than they could: outputs that cannot be calibrated, layers not covered."""


class WeakSignalWarning(TurnOverWarning):
    """The self-influence of training rows cannot be told from that of null ids: the rows were hardly learned.

    Attributes:
        mean: the mean self-influence.
        stderr: its standard error, from the null ids.
    """

    def __init__(self, message: str, *, mean: float = math.nan, stderr: float = math.nan) -> None:
        """Keep the numbers as data."""
        self.mean = mean
        self.stderr = stderr
        super().__init__(message)
