"""A question about pairs, opened and checked: queries, instances and models fit, and each model has its path."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from turnover.batches import Batch
from turnover.errors import InfluenceError, TurnOverError
from turnover.ids import Name, Names
from turnover.storage import KeptArrays

from .blocks import FEWEST_MEMBERS, NULL_IDS, Finish, Part, RawBlock, ScoreBlock
from .estimate import Estimate, Estimator, LinearControl
from .execution import Executor
from .paths import Forward, Route

_IDS_PER_TILE = 8192
_FEWEST_FOR_A_MEAN = 100
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
    control: Literal["linear"] | None
    nulls: int | None = None

    def __post_init__(self) -> None:
        """Reject what no option can be."""
        if self.against not in ("keep", "full"):
            raise InfluenceError(f"against={self.against!r} is unknown. Give 'keep' or 'full'.")
        if self.control not in (None, "linear"):
            raise InfluenceError(f"control={self.control!r} is unknown. Give 'linear' or None.")
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
        if self.nulls is not None and (self.estimator.needs_train or not self.estimator.needs_masks):
            raise InfluenceError(
                f"nulls={self.nulls} needs estimator='tod', got {self.estimator.name!r}: 'ridge' always takes "
                f"{NULL_IDS:,} null ids and 'curvature' has none. Leave nulls out, or give estimator='tod'."
            )

    def as_data(self) -> dict[str, Any]:
        """Return the options as JSON data, without those that change no score."""
        data: dict[str, Any] = {
            "against": self.against,
            "center": self.center,
            "sites": None if self.sites is None else list(self.sites),
            "dtype": None if self.dtype is None else str(self.dtype),
        }
        data |= self.estimator.as_data()
        if self.control is not None:
            data["control"] = self.control
        return data


@contextmanager
def explained_failures() -> Iterator[None]:
    """Say what to give where the model or the loss fails on queries."""
    try:
        yield
    except TurnOverError:
        raise
    except Exception as error:
        raise InfluenceError(
            f"the model or the loss fails on the first query ({type(error).__name__}: {error}). Give queries as "
            "(inputs, targets) or as a dict of what the model takes, with as many targets as rows; leave ids and "
            "columns that the model does not know out."
        ) from error


@dataclass(frozen=True)
class Question:
    """What each of some instances does to each of some queries."""

    queries: Sequence[Batch]  # single queries
    forwards: Sequence[Forward]  # one per member
    routes: Sequence[Route]  # the path of each member to its raw scores; none where these are not needed
    ids: Tensor  # mask ids
    options: Options
    executor: Executor
    unit: str
    provenance: dict[str, Any]  # all that the scores depend on
    estimate: Estimate
    kept: KeptArrays | None = None  # where what the estimator fitted is kept for a resume; None: nowhere
    nulls: int = NULL_IDS  # null ids that are scored on each query
    instance_names: Names = field(default_factory=Names)
    in_one_pass: bool = False  # whether so few instances are asked about that they go through beside the null ids

    @property
    def pairs(self) -> int:
        """Return how many scores there are."""
        return len(self.ids) * len(self.queries)

    @property
    def pairs_to_compute(self) -> int:
        """Return how many scores are computed; an estimator may need those of all training instances first."""
        return self.pairs + self.estimate.pairs_first * len(self.queries)

    @property
    def has_errors(self) -> bool:
        """Return whether every score has a standard error of its own."""
        return self.estimate.has_errors or len(self.forwards) >= FEWEST_MEMBERS

    @property
    def is_centered(self) -> bool:
        """Return whether the mean of null ids was subtracted."""
        return self.options.center and self.estimate.keeps_null

    @property
    def center(self) -> bool:
        """Return whether the mean of null ids has to be estimated.

        Where each unit is kept by half of all ids, a null id's score and its negative are equally probable: the mean is
        0, and that of a few null ids would only add noise.
        """
        known = self.nulls < _FEWEST_FOR_A_MEAN and self.options.against == "keep"
        return self.options.center and not (known and all(forward.member.is_symmetric for forward in self.forwards))

    @property
    def instances(self) -> dict[str, Any]:
        """Return ids of instances as scores take them: what users call them, and mask ids."""
        mask_ids = self.ids.numpy()
        return {"ids": self.instance_names.shown(mask_ids), "mask_ids": mask_ids}

    @property
    def names(self) -> tuple[Name, ...]:
        """Return the name of each query: its id where all have one of their own, else its place."""
        ids = [
            query.names[0] if query.names is not None else int(query.ids[0])
            for query in self.queries
            if query.ids is not None
        ]
        return tuple(ids) if len(set(ids)) == len(self.queries) else tuple(range(len(self.queries)))

    @property
    def path(self) -> str:
        """Return the paths of all models and the control variate, as scores name them; "" without raw scores."""
        path = " / ".join(dict.fromkeys(route.path for route in self.routes))
        return path if self.options.control is None else f"{path}; linear control variate"

    @property
    def about(self) -> dict[str, Any]:
        """Return what scores say of themselves, when all of them are computed."""
        scaled = self.estimate.standardized
        return {
            "unit": f"the usual {self.unit} of each query" if scaled else self.unit,
            "path": "; ".join(part for part in (self.path, self.estimate.result) if part),
            "replicas": len(self.forwards),
            "provenance": self.provenance,
            "standardized": scaled,
        }

    def block(self, start: int, bar: Any) -> ScoreBlock:
        """Return the block of queries that begins at a place; the bar counts the pairs that it needs first."""
        queries = self.queries[start : start + self.estimate.queries_per_block]

        def raw() -> RawBlock:
            controls = [LinearControl(route, queries) for route in self.routes] if self.options.control else []
            scorers = [route.scorer(queries) for route in self.routes]
            beside = self.ids if self.in_one_pass else None
            with explained_failures():
                return RawBlock(scorers, center=self.center, controls=controls, nulls=self.nulls, beside=beside)

        return self.estimate.block(start, raw, queries, self.executor, bar.update)

    def blocks(self, bar: Any) -> Iterator[tuple[slice, ScoreBlock]]:
        """Yield all blocks of queries with their columns."""
        step = self.estimate.queries_per_block
        for start in range(0, len(self.queries), step):
            yield slice(start, min(start + step, len(self.queries))), self.block(start, bar)

    def tiles(
        self, block: ScoreBlock, finish: Finish, bar: Any, numbered: Sequence[tuple[int, slice]] | None = None
    ) -> Iterator[tuple[Part, Any]]:
        """Yield ranges of instances and what `finish` makes of their scores on one block.

        `numbered` are the ranges, each with the number of its tile; None: all instances.
        """
        if numbered is None:
            count = len(self.ids)
            starts = range(0, count, _IDS_PER_TILE)
            numbered = [(place, slice(at, min(at + _IDS_PER_TILE, count))) for place, at in enumerate(starts)]
        parts = [Part(number, rows, self.ids[rows]) for number, rows in numbered]
        for part, finished in zip(parts, block.tiles(parts, self.executor, finish), strict=True):
            yield part, finished
            bar.update(len(part.ids) * len(block.offset))
