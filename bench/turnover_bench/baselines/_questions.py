"""What all baselines share: the three questions they answer, the rows and queries of a question, and its cache folder.

Every question has a folder of its own below the cache, named after its rows and queries. It is a store with an
identity: made with other data, another model or other options, it is rejected with the names of what differs.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from turnover.layers import as_ids
from turnover.scores import Scores
from turnover.storage import ArraySpec, TileStore, plain
from turnover.training import TrainingRecipe, digest_of
from turnover_bench.errors import BaselineError

Tile = dict[str, np.ndarray]
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Question:
    """What a method is asked: pairs of rows and queries, means over the queries, or each row on itself."""

    kind: Literal["pairs", "mean", "self"]
    recipe: TrainingRecipe
    rows: Tensor
    queries: TrainingRecipe | None

    @property
    def name(self) -> str:
        """The name of the question's folder, the same for the same rows and queries."""
        queries = [] if self.queries is None else [self.queries.inputs, self.queries.targets]
        return f"{self.kind}-{digest_of(self.rows, *queries)[:12]}"

    @property
    def ids(self) -> np.ndarray:
        """The instance ids of the rows."""
        return self.recipe.row_ids[self.rows.numpy()]

    @property
    def shape(self) -> tuple[int, int]:
        """[rows, queries] for pairs, [rows, 1] for means, [1, rows] for each row on itself.

        Methods work through the columns: queries, their mean, or rows.
        """
        if self.queries is None:
            return 1, len(self.rows)
        return len(self.rows), len(self.queries) if self.kind == "pairs" else 1

    def scores(self, values: np.ndarray, *, path: str, provenance: Mapping[str, Any], **more: Any) -> Scores:
        """Return values of the question's `shape` as Scores [rows, queries] for pairs, else [rows].

        `path` and `provenance` name the method; the question adds itself to both.
        """
        asked = {"pairs": "", "mean": f"; mean of {len(self.queries or ())} queries", "self": "; each row on itself"}
        return Scores(
            values if self.kind == "pairs" else values.reshape(-1),
            ids=self.ids,
            path=path + asked[self.kind],
            provenance={**provenance, "queries": self.identity()["queries"]},
            **more,
        )

    def identity(self) -> dict[str, Any]:
        """Return checksums of rows and queries."""
        queries = None if self.queries is None else self.queries.data_digest()
        return {"kind": self.kind, "rows": digest_of(self.rows), "queries": queries}


class Baseline(ABC):
    """Answers the three questions about a recipe's rows; a method implements `_score`."""

    def __init__(
        self, recipe: TrainingRecipe, cache: str | os.PathLike[str] | None, identity: Mapping[str, Any] | None
    ) -> None:
        self._recipe = recipe
        self._cache = Cache.of(cache, identity)

    def pairwise(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows, queries]: what each training row does to each query.

        Args:
            queries: a tuple (inputs, targets) in the form of the recipe's.
            ids: instance ids of the rows to score; None: all rows.
            progress: show a bar; None: on a terminal.
        """
        return self._score(self._question("pairs", ids, queries), progress)

    def mean(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: the mean influence of each training row on all queries; arguments as for `pairwise`."""
        return self._score(self._question("mean", ids, queries), progress)

    def self_influence(self, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to itself; arguments as for `pairwise`."""
        return self._score(self._question("self", ids), progress)

    def _question(self, kind: Literal["pairs", "mean", "self"], ids: Any, queries: Any = None) -> Question:
        over = None if kind == "self" else self._recipe.over(queries)
        return Question(kind, self._recipe, _rows_of(self._recipe, ids), over)

    @abstractmethod
    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question."""


@dataclass(frozen=True)
class Cache:
    """A folder for finished tiles of scores, or None; `identity` is what the user says that the numbers depend on."""

    folder: Path | None
    identity: dict[str, Any]

    @classmethod
    def of(cls, cache: str | os.PathLike[str] | None, identity: Mapping[str, Any] | None) -> "Cache":
        """Return the cache that a user asks for; raise where a folder comes without an identity."""
        if cache is not None and identity is None:
            raise BaselineError(
                f"cache={os.fspath(cache)!r} needs identity=: a dict that says what the numbers depend on and the "
                'recipe cannot tell, such as identity={"model": "mlp, version 3"}.'
            )
        # Checked before hours of computing: the scores carry it as JSON.
        return cls(None if cache is None else Path(cache), plain(identity or {}, where="identity"))

    def at(self, *names: str) -> Path | None:
        """Return a folder below the cache, or None."""
        return None if self.folder is None else self.folder.joinpath(*names)

    def tiles(
        self,
        question: Question,
        method_identity: Callable[[], Mapping[str, Any]],
        arrays: Mapping[str, ArraySpec],
        compute: Callable[[int], Tile],
        *,
        on_cached: Callable[[int], Any] = lambda tile: None,
    ) -> Iterator[Tile]:
        """Yield all tiles of arrays in order; those in the folder are read, the others are computed and kept.

        `method_identity` returns what tiles depend on besides the user's identity; it is called only with a folder.
        """
        folder = self.at(question.name)
        if folder is None:
            yield from map(compute, range(next(iter(arrays.values())).tiles))
            return
        identity = {
            **method_identity(),
            **question.identity(),
            "threads": torch.get_num_threads(),  # another number gives other sums in the last bit
            "identity": self.identity,
        }
        with TileStore.open_for_writing(folder, identity=identity, arrays=arrays) as store:
            pending = store.pending()
            for tile in sorted(set(range(store.tiles)) - set(pending)):
                on_cached(tile)
            for tile in pending:
                store.write(tile, compute(tile))
            if not store.complete:
                store.finish({"kind": "parts of an answer"})
        stored = TileStore.open_for_reading(folder)
        opened = {key: stored.array(key) for key in arrays}
        for tile in range(stored.tiles):
            yield {key: np.asarray(opened[key][spec.region(tile)]) for key, spec in arrays.items()}


def check_unchanged(recipe: TrainingRecipe, data: str, cure: str) -> None:
    """Raise, with the cure, where a recipe's rows no longer have the digest of a training or preparation."""
    if recipe.data_digest() != data:
        raise BaselineError(
            "the training was recorded, or this method prepared, on other rows than the recipe has now (inputs, "
            f"targets or ids changed). Give the recipe of that time, or start again: {cure}."
        )


def _rows_of(recipe: TrainingRecipe, ids: Any) -> Tensor:
    """Return the rows of instance ids in the given order, all rows where several share an id; None: all rows."""
    if ids is None:
        return torch.arange(len(recipe))
    known, chosen = recipe.row_ids, as_ids(ids).cpu().numpy()
    if not len(chosen) or len(np.unique(chosen)) < len(chosen):
        raise BaselineError("ids= is empty or has an id twice. Give each id to score once, or None for all rows.")
    unknown = np.setdiff1d(chosen, known)
    if len(unknown):
        raise BaselineError(
            f"{len(unknown)} of {len(chosen)} ids are not among the recipe's rows: {unknown[:_SHOWN].tolist()}. "
            "Give ids of rows that were trained on."
        )
    order = np.argsort(known, kind="stable")
    first, last = (np.searchsorted(known, chosen, side=side, sorter=order) for side in ("left", "right"))
    return torch.from_numpy(np.concatenate([order[start:stop] for start, stop in zip(first, last, strict=True)]))
