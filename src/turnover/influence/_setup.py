"""What all questions to an engine share: models, measure, options, instances, executor, and what was fitted on them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from turnover._version import __version__
from turnover.batches import Batch
from turnover.errors import InfluenceError, ModelError
from turnover.storage import KeptArrays

from ._data import TrainRows
from ._instances import Instances
from .estimate import Estimate, Estimator
from .execution import Executor, as_workers, is_remote
from .fingerprint import fingerprint_of
from .measures import Measure
from .members import Member, Members, evaluating
from .packing import Shared
from .paths import Forward, Routes

_FEWEST_NULLS = 2
_DTYPES = (None, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Options:
    """The options of `Influence`: see there."""

    against: Literal["keep", "full"]
    center: bool
    sites: tuple[str, ...] | None
    dtype: torch.dtype | None
    memory: int
    compile: bool
    estimator: Estimator
    nulls: int | None = None

    def __post_init__(self) -> None:
        """Reject what no option can be."""
        if self.against not in ("keep", "full"):
            raise InfluenceError(f"against={self.against!r} is unknown. Give 'keep' or 'full'.")
        if self.dtype not in _DTYPES:
            raise InfluenceError(f"dtype={self.dtype} is not supported. Give torch.bfloat16, torch.float16 or None.")
        if isinstance(self.memory, bool) or not isinstance(self.memory, int) or self.memory < 1:
            raise InfluenceError(f"memory must be a number of bytes >= 1, got {self.memory!r}. Give memory=2**28.")
        few = self.nulls is not None and (not isinstance(self.nulls, int) or self.nulls < _FEWEST_NULLS)
        if few or isinstance(self.nulls, bool):
            raise InfluenceError(
                f"nulls must be an integer >= {_FEWEST_NULLS}, got {self.nulls!r}. Give nulls=1024, or None for a "
                "number in proportion to the job."
            )
        if self.nulls is not None and (not self.estimator.needs_masks):
            raise InfluenceError(
                f"nulls={self.nulls} needs estimator='tod', got {self.estimator.name!r}, which has none. "
                "Leave nulls out, or give estimator='tod'."
            )

    def as_data(self) -> dict[str, Any]:
        """Return the options as JSON data, without those that change no score."""
        data: dict[str, Any] = {
            "against": self.against,
            "center": self.center,
            "sites": None if self.sites is None else list(self.sites),
            "dtype": None if self.dtype is None else str(self.dtype),
        }
        return data | self.estimator.as_data()


@dataclass
class Setup:
    """What all questions share, and the fit of the estimator, which is made once as long as the weights stay."""

    members: Members
    measure: Measure
    options: Options
    instances: Instances
    executor: Executor
    fit_folder: str | os.PathLike[str] | None = None  # where an earlier process may have kept the fit
    are_ids_checked: bool = False  # whether it was looked at that the ids of `train` are those of the training
    _fit: tuple[list[str], Estimate] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Raise where a model lacks one of the chosen sites."""
        for member in self.members:
            member.site_numbers(self.options.sites)
        self.routes = Routes(self.options.memory, compile=self.options.compile)

    @property
    def train(self) -> TrainRows | None:
        """Return the training rows; None: they were not given."""
        return self.instances.train

    def need_masks(self, what: str) -> None:
        """Raise where the models were never wrapped."""
        if not self.members.have_masks:
            raise ModelError(
                f"{what} needs the flipped subnetwork of a row, and this model was never wrapped. "
                f"{self.members.hint or 'Train it with masks: model = turnover.wrap(model, at=[...]).'}"
            )

    def forwards(self, members: Sequence[Member] | None = None) -> list[Forward]:
        """Return what runs each of these models; None: each member of the ensemble."""
        options = self.options
        return [
            Forward(member, self.measure, options.against, member.site_numbers(options.sites), options.dtype)
            for member in (self.members if members is None else members)
        ]

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let this process compute as the workers of the executor do, with models in eval mode."""
        with evaluating(self.members), as_workers(self.executor):
            yield

    def workers(self, members: Sequence[Member], weights: list[str]) -> Executor:
        """Return the executor; one of other processes knows what all tasks hold, and has checked that it can work."""
        if not is_remote(self.executor):
            return self.executor
        shared = [Shared(f"models {fingerprint_of(weights)}", [member.model for member in members])]
        if self.train is not None and self.options.estimator.needs_train:
            shared.append(self.train.shared)
        return self.executor.sharing(shared, memory=self.options.memory)

    def fitted(self, forwards: Sequence[Forward], weights: list[str], kept: KeptArrays | None = None) -> Estimate:
        """Return the estimator, fitted once, as long as the weights stay; or as an earlier run kept it."""
        if self.train is not None:
            self.train.check_unchanged()
        if self._fit is None or self._fit[0] != weights:
            arrays = None if kept is None else kept.read()
            workers = self.workers([forward.member for forward in forwards], weights)
            fit = self.options.estimator.fit(forwards, self.train, self.options.memory, arrays, workers)
            self._fit = weights, fit
        return self._fit[1]

    def keep_fit(self, folder: str | os.PathLike[str]) -> None:
        """Write what the estimator fitted into a folder, where it keeps anything."""
        if not self.options.estimator.keeps_fit:
            return
        with evaluating(self.members):
            members = list(self.members)
            weights = [member.digest() for member in members]
            kept = kept_fit(folder, self.provenance([], self.instances.chosen(None), weights=weights))
            kept.write(self.fitted(self.forwards(members), weights, kept).arrays())

    def provenance(
        self,
        queries: Sequence[Batch],
        ids: Tensor,
        *,
        options: Options | None = None,
        weights: list[str] | None = None,
        train: TrainRows | None = None,
    ) -> dict[str, Any]:
        """Return all that scores depend on, as JSON data; with the training rows where the estimator needs them."""
        options, train = options or self.options, train or self.train
        data = {
            "turnover": __version__,
            "recipes": [m.recipe for m in self.members],
            "weights": [m.digest() for m in self.members] if weights is None else weights,
            "options": options.as_data(),
            "measure": _identity(self.measure.kind),
            "loss": _identity(self.measure.loss),
            "ids": fingerprint_of(ids),
            "queries": fingerprint_of([(q.args, q.kwargs, q.target) for q in queries]),
        }
        return data | {"train": train.digest} if train is not None and options.estimator.needs_train else data


def kept_fit(folder: str | os.PathLike[str], provenance: dict[str, Any]) -> KeptArrays:
    """Return where a folder keeps what the estimator fitted: it depends on all but queries and ids."""
    fitted_on = {name: value for name, value in provenance.items() if name not in ("queries", "ids")}
    return KeptArrays(folder, "factors.npz", fitted_on)


def _identity(function: Any) -> Any:
    """Return what identifies a measure or loss across processes: its name, or its code and constants."""
    return function if function is None or isinstance(function, str) else fingerprint_of(function)
