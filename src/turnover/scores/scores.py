"""Scores of training instances: on every query, or one each."""

import copy
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError
from turnover.ids import Ints, Name, Names, strings_in
from turnover.storage import TileStore
from turnover.tables import Facts, counted, html_of, listed, number_range, text_of

from ._about import (
    ATTRIBUTES,
    SIGN,
    About,
    Over,
    agreed,
    columns_of,
    joined_names,
    method_of,
    null_scores,
    per_query,
    query_names,
    rows_of,
)
from ._arrays import (
    Bools,
    Floats,
    OfInstances,
    Source,
    TokenScores,
    blocks,
    closed,
    load_package,
    load_pandas,
    mean_over_queries,
    near,
    row_means,
    same,
    source_of,
    spread,
)
from ._files import arrays_of, attributes_of, read_result, write_result
from ._lists import plot_lists
from .significance import (
    FEWEST_REPLICAS,
    Noise,
    checked_level,
    discoveries,
    interval_tails,
    noise_of,
    normal_limit,
    null_p_values,
    student_limit,
)
from .top import Top, ranks

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]
    import torch
    import xarray
    from matplotlib.figure import Figure

_SHOWN = 5
_MOST_LISTED = 10_000_000  # places of a list beyond the instances there are: they take memory all the same
_NOISE_HINT = (
    "Train 3 replicas or more (turnover.wrap(..., replicas=3), or an ensemble of models), or keep the scores of "
    "null ids: turnover.Influence does, as null=."
)


