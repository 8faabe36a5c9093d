"""`TurnOver`, the original estimator: loss in the flipped view minus loss in the kept one, query by query.

Which path a member takes follows a fixed rule, so that a resumed folder has the same bytes: the last layer where the
only site feeds the final Linear; the expanded batch for few rows; else broadcast at the first site where that gives
the same outputs. Instances go through in chunks that fit into the memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from turnover.batches import FIRST_RESERVED_ID, Batch, null_ids
from turnover.errors import InfluenceError, TurnOverError
from turnover.influence._rows import TrainRows
from turnover.influence.ensemble import Ensemble, Member
from turnover.influence.estimators import NULL_IDS, Blocks, Finish, OwnScores, Part, Tile, finite_mean
from turnover.influence.executors import Executor

from ._last_layer import LAST_LAYER, LastLayerScorers, OtherLayerError, ends_in_last_layer
from ._subnetworks import Subnetworks, sample, size_of
from .own_rows import own_scores, warn_of_other_ids

QUERIES_PER_BLOCK = 128
"""How many queries are scored together; a part of the format of score folders."""
_FEW = 128
"""Rows of a chunk whose memory is not measured: a hundred, as a plain loop takes at once, and null ids beside them."""
_FEW_PAIRS, _VERY_FEW_PAIRS = 1024, 128
"""Up to here a look at the memory of a chunk takes longer than it saves, and one at broadcasting."""
_FEWEST_NULLS, _NULL_SHARE = 2, 8
_FEWEST_FOR_A_MEAN = 100


@dataclass(frozen=True)
class TurnOver:
    """The original estimator: the loss of a row's flipped subnetwork minus that of its kept one.

    Attributes:
        against: compare the flipped subnetwork with the kept one ("keep") or with the full network ("full").
        center: subtract the mean score of null ids, query by query.
        sites: flip only these sites; None: all.
        nulls: number of null ids whose scores tell what noise looks like; None: in proportion to the job, 2 to 1,024.

    Example:
        >>> TurnOver(against="full", nulls=64).name
        'tod'
    """

    against: Literal["keep", "full"] = "keep"
    center: bool = True
    sites: Sequence[str] | None = None
    nulls: int | None = None
    name: ClassVar[str] = "tod"

    def __post_init__(self) -> None:
        """Reject what no option can be."""
        if self.against not in ("keep", "full"):
            raise InfluenceError(f"TurnOver(against={self.against!r}) is unknown. Give 'keep' or 'full'.")
        if not isinstance(self.center, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InfluenceError(f"TurnOver(center=) must be True or False, got {self.center!r}.")
        if self.nulls is not None and (type(self.nulls) is not int or self.nulls < _FEWEST_NULLS):
            raise InfluenceError(
                f"TurnOver(nulls=) must be an integer >= {_FEWEST_NULLS}, got {self.nulls!r}. Give nulls=1024, or None "
                "for a number in proportion to the job."
            )
        if self.sites is not None:
            several = isinstance(self.sites, Sequence) and not isinstance(self.sites, str)
            object.__setattr__(self, "sites", tuple(self.sites) if several else (self.sites,))

    def check(self, ensemble: Ensemble, train: TrainRows | None) -> None:
        """Raise where models have no masks, or lack one of the chosen sites."""
        ensemble.need_masks("estimator='tod'")
        for member in ensemble.whole:
            _site_numbers(member, self.sites)

    def check_null(self) -> None:
        """Do nothing: null ids are those that were never trained."""

    def as_data(self, train: TrainRows | None) -> dict[str, Any]:
        """Return the options as JSON data."""
        sites = None if self.sites is None else list(self.sites)
        return {"estimator": {"name": self.name, **asdict(self), "sites": sites}}

    def fit(
        self, ensemble: Ensemble, train: TrainRows | None, *, kept: Mapping[str, np.ndarray] | None = None
    ) -> "FittedTurnOver":
        """Return the members as subnetworks; warn where the ids of `train` are not those of the training."""
        fitted = FittedTurnOver(self, ensemble)
        if train is not None:
            warn_of_other_ids(fitted.whole, train)
        return fitted


class FittedTurnOver:
    """Every member as its kept and flipped subnetworks: nothing else is fitted."""

    def __init__(self, options: TurnOver, ensemble: Ensemble) -> None:
        """Take members and models; nothing runs yet."""
        self._options, self._ensemble = options, ensemble
        self.whole = [self._subnetworks(member, compiles=False) for member in ensemble.whole]

    @property
    def executor(self) -> Executor:
        """Return who computes tiles; other processes are given the views that were made until now."""
        return self._ensemble.workers()

    @cached_property
    def _models(self) -> list[list[Subnetworks]]:
        compiles = self._ensemble.compiles
        return [
            [self._subnetworks(member, compiles=compiles) for member in replicas] for replicas in self._ensemble.masked
        ]

    def _subnetworks(self, member: Member, *, compiles: bool) -> Subnetworks:
        sites = _site_numbers(member, self._options.sites)
        compiled = torch.compile(member.model, dynamic=True) if compiles else None
        return Subnetworks(member, self._ensemble.measure, self._options.against, sites, compiled)

    def score(self, queries: Sequence[Batch], ids: Tensor) -> Blocks:
        """Return queries in blocks that score instances of these ids."""
        with explained_failures():
            # What holds for one replica of a model holds for all.
            pairs = len(ids) * len(queries)
            some = sample(queries, pairs)
            are_last = [ends_in_last_layer(replicas[0], some) for replicas in self._models]
            nulls = self._options.nulls or _null_count(ids, is_cheap=all(are_last))
            routes = [
                replace(route, subnetworks=replace(route.subnetworks, member=one.member, compiled=one.compiled))
                for replicas, is_last in zip(self._models, are_last, strict=True)
                for route in [self._route(replicas[0], queries, pairs, is_last=is_last)]
                for one in replicas
            ]
        beside = ids if pairs <= _FEW_PAIRS else ids[:0]  # null ids and few instances go through in the same passes
        center = self._options.center and not self._has_mean_0(nulls)

        def make(start: int) -> MaskBlock:
            part = queries[start : start + QUERIES_PER_BLOCK]
            with explained_failures():
                return MaskBlock([route.scorer(part) for route in routes], nulls=nulls, center=center, beside=beside)

        path = " / ".join(dict.fromkeys(route.path for route in routes))
        return Blocks(path, QUERIES_PER_BLOCK, make, len(queries), nulls=nulls, centered=self._options.center)

    mean = score

    def own(self, rows: TrainRows, add: Callable[[int], Any]) -> OwnScores:
        """Return the loss of every row in its flipped subnetwork minus that in its kept one."""
        return own_scores(self.whole, rows, add, executor=self.executor, center=self._options.center)

    def tokens(self, row: Batch, queries: Sequence[Batch]) -> np.ndarray:
        """Raise: there are none."""
        raise InfluenceError(
            "estimator='tod' has no scores of training tokens: all tokens of an instance share one mask. Give "
            "estimator='curvature'."
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing: nothing was fitted."""
        return {}

    def _route(self, subnetworks: Subnetworks, queries: Sequence[Batch], pairs: int, *, is_last: bool) -> "_Route":
        """Return the path of a model for so many pairs."""
        if not is_last and pairs > _VERY_FEW_PAIRS:
            subnetworks = replace(subnetworks, broadcast=subnetworks.broadcasts(sample(queries, pairs)))
        if is_last or pairs <= _FEW_PAIRS:
            return _Route(subnetworks, self._ensemble.memory, is_last=is_last)
        eager, largest = replace(subnetworks, compiled=None), max(queries, key=size_of)
        full_values = eager.full_values(largest)

        def compute(ids: Tensor) -> None:
            with eager.chunk(ids) as chunk:
                eager.scores(largest, full_values, chunk)

        return _Route(
            subnetworks, self._ensemble.memory, ids_per_chunk=eager.ids_per_chunk(self._ensemble.memory, compute)
        )

    def _has_mean_0(self, nulls: int) -> bool:
        """Tell whether the mean of null ids is 0, and that of a few would only add noise.

        Where each unit is kept by half of all ids, a null id's score and its negative are equally probable.
        """
        if nulls >= _FEWEST_FOR_A_MEAN or self._options.against != "keep":
            return False
        recipes = [one.member.masking.recipe for one in self.whole]
        return all(
            recipe.mode == "forward"
            and recipe.kind in ("counter", "volatile")
            and all(site.keep == 0.5 for site in recipe.sites)
            for recipe in recipes
        )


