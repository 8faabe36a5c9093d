"""Every exception and warning that turnover raises.

Owns: the names users catch. Must not know: anything else in the package.

Each message says what was given, what is needed, what to type, and the module path concerned. Catch
`TurnOverError` for all of them.
"""

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
    """Instance ids have the wrong type, range or number, or two rows share one."""


class MissingIdError(InstanceIdError):
    """A row or a batch has no instance id where one is needed."""


class InstancesError(TurnOverError, RuntimeError):
    """A masked model ran without its instances, or with others than `turnover.instances` was given."""


class BatchSizeError(InstancesError):
    """The number of ids and the batch that reached a site do not fit."""


class SiteNotReachedError(InstancesError):
    """A forward pass in keep or flip view went around a site."""


class ModelError(TurnOverError, RuntimeError):
    """A model cannot be used as it is: not wrapped, wrapped twice, of another mask recipe, or not where it must be."""


class SavedModelError(_CurableError, TurnOverError, RuntimeError):
    """A saved model folder is missing, damaged or of another format; has `problem` and `cure`."""


class BatchError(TurnOverError, ValueError):
    """A data set, a loader or a batch cannot be taken apart into inputs, target and ids."""


class MissingExtraError(TurnOverError, ImportError):
    """An optional package is needed for this call; the message says which extra to install."""

    def __init__(self, message: str) -> None:
        extra = re.search(r"'turnover(\[.*?\])'", message)
        in_clone = f" (in a clone of turnover: pip install '.{extra[1]}')" if extra else ""
        super().__init__(f"{message.removesuffix('.')}{in_clone}{'.' * message.endswith('.')}")


class StoreError(TurnOverError, RuntimeError):
    """A folder of results cannot be used as asked."""


class StoreLockedError(StoreError):
    """Another process is writing to this folder."""


class StoreDamagedError(_CurableError, StoreError):
    """A folder or file of results is damaged or half written and cannot be read; has `problem` and `cure`."""


class TooLargeError(TurnOverError, ValueError):
    """What a file or setting asks for needs more memory than is free."""


class ScoresError(TurnOverError, ValueError):
    """Scores cannot be made, combined or read as asked."""


class InfluenceError(TurnOverError, ValueError):
    """Influence cannot be computed with this model, loss, data or option."""


class TrainingError(TurnOverError, ValueError):
    """A training recipe cannot be run as asked."""


class RunError(TurnOverError, RuntimeError):
    """A run folder or the settings of a run cannot be used as asked."""


class DataFileError(TurnOverError, ValueError):
    """A file of data cannot be read as asked: a column, a label, an encoding or an image."""


class ApplicationError(TurnOverError, ValueError):
    """An application (explain, cleanse, memorized, groups, ...) cannot answer with what it was given."""


class TurnOverWarning(UserWarning):
    """Something works, but scores will be less trustworthy than they could be."""


class WeakSignalWarning(TurnOverWarning):
    """The self-influence of training rows cannot be told from that of null ids: the rows were hardly learned."""
