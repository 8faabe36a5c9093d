"""A question about pairs, opened and checked: queries, instances and models fit, and each model has its path."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from turnover.batches import Batch
from turnover.errors import InfluenceError, TurnOverError
from turnover.ids import Name, Names
from turnover.storage import KeptArrays, TileStore

from ._data import single_queries
from ._self_influence import check_ids
from ._setup import Options, Setup, kept_fit
from .blocks import FEWEST_MEMBERS, NULL_IDS, Finish, Part, RawBlock, ScoreBlock, null_count
from .estimate import Estimate
from .execution import Executor
from .paths import Forward, Route, with_predicted_target

AtLabel = Literal["given", "predicted"]

_IDS_PER_TILE = 8192
_FEWEST_FOR_A_MEAN = 100


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
    def has_errors(self) -> bool:
        """Return whether every score has a standard error of its own."""
        return len(self.forwards) >= FEWEST_MEMBERS

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
        """Return the paths of all models, as scores name them; "" without raw scores."""
        return " / ".join(dict.fromkeys(route.path for route in self.routes))

    @property
    def about(self) -> dict[str, Any]:
        """Return what scores say of themselves, when all of them are computed."""
        scaled = self.estimate.standardized
        return {
            "unit": f"the usual effect on the {self.unit} of each query" if scaled else self.unit,
            "path": "; ".join(part for part in (self.path, self.estimate.result) if part),
            "replicas": len(self.forwards),
            "provenance": self.provenance,
            "standardized": scaled,
        }

    def block(self, start: int, bar: Any) -> ScoreBlock:
        """Return the block of queries that begins at a place; the bar counts the pairs that it needs first."""
        queries = self.queries[start : start + self.estimate.queries_per_block]

        def raw() -> RawBlock:
            beside = self.ids if self.in_one_pass else None
            with explained_failures():
                scorers = [route.scorer(queries) for route in self.routes]
                return RawBlock(scorers, center=self.center, nulls=self.nulls, beside=beside)

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


def open_question(
    setup: Setup,
    queries: Any,
    at_label: AtLabel | None,
    ids: Tensor,
    *,
    nulls: int | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Question:
    """Return the question, opened; what can fail before the work, fails here."""
    if at_label not in (None, "given", "predicted"):
        raise InfluenceError(f"at_label={at_label!r} is unknown. Give 'given' or 'predicted'.")
    if len(ids) == 0:
        raise InfluenceError("no instances are left to score. Give at least one id.")
    options, members = setup.options, list(setup.members)
    opened = single_queries(queries, targets=setup.instances.targets, device=members[0].device)
    setup.measure.check_shifted(opened[0].kwargs.get("input_ids"), opened[0].target)
    missing = opened[0].target is None
    if missing and at_label == "given":
        raise InfluenceError("the queries have no targets. Give (x, y), or at_label='predicted'.")
    forwards = setup.forwards(members)
    if missing or at_label == "predicted":
        opened = [with_predicted_target(forwards, query) for query in opened]
    weights = [member.digest() for member in members]
    routes: list[Route] = []
    if options.estimator.needs_masks:
        # A folder's path must be the same in a later run.
        tries = out is not None
        with explained_failures():
            routes = setup.routes.find(forwards, opened, weights, ids=len(ids), tries=tries)
    stored = None if out is None else TileStore.identity_of(out)
    routes = routes if stored is None else _as_stored(routes, stored)
    raw_nulls = NULL_IDS
    if routes:
        fitting = null_count(len(ids), len(opened), min(route.saving for route in routes))
        kept_as = fitting if stored is None else stored.get("nulls", fitting)
        raw_nulls = options.nulls or nulls or kept_as
    check_ids(setup)
    provenance = setup.provenance(opened, ids, weights=weights)
    folder = setup.fit_folder if out is None else out
    kept = None if folder is None else kept_fit(folder, provenance)
    return Question(
        queries=opened,
        forwards=forwards,
        routes=routes,
        ids=ids,
        options=options,
        executor=setup.workers(members, weights),
        unit=setup.measure.unit,
        provenance=provenance,
        estimate=setup.fitted(forwards, weights, kept),
        kept=kept,
        nulls=raw_nulls,
        instance_names=setup.instances.names,
        in_one_pass=bool(routes) and all(route.is_of_few for route in routes),
    )


def _as_stored(routes: Sequence[Route], identity: dict[str, Any]) -> list[Route]:
    """Return routes with the chunks that a folder was begun with: a row's last bits depend on the rows beside it."""
    chunks = identity.get("chunks", [])
    if len(chunks) != len(routes):
        return list(routes)
    return [replace(route, ids_per_chunk=chunk) for route, chunk in zip(routes, chunks, strict=True)]
