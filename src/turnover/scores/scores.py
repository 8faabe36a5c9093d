"""Scores of training instances: on every query, or one each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError

from .about import Name, Over, about, names
from .arrays import Floats, Ints, close, closed, instance_ids, same
from .averages import mean_over_queries, mean_without_failed, spread
from .lists import Lists, lists_of, merged
from .lookup import columns_of, rows_of
from .per_query import is_per_row, null_scores, part_of, per_query
from .ranking import ranks
from .source import Source, blocks, source_of
from .top import Top

if TYPE_CHECKING:
    import pandas
    import xarray


class Scores:
    """Influence of training instances, on every query [n, m] or one number each [n].

    Positive always means: the training instance helps. The unit of a score is that of what was measured on the query:
    for "loss", the query's loss without the instance minus its loss with it. Arrays are float32 on the CPU and closed
    to writing. A pair that could not be computed is NaN; it is left out of `top` and `mean` and ranked last.

    Args:
        values: scores [n, m], or [n] where an instance has one (mean influence, self-influence). An array that is
            float32 and closed to writing is used without a copy.
        ids: instance ids [n]; rows of one group share theirs.
        queries: names of the m queries, strings or integers; None: numbered from 0.
        unit: "loss", "probability", "margin", or the name of the function that measured the query.
        stderr: standard errors from replicas, in the shape of values; None: `null_spread` takes their place.
        null: scores of never-trained ids on the same queries, [j, m] or [j]; None: not kept.
        null_spread: standard deviation of the scores of never-trained ids, [m], for values [n] one number or [n];
            None: that of `null`.
        offset: mean score of never-trained ids that was subtracted, [m], for values [n] one number or [n]; None:
            nothing was.
        path: how the scores were computed, for people to read.
        replicas: over how many networks they are averaged.
        provenance: all that they depend on (model recipe, seed, data, version, options), as JSON could hold it.

    Raises:
        ScoresError: shapes, types or names do not fit.

    Example:
        >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["is it good?", "is it bad?"])
        >>> scores.top(1).helpful_ids
        array([[7],
               [8]])
        >>> scores.mean().values
        array([0.25, 1.  ], dtype=float32)
    """

    def __init__(
        self,
        values: ArrayLike | Source,
        *,
        ids: ArrayLike,
        queries: Sequence[Name] | None = None,
        unit: str = "loss",
        stderr: ArrayLike | Source | None = None,
        null: ArrayLike | None = None,
        null_spread: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        path: str = "",
        replicas: int = 1,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self._values = source_of(values, "values")
        shape = self._values.shape
        if len(shape) not in (1, 2):
            raise ScoresError(f"values have shape {list(shape)}; give [instances, queries] or [instances].")
        self._ids = instance_ids(ids)
        if len(self._ids) != shape[0]:
            raise ScoresError(f"there are {len(self._ids)} ids and {shape[0]} rows of values; give one id a row.")
        if queries is not None and len(shape) == 1:
            raise ScoresError("values are [instances], one score each, so queries= has nothing to name.")
        self._queries = None if len(shape) == 1 else names(queries, shape[1])
        self._about = about(unit, path, replicas, provenance)
        self._null = None if null is None else null_scores(null, shape)
        if null_spread is None and self._null is not None:
            null_spread = spread(self._null)
        self._null_spread = None if null_spread is None else per_query(null_spread, shape, "null_spread")
        self._offset = None if offset is None else per_query(offset, shape, "offset")
        self._stderr = None if stderr is None else source_of(stderr, "stderr")
        if self._stderr is not None and self._stderr.shape != shape:
            raise ScoresError(f"stderr have shape {list(self._stderr.shape)}; give that of values, {list(shape)}.")

    @property
    def values(self) -> Floats:
        """Return the scores, float32 [n, m] or [n]; positive: the training instance helps."""
        return self._values.whole

    @property
    def stderr(self) -> Floats | None:
        """Return standard errors in the shape of values; None: not known.

        They come from the replicas; for one replica they are the spread of the never-trained ids.
        """
        if self._stderr is not None:
            return self._stderr.whole
        return None if self._null_spread is None else np.broadcast_to(self._null_spread, self.shape)

    @property
    def ids(self) -> Ints:
        """Return the instance ids, int64 [n]."""
        return self._ids

    @property
    def queries(self) -> tuple[Name, ...] | None:
        """Return the names of the m queries; None where an instance has one score."""
        return self._queries

    @property
    def unit(self) -> str:
        """Return what scores are differences of."""
        return self._about.unit

    @property
    def offset(self) -> Floats | None:
        """Return the mean score of never-trained ids that was subtracted; None: nothing was.

        It has shape [m]; for values [n] it is one number, or [n] where every row is a query of its own.
        """
        return self._offset

    @property
    def null(self) -> Floats | None:
        """Return the scores of never-trained ids on the same queries, [j, m] or [j]; None: not kept."""
        return self._null

    @property
    def null_spread(self) -> Floats | None:
        """Return the standard deviation of never-trained ids' scores, in the shape of `offset`; None: not known."""
        return self._null_spread

    @property
    def path(self) -> str:
        """Return how the scores were computed."""
        return self._about.path

    @property
    def replicas(self) -> int:
        """Return over how many networks the scores are averaged."""
        return self._about.replicas

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Return all that the scores depend on."""
        return self._about.provenance

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [instances, queries] or [instances]."""
        return self._values.shape

    @property
    def folder(self) -> str | None:
        """Return the folder that values are still to be read from; None: they are in memory."""
        return self._values.folder

    @property
    def replica_stderr(self) -> Floats | None:
        """Return the standard errors that came from replicas; None: `stderr` is the spread of never-trained ids."""
        return None if self._stderr is None else self._stderr.whole

    def top(self, k: int, *, query: Name | None = None) -> Top:
        """Return the k most helpful and the k most harmful instances of every query.

        Args:
            k: how many; where there are fewer, the id is −1.
            query: the name of one query; None: all.

        Example:
            >>> Scores([0.5, -1.0, 2.0], ids=[7, 8, 9]).top(2).harmful_ids
            array([[8, 7]])
        """
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScoresError(f"k={k!r}; give how many instances to list, from 1.")
        if query is not None:
            return self.select(queries=[query]).top(k)
        lists = self._lists(0, 0, self._values.rows(0, 0), int(k))
        for start, stop, values in blocks(self._values):
            lists = merged([lists, self._lists(start, stop, values, int(k))], int(k))
        known = self._null_spread is not None and not is_per_row(self._null_spread, self.shape)
        return Top.of(
            lists,
            queries=self._queries,
            null_spread=np.atleast_1d(self._null_spread) if known else None,
            **vars(self._about),
        )

    def rank(self) -> Ints:
        """Return the place of every instance, in the shape of values: 0 for the most helpful, failed pairs last.

        Among equal scores the smaller id comes first, as in `top`.

        Example:
            >>> Scores([0.5, -1.0, 2.0], ids=[7, 8, 9]).rank()
            array([1, 2, 0])
        """
        values = self.values
        return ranks(values if values.ndim == 2 else values[:, None], self._ids).reshape(self.shape)

    def mean(self) -> "Scores":
        """Return each instance's mean over the queries, as Scores [n]; pairs that failed are left out.

        How the errors of different queries go together cannot be known from their standard errors. So the standard
        error of a mean is the spread of the never-trained ids' own means over the same queries, and is not known where
        their scores were not kept (`null`). `Influence.mean` gives that of the replicas.

        Example:
            >>> Scores([[1.0, 3.0], [0.0, -1.0]], ids=[7, 8]).mean().values
            array([ 2. , -0.5], dtype=float32)
        """
        if self._queries is None:
            raise ScoresError("these are already one score an instance; there are no queries to average over.")
        values, offset = mean_over_queries(self._values, self._offset)
        path = f"{self.path}; mean of {len(self._queries)} queries".removeprefix("; ")
        return Scores(
            values,
            ids=self._ids,
            offset=offset,
            null=None if self._null is None else mean_without_failed(self._null),
            **vars(replace(self._about, path=path)),
        )

    def select(self, *, ids: ArrayLike | None = None, queries: Iterable[Name] | None = None) -> "Scores":
        """Return the scores of some instances, of some queries, or both, in the order asked for.

        Of scores on disk only what is asked for is read.

        Args:
            ids: instance ids; where rows share an id, all of them are returned. None: all instances.
            queries: names of queries; None: all.

        Raises:
            ScoresError: an id or a name is not among the scores.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> scores.select(ids=[8], queries=["b"]).values
            array([[3.]], dtype=float32)
        """
        rows = None if ids is None else rows_of(instance_ids(ids), self._ids)
        columns = None if queries is None else columns_of(list(queries), self._queries)
        return Scores(
            closed(self._values.take(rows, columns)),
            ids=self._ids if rows is None else self._ids[rows],
            queries=self._queries if self._queries is None or columns is None else [self._queries[c] for c in columns],
            stderr=None if self._stderr is None else closed(self._stderr.take(rows, columns)),
            null=self._null if self._null is None or columns is None else self._null[:, columns],
            null_spread=part_of(self._null_spread, self.shape, rows, columns),
            offset=part_of(self._offset, self.shape, rows, columns),
            **vars(self._about),
        )

    @classmethod
    def concat(cls, parts: Iterable["Scores"], *, over: Over = "queries") -> "Scores":
        """Return several results as one: more queries for the same instances, or more instances for the same queries.

        Queries that are numbered in every part are numbered anew. Paths that differ are listed. In the provenance only
        the entry "queries" (or "ids"), if there is one, may differ; it becomes a list.

        Args:
            parts: two results or more.
            over: "queries" or "ids".

        Raises:
            ScoresError: the parts are scores of different things; the message names all that differs.

        Example:
            >>> one, two = Scores([[1.0]], ids=[7]), Scores([[2.0]], ids=[7])
            >>> Scores.concat([one, two]).values
            array([[1., 2.]], dtype=float32)
        """
        from .joining import joined

        return cls(**joined(list(parts), over))

    def equals(self, other: object) -> bool:
        """Tell whether values and all that is known about them are the same in both, NaN equal to NaN.

        Example:
            >>> Scores([1.0], ids=[7]).equals(Scores([1.0], ids=[7], unit="margin"))
            False
        """
        if not isinstance(other, Scores) or self._about != other._about or self._queries != other._queries:
            return False
        arrays = ("_ids", "_null", "_null_spread", "_offset", "values", "stderr")
        return all(same(getattr(self, name), getattr(other, name)) for name in arrays)

    def to_numpy(self) -> Floats:
        """Return a copy of the values that may be changed.

        Example:
            >>> Scores([1.0, 2.0], ids=[7, 8]).to_numpy()
            array([1., 2.], dtype=float32)
        """
        return np.array(self.values)

    def to_pandas(self, *, long: bool = False) -> "pandas.DataFrame":
        """Return a table: instances down, queries across; or one row a pair.

        Needs pandas: pip install 'turnover[store]'. `Scores.from_pandas` reads both forms. The wide form of [n, m] has
        no room for standard errors, and neither has room for `null`.

        Args:
            long: one row a pair, with columns instance, query, score and, where known, stderr.

        Example:
            >>> Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"]).to_pandas()
            query       a    b
            instance          
            7         0.5  0.0
            8        -1.0  3.0
        """
        from .tables import long_table, wide_table

        return long_table(self) if long else wide_table(self)

    @classmethod
    def from_pandas(cls, table: "pandas.DataFrame | pandas.Series[Any]", **given: Any) -> "Scores":
        """Return the scores in a table: of `to_pandas`, or any other with ids as its index and queries as columns.

        Args:
            table: a DataFrame, wide or long; or a Series, one score an instance.
            **given: unit, path, offset and so on, as for the class; what is not given is taken from `table.attrs`,
                where `to_pandas` keeps it.

        Example:
            >>> scores = Scores([0.5, -1.0], ids=[7, 8], unit="margin")
            >>> Scores.from_pandas(scores.to_pandas()).equals(scores)
            True
        """
        from .tables import from_table

        return cls(**{**from_table(table), **given})

    def to_xarray(self) -> "xarray.Dataset":
        """Return a Dataset over instance and query: score and, where known, stderr, offset, null_spread and null.

        Needs xarray: pip install 'turnover[store]'. Nothing is lost; `Scores.from_xarray` reads it.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> float(scores.to_xarray().score.sel(instance=8, query="b"))
            3.0
        """
        from .labelled import to_dataset

        return to_dataset(self)

    @classmethod
    def from_xarray(cls, dataset: "xarray.Dataset") -> "Scores":
        """Return the scores in a Dataset of `to_xarray`.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8])
            >>> Scores.from_xarray(scores.to_xarray()).equals(scores)
            True
        """
        from .labelled import from_dataset

        return cls(**from_dataset(dataset))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values for numpy functions."""
        return np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __repr__(self) -> str:
        """Return a summary that a person can read."""
        from .text import scores_text

        return scores_text(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(close(state))

    def _lists(self, start: int, stop: int, values: Floats, k: int) -> Lists:
        """Return the lists of the rows from `start` to `stop`, whose values are given."""
        stderr = None
        if self._stderr is not None:
            stderr = self._stderr.rows(start, stop)
        elif self._null_spread is not None:
            stderr = np.broadcast_to(self._null_spread, self.shape)[start:stop]
        if values.ndim == 1:
            values, stderr = values[:, None], None if stderr is None else stderr[:, None]
        return lists_of(values, self._ids[start:stop], stderr, k)
