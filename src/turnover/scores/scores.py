"""Scores of training instances: on every query, or one each."""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.scores import stored

from .about import Name, Over, name_of
from .arrays import Floats, Ints, closed, instance_ids
from .averages import mean_over_queries, mean_without_failed
from .joining import joined
from .labeled import from_dataset, to_dataset
from .lists import Lists, lists_of, merged
from .lookup import columns_of, rows_of
from .per_query import is_per_row, part_of
from .ranking import ranks
from .source import blocks
from .tables import from_table, long_table, wide_table
from .text import counted, scores_text
from .tokens import WithTokens, joined_tokens, open_tokens, save_tokens
from .top import Top

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]
    import xarray


class Scores(WithTokens):
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
        spread = None if is_per_row(self._null_spread, self.shape) else self._null_spread
        top = Top.of(
            lists,
            queries=self._queries,
            null_spread=None if spread is None else np.atleast_1d(spread),
            **vars(self._about),
        )
        return top if self._null is None else top.against(self._null.reshape(len(self._null), -1))

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
        path = f"{self.path}; mean of {counted(len(self._queries), 'query')}".removeprefix("; ")
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
        chosen = None if queries is None else [name_of(one) for one in queries]
        columns = None if chosen is None else columns_of(chosen, self._queries)
        selected = Scores(
            closed(self._values.take(rows, columns)),
            ids=self._ids if rows is None else self._ids[rows],
            queries=self._queries if columns is None else chosen,
            stderr=None if self._stderr is None else closed(self._stderr.take(rows, columns)),
            null=self._null if self._null is None or columns is None else self._null[:, columns],
            null_spread=part_of(self._null_spread, self.shape, rows, columns),
            offset=part_of(self._offset, self.shape, rows, columns),
            **vars(self._about),
        )
        if self._tokens is None:
            return selected
        return selected.with_tokens(self._tokens if rows is None else self._tokens.take(rows))

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
        given = list(parts)
        scores = cls(**joined(given, over))
        tokens = joined_tokens([part._tokens for part in given])
        return scores if tokens is None else scores.with_tokens(tokens)

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
        no room for standard errors, and neither has room for `null` or `tokens`.

        Args:
            long: one row a pair, with columns instance, query, score and, where known, stderr.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> float(scores.to_pandas().loc[8, "b"])
            3.0
            >>> scores.to_pandas(long=True)
               instance query  score
            0         7     a    0.5
            1         7     b    0.0
            2         8     a   -1.0
            3         8     b    3.0
        """
        return long_table(self) if long else wide_table(self)

    @classmethod
    def from_pandas(cls, table: "pandas.DataFrame | pandas.Series", **given: Any) -> "Scores":
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
        return cls(**{**from_table(table), **given})

    def to_xarray(self) -> "xarray.Dataset":
        """Return a Dataset over instance and query: score and, where known, stderr, offset, null_spread and null.

        Needs xarray: pip install 'turnover[store]'. Nothing but `tokens` is lost; `Scores.from_xarray` reads it.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> float(scores.to_xarray().score.sel(instance=8, query="b"))
            3.0
        """
        return to_dataset(self)

    @classmethod
    def from_xarray(cls, dataset: "xarray.Dataset") -> "Scores":
        """Return the scores in a Dataset of `to_xarray`.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8])
            >>> Scores.from_xarray(scores.to_xarray()).equals(scores)
            True
        """
        return cls(**from_dataset(dataset))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write everything to a folder, which `Scores.open` reads. Nothing is lost.

        Needs zarr: pip install 'turnover[store]'. Saving that was interrupted goes on where it was, and the same
        scores may be saved to the same folder again.

        Args:
            folder: new or empty.

        Raises:
            StoreError: the folder holds something else, or cannot be written.

        Example:
            >>> import tempfile
            >>> scores, folder = Scores([1.0, 2.0], ids=[7, 8]), tempfile.mkdtemp()
            >>> scores.save(folder)
            >>> Scores.open(folder).equals(scores)
            True
        """
        stored.save(self, folder)
        if self._tokens is not None:
            save_tokens(self._tokens, folder)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Scores":
        """Return the scores in a folder; values are read when they are used.

        `values` and `rank` read all of them, once; `select` reads what is asked for; `top` and `mean` read some rows
        at a time and keep none.

        Args:
            folder: of `save`, or the `out=` of a call that has finished.

        Raises:
            StoreError: there are no scores, or they are not finished; the message says how to go on.
            StoreDamagedError: the folder is damaged.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> Scores([[1.0, 2.0], [3.0, 4.0]], ids=[7, 8]).save(folder)
            >>> Scores.open(folder).select(ids=[8]).values
            array([[3., 4.]], dtype=float32)
        """
        scores = cls(**stored.opened(folder))
        tokens = open_tokens(folder, len(scores))
        return scores if tokens is None else scores.with_tokens(tokens)

    def __repr__(self) -> str:
        """Return a summary that a person can read."""
        return scores_text(self)

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