def _null_count(ids: Tensor, *, is_cheap: bool) -> int:
    """Return how many null ids are scored beside instances: an eighth of them, or 1,024 where they cost nearly nothing.

    Where null ids themselves are asked about, there are 1,024, too.
    """
    if is_cheap or bool((ids >= FIRST_RESERVED_ID).all()):
        return NULL_IDS
    return min(NULL_IDS, max(_FEWEST_NULLS, len(ids) // _NULL_SHARE))


def _site_numbers(member: Member, paths: Sequence[str] | None) -> frozenset[int] | None:
    """Return the numbers of the sites with these paths, or raise where there is no such site; None: all."""
    if paths is None:
        return None
    known = [site.path for site in member.masking.recipe.sites]
    unknown = [path for path in paths if path not in known]
    if unknown or not paths:
        raise InfluenceError(
            f"sites={list(paths)!r}: must be sites of this model, got {', '.join(map(repr, unknown)) or 'none'}. "
            f"Its sites: {', '.join(map(repr, known))}."
        )
    return frozenset(known.index(path) for path in paths)


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
class _Route:
    """The path that one member takes: forward passes, or one matrix product with the last layer."""

    subnetworks: Subnetworks
    memory: int
    ids_per_chunk: int = _FEW
    is_last: bool = False

    @property
    def path(self) -> str:
        return LAST_LAYER if self.is_last else self.subnetworks.path

    def scorer(self, queries: Sequence[Batch]) -> Callable[[Tensor], Tensor]:
        if self.is_last:
            with suppress(OtherLayerError):
                return LastLayerScorers(self.subnetworks, queries, self.memory)
        return _Passes(self.subnetworks, queries, self.ids_per_chunk)


class _Passes:
    """Scores of any instances on a fixed list of queries, by forward passes."""

    def __init__(self, subnetworks: Subnetworks, queries: Sequence[Batch], ids_per_chunk: int) -> None:
        self._subnetworks, self._ids_per_chunk = subnetworks, ids_per_chunk
        self._queries = [(query, subnetworks.full_values(query)) for query in queries]

    @torch.no_grad()  # here too: an executor may call it in a thread of its own, where gradients are on
    def __call__(self, ids: Tensor) -> Tensor:
        result = torch.empty((len(ids), len(self._queries)))
        for start in range(0, len(ids), self._ids_per_chunk):
            part = ids[start : start + self._ids_per_chunk]
            with self._subnetworks.chunk(part) as chunk:
                for column, (query, full_values) in enumerate(self._queries):
                    scores = self._subnetworks.scores(query, full_values, chunk)
                    result[start : start + len(part), column] = scores.cpu()
        return result


class MaskBlock:
    """A block of queries with the scores of null ids."""

    def __init__(
        self, scorers: Sequence[Callable[[Tensor], Tensor]], *, nulls: int, center: bool, beside: Tensor
    ) -> None:
        """Score null ids: their mean is the offset of each query if `center`, their standard deviation its noise.

        Instances `beside` them go through in the same passes, and their scores are kept.
        """
        self._scorers = scorers
        ids = torch.cat([null_ids(nulls), beside])
        scored = np.stack([scorer(ids).numpy() for scorer in scorers])  # [members, ids, queries]
        null_scores, self._beside = scored[:, :nulls], (beside, scored[:, nulls:])
        means = finite_mean(null_scores, 1)
        self._offsets = means.astype(np.float32) if center else np.zeros(means.shape, np.float32)
        self.offset = self._offsets.mean(0)
        self.member_nulls = null_scores - self._offsets[:, None, :]

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        """Yield what `finish` makes of the scores of each part of the instances, in their order."""
        return executor.map(_FinishedTile(self, finish), parts)

    def tile(self, ids: Tensor) -> Tile:
        """Return centered scores."""
        beside, scores = self._beside
        if not torch.equal(ids, beside):
            scores = np.stack([scorer(ids).numpy() for scorer in self._scorers])
        return Tile(scores - self._offsets[:, None, :])


@dataclass(frozen=True)
class _FinishedTile:
    block: MaskBlock
    finish: Finish

    def __call__(self, part: Part) -> Any:
        return self.finish(part, self.block.tile(part.ids))
