"""Scores of training instances: on every query, or one each."""

import copy
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.ids import Ints, Name, Names, strings_in

from ._about import Over, check_listed, columns_of, is_per_row, method_of, part_of, query_name, rows_of
from ._arrays import Floats, blocks, closed, mean_over_queries, row_means
from ._content import joined
from ._formats import (
    counted,
    from_dataset,
    from_table,
    html_of,
    long_table,
    scores_facts,
    text_of,
    to_dataset,
    wide_table,
)
from ._judged import JudgedContent
from ._plots import plot_scores
from ._ranking import Lists, lists_of, merged, ranks
from ._store import open_scores, save_scores
from .tokens import TokenScores
from .top import Top

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]
    import torch
    import xarray
    from matplotlib.figure import Figure

_SHOWN = 5
_MOST_LISTED = 10_000_000  # places of a list beyond the instances there are: they take memory all the same


class Scores(JudgedContent):
    """Influence of training instances, on every query [n, m] or one number each [n].

    Positive always means: the training instance helps. The unit of a score is that of what was measured on the query:
    for "loss", the query's loss without the instance minus its loss with it. Arrays are float32 on the CPU and closed
    to writing. A pair that could not be computed is NaN; it is left out of `top` and `mean` and ranked last.

    Args:
        values: scores [n, m], or [n] where an instance has one (mean influence, self-influence). An array that is
            float32 and read-only is used without a copy.
        ids: what the instances are called [n], integers or strings; rows of one group share theirs.
        queries: names of the m queries, strings or integers; None: numbered from 0.
        unit: "loss", "probability", "margin", or the name of the function that measured the query.
        stderr: standard errors from replicas, in the shape of values; None: `null_spread` takes their place.
        null: scores of null ids on the same queries, [j, m] or [j]; None: not kept.
        null_spread: standard deviation of the scores of null ids, [m], for values [n] one number or [n];
            None: that of `null`.
        offset: mean score of null ids that was subtracted, [m], for values [n] one number or [n]; None:
            nothing was.
        path: how the scores were computed, for people to read.
        replicas: over how many networks they are averaged.
        provenance: all that they depend on (model recipe, seed, data, version, options), as JSON could hold it.
        standardized: whether each query's scores are divided by their root mean square.
        mask_ids: the integers that masks are made of [n]; None: `ids`, of strings their hashes.

    Raises:
        ScoresError: shapes, types or names do not fit.
        InstanceIdError: two instances have one name.

    Example:
        >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["is it good?", "is it bad?"])
        >>> scores.top(1).helpful_ids
        array([[7],
               [8]])
        >>> scores.mean().values
        array([0.25, 1.  ], dtype=float32)
    """

    @property
    def method(self) -> str:
        """Return which estimator made the scores: "tod" or "curvature"; "" where that is not known."""
        return method_of(self.provenance)

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
            raise ScoresError(f"k must be an integer >= 1, the number of instances to list, got {k!r}.")
        if k > max(len(self), _MOST_LISTED):
            raise ScoresError(f"k={k:,} is beyond the {len(self):,} instances there are. Give k={max(len(self), 1):,}.")
        if query is not None:
            return self.select(queries=[query]).top(k)
        lists = self._lists(0, 0, self._values.rows(0, 0), int(k))
        for start, stop, values in blocks(self._values):
            lists = merged([lists, self._lists(start, stop, values, int(k))], int(k))
        spread = None if is_per_row(self._null_spread, self.shape) else self._null_spread
        null_spread = None if spread is None else np.atleast_1d(spread)
        top = Top.of(lists, queries=self._queries, null_spread=null_spread, **vars(self._about))
        top = top.named(self._names)
        top = top.seen_by(self.views) if self._null is None else top
        return top if self._null is None else top.against(self._null.reshape(len(self._null), -1)).seen_by(self.views)

    def rank(self) -> Ints:
        """Return the place of every instance, in the shape of values: 0 for the most helpful, failed pairs last.

        Among equal scores the smaller id comes first, as in `top`.

        Example:
            >>> Scores([0.5, -1.0, 2.0], ids=[7, 8, 9]).rank()
            array([1, 2, 0])
        """
        values = self.values
        return ranks(values if values.ndim == 2 else values[:, None], self._mask_ids).reshape(self.shape)

    def mean(self) -> "Scores":
        """Return each instance's mean over the queries, as Scores [n]; pairs that failed are left out.

        How the errors of different queries go together cannot be known from their standard errors. So the standard
        error of a mean is the standard deviation of null ids' own means over the same queries, and is not known where
        their scores were not kept (`null`). `Influence.mean` gives that of the replicas.

        Example:
            >>> Scores([[1.0, 3.0], [0.0, -1.0]], ids=[7, 8]).mean().values
            array([ 2. , -0.5], dtype=float32)
        """
        if self._queries is None:
            raise ScoresError("these are already one score per instance; there are no queries to average over.")
        values, offset = mean_over_queries(self._values, self._offset)
        path = f"{self.path}; mean of {counted(len(self._queries), 'query')}".removeprefix("; ")
        return Scores(
            values,
            ids=self._ids,
            mask_ids=self._mask_ids,
            offset=offset,
            null=None if self._null is None else row_means(self._null),
            **vars(replace(self._about, path=path)),
        ).seen_by(self.views)

    def select(self, *, ids: ArrayLike | None = None, queries: Iterable[Name] | None = None) -> "Scores":
        """Return the scores of some instances, of some queries, or both, in the order asked for.

        Of scores on disk only what is asked for is read.

        Args:
            ids: of instances, as they were given; where rows share an id, all of them are returned. None: all.
            queries: names of queries; None: all.

        Raises:
            ScoresError: an id or a name is not among the scores; near ones are suggested.

        Example:
            >>> named = Scores([0.5, -1.0], ids=["doc-1", "doc-2"])
            >>> named.select(ids=["doc-2"]).values
            array([-1.], dtype=float32)
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> scores.select(ids=[8], queries=["b"]).values
            array([[3.]], dtype=float32)
        """
        rows = None if ids is None else rows_of(ids, self._mask_ids, self._names)
        check_listed(queries)
        chosen = None if queries is None else [query_name(name) for name in queries]
        columns = None if chosen is None else columns_of(chosen, self._queries)
        selected = Scores(
            closed(self._values.take(rows, columns)),
            ids=self._ids if rows is None else self._ids[rows],
            mask_ids=self._mask_ids if rows is None else self._mask_ids[rows],
            queries=self._queries if columns is None else chosen,
            stderr=None if self._stderr is None else closed(self._stderr.take(rows, columns)),
            null=self._null if self._null is None or columns is None else self._null[:, columns],
            null_spread=part_of(self._null_spread, self.shape, rows, columns),
            offset=part_of(self._offset, self.shape, rows, columns),
            **vars(self._about),
        ).seen_by(self.views)
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
        parts = list(parts)
        scores = cls(**joined(parts, over))
        tokens = TokenScores.concat([part._tokens for part in parts])
        return scores if tokens is None else scores.with_tokens(tokens)

    def tokens(self, row: int) -> Floats:
        """Return the scores of the tokens of one row, float32 [tokens]; positive: the row's training helps this token.

        They are kept by `Influence.self_influence` where the loss has one value per token, [rows, tokens]; a row's own
        score is their mean. A token that does not count (target −100) is NaN, and those behind the last that counts
        are left out.

        Args:
            row: place of the row in `ids` and `values`, from 0.

        Raises:
            ScoresError: scores of tokens were not kept, or there is no such row.

        Example:
            >>> Scores([1.5, 4.0], ids=[7, 8]).with_tokens([[1.0, 2.0], [4.0]]).tokens(0)
            array([1., 2.], dtype=float32)
        """
        if self._tokens is None:
            raise ScoresError(
                "these scores have none of single tokens. Influence.self_influence keeps them where the loss, or any "
                "measure, has one value per token: targets [rows, tokens], or loss(outputs, targets) -> [rows, tokens]."
            )
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < len(self):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScoresError(f"row {row!r} is not there; give its place among the {len(self)} rows, from 0.")
        return self._tokens.row(int(row))

    def named(self, names: Names) -> Self:
        """Return the same scores with ids as users know them; an instance without a name keeps its mask id."""
        scores = copy.copy(self)
        scores._ids = names.shown(self._mask_ids)
        scores._names = Names.of(self._mask_ids, scores._ids)
        return scores

    def with_tokens(self, tokens: TokenScores | Iterable[ArrayLike]) -> Self:
        """Return the same scores with those of single tokens, which `tokens` hands out row by row.

        Args:
            tokens: one array per row, of any length.

        Raises:
            ScoresError: there are not as many as rows, or scores are of queries.

        Example:
            >>> len(Scores([1.5, 4.0], ids=[7, 8]).with_tokens([[1.0, 2.0], [4.0]]).tokens(1))
            1
        """
        kept = tokens if isinstance(tokens, TokenScores) else TokenScores.of_rows(tokens)
        if self._queries is not None or len(kept) != len(self):
            raise ScoresError(
                f"tokens of {len(kept)} rows for scores of shape {list(self.shape)}; give one array for every row of "
                "scores [rows]."
            )
        scores = copy.copy(self)
        scores._tokens = kept
        return scores

    def __getitem__(self, at: Any) -> Floats:
        """Return values as an array of this shape would: `scores[0]`, `scores[:, 3]`, `scores[scores.values < 0]`.

        Rows and columns are places, from 0; strings, or lists of them, are names of instances and queries. `select`
        takes integer ids, too, and keeps all else.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=["doc-1", "doc-2"])
            >>> scores[:, 1], scores["doc-2"]
            (array([0., 3.], dtype=float32), array([-1.,  3.], dtype=float32))
        """
        places: list[Any] = [*at] if isinstance(at, tuple) else [at]
        if isinstance(places[0], str):
            rows = rows_of(places[:1], self._mask_ids, self._names)
            places[0] = int(rows[0]) if len(rows) == 1 else rows
        elif strings_in(places[0]):
            places[0] = rows_of(places[0], self._mask_ids, self._names)
        if len(places) > 1 and isinstance(places[1], str):
            places[1] = int(columns_of(places[1:2], self._queries)[0])
        elif len(places) > 1 and strings_in(places[1]):
            places[1] = columns_of([query_name(name) for name in places[1]], self._queries)
        return self.values[tuple(places)]

    def plot(self, *, query: Name | None = None, k: int = 5) -> "Figure":
        """Return a figure: a histogram of the scores with that of null ids, and the first of both lists.

        Rows of the lists are images or texts where the data is known, else ids. Needs matplotlib: pip install
        'turnover[plot]'. The background is transparent, for light and dark notebooks.

        Args:
            query: the name of one query; None: the first, or the one score of each instance.
            k: length of the lists.

        Raises:
            MissingExtraError: matplotlib is not installed.

        Example:
            >>> figure = Scores([0.5, -1.0, 2.0], ids=["doc-1", "doc-2", "doc-3"]).plot(k=1)
            >>> [axes.get_title(loc="left") for axes in figure.axes]
            ['Scores of 3 training instances', 'Most helpful', 'Most harmful']
        """
        chosen = self if self._queries is None else self.select(queries=[self._queries[0] if query is None else query])
        if self._queries is None and query is not None:
            raise ScoresError("these are one score per instance; there are no queries to choose from.")
        return plot_scores(
            chosen.values.ravel(), None if chosen.null is None else chosen.null.ravel(), chosen.top(k).plotted()
        )

    def to_torch(self) -> "torch.Tensor":
        """Return a copy of the values as a tensor on the CPU.

        Example:
            >>> Scores([1.0, 2.0], ids=[7, 8]).to_torch()
            tensor([1., 2.])
        """
        import torch

        return torch.tensor(self.values)

    def to_numpy(self) -> Floats:
        """Return a copy of the values that may be changed.

        Example:
            >>> Scores([1.0, 2.0], ids=[7, 8]).to_numpy()
            array([1., 2.], dtype=float32)
        """
        return np.array(self.values)

    def to_pandas(self, *, long: bool = False) -> "pandas.DataFrame":
        """Return a table: instances down, queries across; or one row per pair.

        Needs pandas: pip install 'turnover[store]'. `Scores.from_pandas` reads both forms. The wide form of [n, m] has
        no room for standard errors, and neither has room for `null` or `tokens`.

        Args:
            long: one row per pair, with columns instance, query, score and, where known, stderr.

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
            table: a DataFrame, wide or long; or a Series, one score per instance.
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a folder or file, which `Scores.open` reads. Nothing is lost.

        A folder can be read in part. It needs zarr: pip install 'turnover[store]'. Saving that was interrupted resumes
        where it was, and the same scores may be saved to the same folder again. A file whose name ends with .npz suits
        small results, needs NumPy alone, and is there whole or not at all.

        Args:
            path: a folder, new or empty; or a file, which is replaced.

        Raises:
            StoreError: the folder holds something else, or the path cannot be written.

        Example:
            >>> import tempfile
            >>> scores, folder = Scores([1.0, 2.0], ids=[7, 8]), tempfile.mkdtemp()
            >>> scores.save(folder)
            >>> Scores.open(folder).equals(scores)
            True
        """
        save_scores(self, path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Scores":
        """Return the scores in a folder or file; those in a folder are read when they are used.

        `values` and `rank` read all of them, once; `select` reads what is asked for; `top` and `mean` read some rows
        at a time and keep none.

        Args:
            path: of `save`, or the `out=` of a call that has finished.

        Raises:
            StoreError: there are no scores, or they are not finished; the message says how to resume.
            StoreDamagedError: the folder or file is damaged.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> Scores([[1.0, 2.0], [3.0, 4.0]], ids=[7, 8]).save(folder)
            >>> Scores.open(folder).select(ids=[8]).values
            array([[3., 4.]], dtype=float32)
        """
        arguments, tokens = open_scores(path)
        return cls(**arguments) if tokens is None else cls(**arguments).with_tokens(tokens)

    def __repr__(self) -> str:
        """Return a summary that a person can read."""
        return text_of(scores_facts(self))

    def _repr_html_(self) -> str:
        """Return the summary and the first of each list, as a notebook shows them."""
        in_memory = self.folder is None and 0 not in self.shape
        return html_of(scores_facts(self)) + (self.top(_SHOWN).to_html() if in_memory else "")

    def _lists(self, start: int, stop: int, values: Floats, k: int) -> Lists:
        """Return the lists of the rows from `start` to `stop`, whose values are given."""
        stderr = None
        if self._stderr is not None:
            stderr = self._stderr.rows(start, stop)
        elif self._null_spread is not None:
            stderr = np.broadcast_to(self._null_spread, self.shape)[start:stop]
        if values.ndim == 1:
            values, stderr = values[:, None], None if stderr is None else stderr[:, None]
        return lists_of(values, self._mask_ids[start:stop], stderr, k)