class Scores(OfInstances):
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

    _tokens: TokenScores | None = None

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
        standardized: bool = False,
        mask_ids: ArrayLike | None = None,
    ) -> None:
        self._values = source_of(values, "values")
        shape = self._values.shape
        if len(shape) not in (1, 2):
            raise ScoresError(f"values must have shape [instances, queries] or [instances], got {list(shape)}.")
        super().__init__(ids, mask_ids)
        if len(self._ids) != shape[0]:
            raise ScoresError(f"there are {len(self._ids)} ids and {shape[0]} rows of values; give one id per row.")
        if queries is not None and len(shape) == 1:
            raise ScoresError("values are [instances], one score each, so queries= has nothing to name.")
        self._queries = None if len(shape) == 1 else query_names(queries, shape[1])
        self._about = About(unit, path, replicas, dict(provenance or {}), standardized)
        self._null = None if null is None else null_scores(null, shape)
        if null_spread is None and self._null is not None:
            null_spread = spread(self._null)
        self._null_spread = per_query(null_spread, shape, "null_spread")
        self._offset = per_query(offset, shape, "offset")
        self._stderr = None if stderr is None else source_of(stderr, "stderr")
        if self._stderr is not None and self._stderr.shape != shape:
            raise ScoresError(f"stderr must have the shape of values, {list(shape)}, got {list(self._stderr.shape)}.")
        if self._stderr is not None and self._stderr.folder is None and (self._stderr.whole < 0).any():
            raise ScoresError(f"stderr must be >= 0 everywhere, got {float(np.nanmin(self._stderr.whole)):g}.")

    @property
    def values(self) -> Floats:
        """Return the scores, float32 [n, m] or [n]; positive: the training instance helps."""
        return self._values.whole

    @property
    def stderr(self) -> Floats | None:
        """Return standard errors in the shape of values; None: not known.

        They come from the replicas; for one replica they are the standard deviation of the null ids.
        """
        if self._stderr is not None:
            return self._stderr.whole
        return None if self._null_spread is None else np.broadcast_to(self._null_spread, self.shape)

    @property
    def queries(self) -> tuple[Name, ...] | None:
        """Return the names of the m queries; None where an instance has one score."""
        return self._queries

    @property
    def unit(self) -> str:
        """Return what scores are differences of."""
        return self._about.unit

    @property
    def standardized(self) -> bool:
        """Tell whether each query's scores are divided by their root mean square, so that all queries count alike."""
        return self._about.standardized

    @property
    def offset(self) -> Floats | None:
        """Return the mean score of null ids that was subtracted; None: nothing was.

        It has shape [m]; for values [n] it is one number, or [n] where every row is a query of its own.
        """
        return self._offset

    @property
    def null(self) -> Floats | None:
        """Return the scores of null ids on the same queries, [j, m] or [j]; None: not kept."""
        return self._null

    @property
    def null_spread(self) -> Floats | None:
        """Return the standard deviation of null ids' scores, in the shape of `offset`; None: not known."""
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
    def method(self) -> str:
        """Return which estimator made the scores: "tod" or "curvature"; "" where that is not known."""
        return method_of(self.provenance)

    @property
    def token_scores(self) -> TokenScores | None:
        """Return the scores of the tokens of all rows; None: not kept."""
        return self._tokens

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [instances, queries] or [instances]."""
        return self._values.shape

    @property
    def folder(self) -> str | None:
        """Return the folder that values are still to be read from; None: they are in memory."""
        return self._values.folder

    @property
    def sources(self) -> dict[str, Source]:
        """Return where "values" and, if they came with the scores, "stderr" are read from."""
        return {"values": self._values} | ({} if self._stderr is None else {"stderr": self._stderr})

    def equals(self, other: object) -> bool:
        """Tell whether values and all that is known about them are the same in both, NaN equal to NaN.

        Example:
            >>> Scores([1.0], ids=[7]).equals(Scores([1.0], ids=[8]))
            False
        """
        if not isinstance(other, Scores) or self._about != other._about or self._queries != other._queries:
            return False
        arrays = ("_ids", "_mask_ids", "_null", "_null_spread", "_offset", "values", "stderr")
        if not all(same(getattr(self, name), getattr(other, name)) for name in arrays):
            return False
        return other._tokens is None if self._tokens is None else self._tokens.equals(other._tokens)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values for numpy functions."""
        return np.array(self.values, dtype, copy=copy)

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
        # A tuple of names for every query, or one list that is about none.
        per_row = self._null_spread is not None and self._null_spread.ndim == len(self.shape) == 1
        spread = None if per_row or self._null_spread is None else np.atleast_1d(self._null_spread)
        about = {"queries": self._queries, "null_spread": spread, **vars(self._about)}
        top = Top.of(*self._listed(0, 0, self._values.rows(0, 0)), int(k), **about)
        for start, stop, values in blocks(self._values):
            part = Top.of(*self._listed(start, stop, values), int(k), **about)
            top = part if start == 0 else Top.joined(top, part)
        top = top.named(self._names)
        if self._null is not None:
            top = top.against(self._null.reshape(len(self._null), -1))
        return top.seen_by(self.views)

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

        Example:
            >>> named = Scores([0.5, -1.0], ids=["doc-1", "doc-2"])
            >>> named.select(ids=["doc-2"]).values
            array([-1.], dtype=float32)
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> scores.select(ids=[8], queries=["b"]).values
            array([[3.]], dtype=float32)
        """
        rows = None if ids is None else rows_of(ids, self._mask_ids, self._names)
        chosen = None if queries is None else query_names(queries)
        columns = None if chosen is None else columns_of(chosen, self._queries)
        selected = Scores(
            closed(self._values.take(rows, columns)),
            ids=self._ids if rows is None else self._ids[rows],
            mask_ids=self._mask_ids if rows is None else self._mask_ids[rows],
            queries=self._queries if columns is None else chosen,
            stderr=None if self._stderr is None else closed(self._stderr.take(rows, columns)),
            null=self._null if self._null is None or columns is None else self._null[:, columns],
            null_spread=self._part(self._null_spread, rows, columns),
            offset=self._part(self._offset, rows, columns),
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

        Example:
            >>> one, two = Scores([[1.0]], ids=[7]), Scores([[2.0]], ids=[7])
            >>> Scores.concat([one, two]).values
            array([[1., 2.]], dtype=float32)
        """
        parts = list(parts)
        if over not in ("queries", "ids"):
            raise ScoresError(f'over must be "queries" or "ids", got {over!r}.')
        about = vars(agreed(parts, over))
        scores = cls(**about, **(_over_queries if over == "queries" else _over_ids)(parts, _known(parts)))
        tokens = TokenScores.concat([part._tokens for part in parts])
        return scores if tokens is None else scores.with_tokens(tokens)

    def p_values(self) -> Floats:
        """Return how probable scores as far out are without any influence, two-sided, in the shape of values.

        A training instance that does nothing to a query is one more null id. So where their scores are kept
        (`null`), the p-value is the share of them that lie as far from their mean, in either direction; beyond the
        furthest tenth it follows a tail fitted to that tenth, as their bell curve would be far too narrow. With fewer
        than 100 null ids p-values are plain ranks, at least 1 / (j + 1): the fewer there are, the less is significant.
        The p-value of a failed pair is NaN.

        Example:
            >>> null = np.random.default_rng(0).normal(size=1000)
            >>> Scores([0.1, 2.0, 9.0], ids=[7, 8, 9], null=null).p_values().round(2)
            array([0.88, 0.04, 0.  ], dtype=float32)
        """
        if self._null is None:
            method = method_of(self.provenance)
            made = f", made by {method!r}," if method else ""
            raise ScoresError(
                f"p-values need the scores of null ids, and these{made} have none. With 3 replicas or more "
                ".interval() and .significant() tell what is significant; p-values come with "
                "turnover.Influence(model, estimator='tod') of a model with masks."
            )
        values = self.values
        if values.ndim == 2:
            return null_p_values(values, self._null)
        return null_p_values(values[:, None], self._null[:, None])[:, 0]

    def significant(self, level: float = 0.05, *, correct: bool = True) -> Bools:
        """Tell which scores are significant, in the shape of values.

        By their p-values where the scores of null ids are kept. Else by replicas, which see far less: significant is
        what has a confidence interval (`interval`) that excludes 0.

        Among thousands of rows some lie far out by chance. With the correction of Benjamini and Hochberg, over the
        rows of each query, at most the share `level` of what is marked is expected to be noise; if all of a query is
        noise, anything at all is marked with probability `level` at most. Intervals are widened by the same rule.

        Args:
            level: that share.
            correct: False marks every p-value up to `level`, or every interval of level 1 − `level` that excludes 0,
                and so that share of all noise.

        Example:
            >>> null = np.random.default_rng(0).normal(size=1000)
            >>> Scores([0.1, 2.0, 9.0], ids=[7, 8, 9], null=null).significant()
            array([False, False,  True])
        """
        level = checked_level(level)
        if self._null is None:
            tails = interval_tails(self.values, *self._errors("marks of significance", null_spread=False))
        else:
            tails = self.p_values()
        if not correct:
            return tails <= level
        return discoveries(tails.reshape(len(tails), -1), level).reshape(tails.shape)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of confidence intervals, each in the shape of values.

        With 3 replicas or more they are the standard error times the limit of Student's distribution with replicas − 1
        degrees of freedom; else the standard deviation of j null ids times √(1 + 1 / j) and the limit with j − 1
        degrees, which is close for 95 % and not for 99.9 %. They are about the mean score over trainings and masks,
        each pair for itself.

        Args:
            level: share of intervals that hold what they are about.

        Example:
            >>> low, high = Scores([1.0], ids=[7], stderr=[0.5], replicas=8).interval()
            >>> low.round(2), high.round(2)
            (array([-0.18], dtype=float32), array([2.18], dtype=float32))
        """
        level = checked_level(level)
        stderr, df = self._errors("intervals", null_spread=True)
        limit = normal_limit(1 - level) if df is None else student_limit(1 - level, df)
        values, reach = self.values.astype(np.float64), limit * stderr.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # inf − inf is NaN, as it should be
            return closed((values - reach).astype(np.float32)), closed((values + reach).astype(np.float32))

    @property
    def noise(self) -> Noise:
        """Return how much of the standard deviation of scores is noise, for each query or as one number.

        Example:
            >>> scores = Scores([4.0, -4.0, 0.0], ids=[7, 8, 9], null_spread=2.0)
            >>> scores.noise
            noise is 0.50 of the standard deviation of scores, signal 75% of their variance
        """
        return noise_of(self._values, self._stderr, self._null_spread)

    def tokens(self, row: int) -> Floats:
        """Return the scores of the tokens of one row, float32 [tokens]; positive: the row's training helps this token.

        They are kept by `Influence.self_influence` where the loss has one value per token, [rows, tokens]; a row's own
        score is their mean. A token that does not count (target −100) is NaN, and those behind the last that counts
        are left out.

        Args:
            row: place of the row in `ids` and `values`, from 0.

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
        for axis, given in enumerate(places[:2]):
            names = [given] if isinstance(given, str) else given
            if strings_in(names):
                found = columns_of(names, self._queries) if axis else rows_of(names, self._mask_ids, self._names)
                places[axis] = int(found[0]) if isinstance(given, str) and len(found) == 1 else found
        return self.values[tuple(places)]

    def plot(self, *, query: Name | None = None, k: int = 5) -> "Figure":
        """Return a figure: a histogram of the scores with that of null ids, and the first of both lists.

        Rows of the lists are images or texts where the data is known, else ids. Needs matplotlib: pip install
        'turnover[plot]'. The background is transparent, for light and dark notebooks.

        Args:
            query: the name of one query; None: the first, or the one score of each instance.
            k: length of the lists.

        Example:
            >>> figure = Scores([0.5, -1.0, 2.0], ids=["doc-1", "doc-2", "doc-3"]).plot(k=1)
            >>> [axes.get_title(loc="left") for axes in figure.axes]
            ['Scores of 3 training instances', 'Most helpful', 'Most harmful']
        """
        chosen = self if self._queries is None else self.select(queries=[self._queries[0] if query is None else query])
        if self._queries is None and query is not None:
            raise ScoresError("these are one score per instance; there are no queries to choose from.")
        null = None if chosen.null is None else chosen.null.ravel()
        return plot_lists(chosen.top(k), values=chosen.values.ravel(), null=null)

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

        Needs pandas: pip install 'turnover[store]'. What is about the whole table (unit, path, provenance) is in
        `attrs["turnover"]`. The wide form of [n, m] has no room for standard errors, and neither has room for `null` or
        `tokens`.

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
        pandas = load_pandas()
        columns: dict[str, Any] = {"score": self.values.ravel()}
        if self.stderr is not None:
            columns["stderr"] = self.stderr.ravel()
        names = None if self._queries is None else pandas.Index(list(self._queries), name="query")
        index = pandas.Index(self._ids, name="instance")
        if names is None:
            table = pandas.DataFrame(columns, index=index)
            table = table.reset_index() if long else table
        elif long:
            rows, places = np.indices(self.shape).reshape(2, -1)
            table = pandas.DataFrame({"instance": self._ids[rows], "query": names[places], **columns})
        else:
            table = pandas.DataFrame(np.array(self.values), index=index, columns=names)
        table.attrs[ATTRIBUTES] = vars(self._about)
        return table

    def to_xarray(self) -> "xarray.Dataset":
        """Return a Dataset over instance and query: score and, where known, stderr, offset, null_spread and null.

        Needs xarray: pip install 'turnover[store]'.

        Example:
            >>> scores = Scores([[0.5, 0.0], [-1.0, 3.0]], ids=[7, 8], queries=["a", "b"])
            >>> float(scores.to_xarray().score.sel(instance=8, query="b"))
            3.0
        """
        xarray = load_package("xarray", "labeled arrays need xarray: pip install 'turnover[store]'.")
        dims = ("instance", "query")[: len(self.shape)]
        coords: dict[str, Any] = {"instance": self._ids}
        if self._names:
            coords["mask_id"] = ("instance", self._mask_ids)
        if self._queries is not None:
            same_type = len({type(name) for name in self._queries}) <= 1
            coords["query"] = np.array(self._queries, None if self._queries and same_type else object)
        variables: dict[str, Any] = {"score": (dims, self.values)}
        if self.stderr is not None:
            origin = "null ids" if self._stderr is None else "replicas"
            variables["stderr"] = (dims, self.stderr, {"from": origin})
        for name, array in (("offset", self._offset), ("null_spread", self._null_spread)):
            if array is not None:
                variables[name] = (dims[-1:] if array.ndim else (), array)
        if self._null is not None:
            variables["null"] = (("null_id", *dims[1:]), self._null)
        # Files of labeled arrays hold neither nested attributes nor booleans.
        about = {**vars(self._about), "standardized": int(self.standardized)}
        return xarray.Dataset(variables, coords, {**about, "sign": SIGN, "provenance": json.dumps(self.provenance)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a folder or file, which `Scores.open` reads. Nothing is lost.

        A folder can be read in part. It needs zarr: pip install 'turnover[store]'. Saving that was interrupted resumes
        where it was, and the same scores may be saved to the same folder again. A file whose name ends with .npz suits
        small results, needs NumPy alone, and is there whole or not at all.

        Args:
            path: a folder, new or empty; or a file, which is replaced.

        Example:
            >>> import tempfile
            >>> scores, folder = Scores([1.0, 2.0], ids=[7, 8]), tempfile.mkdtemp()
            >>> scores.save(folder)
            >>> Scores.open(folder).equals(scores)
            True
        """
        attributes, whole = _kept(self)
        if self._tokens is not None:
            whole |= {"token_values": self._tokens.values, "token_starts": self._tokens.starts}
        write_result(path, attributes, self.sources, whole)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Scores":
        """Return the scores in a folder or file; those in a folder are read when they are used.

        `values` and `rank` read all of them, once; `select` reads what is asked for; `top` and `mean` read some rows
        at a time and keep none.

        Args:
            path: of `save`, or the `out=` of a call that has finished.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> Scores([[1.0, 2.0], [3.0, 4.0]], ids=[7, 8]).save(folder)
            >>> Scores.open(folder).select(ids=[8]).values
            array([[3., 4.]], dtype=float32)
        """
        kept = read_result(path, "scores")
        tokens = [kept.pop(name) for name in ("token_values", "token_starts") if name in kept]
        return cls(**kept).with_tokens(TokenScores(*tokens)) if tokens else cls(**kept)

    def __repr__(self) -> str:
        """Return a summary that a person can read."""
        return text_of(self._facts)

    def _repr_html_(self) -> str:
        """Return the summary and the first of each list, as a notebook shows them."""
        in_memory = self.folder is None and 0 not in self.shape
        return html_of(self._facts) + (self.top(_SHOWN).to_html() if in_memory else "")

    @property
    def _facts(self) -> Facts:
        """Return shape, unit, sign, size and origin of the scores."""
        head = f"Scores of {counted(len(self), 'training instance')}"
        lines: list[tuple[str, str]] = []
        if self._queries is not None:
            head += f" on {counted(self.shape[1], 'query')}"
            lines.append(("queries", listed(self._queries)))
        is_read = self.folder is None
        lines.append(("values", number_range(self.values) if is_read else f"not read yet, in {self.folder}"))
        if self._stderr is not None:
            origin = f"from {self.replicas} replicas" if self.replicas > 1 else "as given"
            known = number_range(self._stderr.whole) if self._stderr.folder is None else "not read yet"
            lines.append(("stderr", f"{known}; {origin}"))
        elif self._null_spread is not None:
            nulls = "null ids" if self._null is None else f"{len(self._null):,} null ids"
            lines.append(("stderr", f"{number_range(self._null_spread)}; standard deviation of {nulls}"))
        else:
            lines.append(("stderr", "not known"))
        knows_noise = self._null_spread is not None or self._stderr is not None
        if knows_noise and all(source.folder is None for source in self.sources.values()):
            lines.append(("noise", str(self.noise).removeprefix("noise is ")))
        if self._offset is None:
            lines.append(("offset", "none: the mean of null ids was not subtracted"))
        else:
            lines.append(("offset", f"{number_range(self._offset)}; mean of null ids, subtracted"))
        lines.append(("path", self.path or "not known"))
        if self.provenance:
            lines.append(("provenance", listed(list(self.provenance))))
        return f"{head}, in {self._about.unit_text}", lines

    def _listed(self, start: int, stop: int, values: Floats) -> tuple[Floats, Ints, Floats | None]:
        """Return values, mask ids and standard errors of the rows from `start` to `stop`, as `Top.of` takes them."""
        stderr = None
        if self._stderr is not None:
            stderr = self._stderr.rows(start, stop)
        elif self._null_spread is not None:
            stderr = np.broadcast_to(self._null_spread, self.shape)[start:stop]
        if values.ndim == 1:
            values, stderr = values[:, None], None if stderr is None else stderr[:, None]
        return values, self._mask_ids[start:stop], stderr

    def _part(self, array: Floats | None, rows: Ints | None, columns: Ints | None) -> Floats | None:
        """Return those of numbers per query that belong to some rows and queries; None stands for all."""
        if array is None or array.ndim == 0:
            return array
        chosen = rows if len(self.shape) == 1 else columns
        return array if chosen is None else array[chosen]

    def _errors(self, what: str, *, null_spread: bool) -> tuple[Floats, int | None]:
        """Return standard errors and the degrees of freedom of their t, None for a normal distribution; or raise."""
        if self._stderr is not None and self.replicas != 2:
            return self._stderr.whole, self.replicas - 1 if self.replicas >= FEWEST_REPLICAS else None
        if null_spread and self._null_spread is not None:
            if self._null is None:
                return np.broadcast_to(self._null_spread, self.shape), None
            # The noise of a score and that of the mean of the null ids, which was subtracted.
            count = len(self._null)
            return np.broadcast_to(self._null_spread * np.sqrt(1 + 1 / count), self.shape), count - 1
        if self.replicas == 2:
            raise ScoresError(f"{what} need a standard error, and 2 replicas are too few for one. {_NOISE_HINT}")
        spread = self._null_spread is not None
        known = "only the standard deviation of null ids, whose tails may be of any weight," if spread else "nothing"
        raise ScoresError(f"{what} need to know the noise of these scores, and there is {known} to tell. {_NOISE_HINT}")


def finish_store(store: TileStore, **given: Any) -> None:
    """Make a store whose tiles are all written one of scores, so that `Scores.open` reads it.

    The store has the tiled arrays `values` and, for several replicas, `stderr`; the rest is what `Scores` takes.
    """
    # One read-only zero, seen as an array of the right shape, stands for the values: all the rest is checked with it.
    zero = closed(np.zeros((), np.float32))
    scores = Scores(np.broadcast_to(zero, store.arrays["values"].shape), **given)
    attributes, whole = _kept(scores)
    store.finish(attributes, whole=whole)


def _kept(scores: Scores) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return attributes and whole arrays as they are written."""
    queries = None if scores.queries is None else list(scores.queries)
    attributes = attributes_of("scores", {"queries": queries, **vars(About.of(scores))})
    return attributes, arrays_of(scores, "offset", "null_spread", "null")


def _over_queries(parts: Sequence[Scores], known: Mapping[str, list[Floats | None]]) -> dict[str, Any]:
    first = parts[0]
    for place, part in enumerate(parts):
        if part.queries is None:
            raise ScoresError(f'part {place} is one score per instance and has no queries; give over="ids".')
        if not (same(first.ids, part.ids) and same(first.mask_ids, part.mask_ids)):
            raise ScoresError(
                f"ids of part {place} differ from those of part 0, or their order does; "
                "put them in one order with .select(ids=...), or compute the scores of the same ids."
            )
    return {
        "values": _joined([part.values for part in parts], -1),
        "ids": first.ids,
        "mask_ids": first.mask_ids,
        "queries": joined_names([part.queries or () for part in parts]),
        **{name: _joined(arrays, -1) for name, arrays in known.items()},
    }


def _over_ids(parts: Sequence[Scores], known: Mapping[str, list[Floats | None]]) -> dict[str, Any]:
    first = parts[0]
    for place, part in enumerate(parts):
        if part.queries != first.queries:
            raise ScoresError(f'queries of part {place} differ from those of part 0; give over="queries".')
    mask_ids, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mask_ids", "ids"))
    # Within a part rows of a group share an id; between parts a shared id was scored twice.
    together = np.sort(np.concatenate([np.unique(part.mask_ids) for part in parts]))
    twice = together[1:][together[1:] == together[:-1]]
    if twice.size:
        name = Names.of(mask_ids, ids).shown(twice[:1])[0]
        raise ScoresError(
            f"instance {name} is in more than one part, as are {twice.size - 1} others; join disjoint sets of ids."
        )
    result = {"values": _joined([part.values for part in parts], 0), "mask_ids": mask_ids, "ids": ids}
    for name, arrays in known.items():
        # About queries, and so the same in all parts; or about rows, each of which is its own query.
        per_row = name != "null" and first.queries is None and any(array is not None and array.ndim for array in arrays)
        if name == "stderr" or per_row:
            whole = [
                array if array is None else np.broadcast_to(array, part.shape)
                for array, part in zip(arrays, parts, strict=True)
            ]
            result[name] = _joined(whole, 0)
            continue
        for place, array in enumerate(arrays):
            if not near(arrays[0], array):
                raise ScoresError(f"{name} of part {place} differs from that of part 0: another model or null.")
        result[name] = arrays[0]
    return {**result, "queries": first.queries}


def _joined(arrays: Sequence[Floats | None], axis: int) -> Floats | None:
    """Return the arrays as one, read-only; None where there are none."""
    known = [array for array in arrays if array is not None]
    return closed(np.concatenate(known, axis=axis)) if known else None


def _known(parts: Sequence[Scores]) -> dict[str, list[Floats | None]]:
    """Return what the parts were given beside values; raise where only some were: the others would lose it."""
    nulls = {len(part.null) for part in parts if part.null is not None}
    if len(nulls) > 1:
        raise ScoresError(
            f"parts have the scores of {' and '.join(map(str, sorted(nulls)))} null ids; their number follows the size "
            f"of the job. Compute all with the same: estimator=turnover.influence.TurnOver(nulls={max(nulls)})."
        )
    known: dict[str, list[Floats | None]] = {
        # Standard errors that are the standard deviation of null ids are not `stderr`.
        "stderr": [part.sources["stderr"].whole if "stderr" in part.sources else None for part in parts],
        **{name: [getattr(part, name) for part in parts] for name in ("null", "null_spread", "offset")},
    }
    some = [name for name, arrays in known.items() if 0 < sum(array is None for array in arrays) < len(parts)]
    if some:
        raise ScoresError(f"known for some of the parts only: {', '.join(some)}. Compute all parts the same way.")
    return known
