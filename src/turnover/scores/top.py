"""The most helpful and the most harmful training instances of every query, and the one order that they come from.

From most helpful to most harmful, among equals the smaller id first, failed pairs last. The helpful list is the head of
this order and the harmful list its tail, read from the end. With one order for both, no instance stands in both lists
unless there are fewer than 2k, and lists of parts merge into the lists of the whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError
from turnover.ids import Ids, Ints, Name, Names
from turnover.tables import counted

from ._about import ATTRIBUTES, About, Over, agreed, columns_of, joined_names, method_of, null_scores, query_names
from ._arrays import Bools, Floats, Viewed, both_ids, floats, integers, load_pandas, near, same
from ._lists import SIDES, html_of_lists, plot_lists, text_of_lists
from .significance import FEWEST_REPLICAS, checked_level, discoveries, interval_tails, null_p_values

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]
    from matplotlib.figure import Figure

_OPTIONAL = ("helpful_stderr", "harmful_stderr", "helpful_p", "harmful_p")
_NUMBERS = ("helpful_scores", "harmful_scores", *_OPTIONAL)
_ARRAYS = ("helpful_mask_ids", "harmful_mask_ids", *_NUMBERS, "counts", "null_spread")

Entries = dict[str, Any]
"""Instances that belong to each of m queries, in any order, [m, j]: "ids", "scores" and, where known, "stderr", "p".

No entry has the id −1 and the score NaN.
"""


def ranks(values: Floats, ids: Ints) -> Ints:
    """Return the place of every row of scores [n, m] in its query's order, 0 for the most helpful."""
    # Sorted by id once, a stable sort by score leaves equals in order of id.
    by_id = np.argsort(ids, kind="stable")
    result = np.empty(values.shape, np.int64)
    places = np.arange(len(ids))
    for query in range(values.shape[1]):
        order = by_id[np.argsort(-values[by_id, query], kind="stable")]
        result[order, query] = places
    return result


def best(entries: Entries, k: int, side: str) -> Entries:
    """Return the k most helpful or most harmful of each query, the strongest first; −1 where there are fewer."""
    keys = -entries["scores"] if side == "helpful" else entries["scores"]
    places = _first(keys, entries["ids"], k, smaller_id_first=side == "helpful")

    def taken(name: str, array: NDArray[Any] | None) -> NDArray[Any] | None:
        if array is None:
            return None
        missing = np.int64(-1) if name == "ids" else np.float32(np.nan)
        return np.where(places < 0, missing, np.take_along_axis(array, places, axis=1) if array.shape[1] else missing)

    return {name: taken(name, array) for name, array in entries.items()}


def _first(keys: Floats, ids: Ints, k: int, *, smaller_id_first: bool) -> NDArray[np.intp]:
    """Return the positions [m, k] of the k smallest keys of each row, among equals in the order of ids, never NaN."""
    result = np.full((len(keys), k), -1, np.intp)
    if keys.shape[1] > k:
        # Finding the k-th key takes linear time; only what is not beyond it has to be sorted. NaN counts as largest.
        limit = np.partition(keys, k - 1, axis=1)[:, k - 1]
        candidates = keys <= np.where(np.isnan(limit), np.float32(np.inf), limit)[:, None]
    else:
        candidates = ~np.isnan(keys)
    rows, columns = np.nonzero(candidates)
    ties = ids[rows, columns]
    order = np.lexsort((ties if smaller_id_first else -ties, keys[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(keys)))
    places = np.arange(len(rows)) - starts[rows]
    kept = places < k
    result[rows[kept], places[kept]] = columns[kept]
    return result


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Top(Viewed):
    """The k most helpful and the k most harmful training instances of every query.

    Both lists come from one order: from the largest score to the smallest whatever the sign, among equals the smaller
    id first. The harmful list is the end of that order, the last first, so that an instance stands in both lists only
    where there are fewer than 2k. Arrays are read-only.

    Attributes:
        helpful_ids: ids as they were given [m, k], the most helpful first: int64, or objects where there are strings;
            −1 or None where there are fewer than k.
        helpful_scores: their scores [m, k]; NaN where there are fewer than k.
        helpful_stderr: their standard errors [m, k]; None: not known.
        harmful_ids: those of the most harmful, the most harmful first.
        harmful_scores: their scores [m, k]; NaN where there are fewer than k.
        harmful_stderr: their standard errors [m, k]; None: not known.
        helpful_p: their p-values [m, k], see `Scores.p_values`; None: there are no null ids.
        harmful_p: those of the harmful; None: there are no null ids.
        counts: how many scores each query's lists were chosen from [m]; failed pairs do not count.
        null_spread: standard deviation of the scores of null ids, for each query [m]; None: not known.
        queries: names of the queries; None: the one list is not about a query, as for a mean or self-influence.
        unit: what scores are differences of.
        path: how they were computed.
        replicas: over how many networks they are averaged.
        provenance: all that they depend on.
        standardized: whether each query's scores are divided by their root mean square.
        helpful_mask_ids: the integers that masks are made of, int64 [m, k]; −1 where there are fewer than k.
        harmful_mask_ids: those of the most harmful.

    Example:
        >>> from turnover.scores import Scores
        >>> top = Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9]).top(1)
        >>> top.helpful_ids, top.harmful_ids
        (array([[9]]), array([[8]]))
    """

    helpful_ids: Ids
    helpful_scores: Floats
    harmful_ids: Ids
    harmful_scores: Floats
    helpful_stderr: Floats | None = None
    harmful_stderr: Floats | None = None
    helpful_p: Floats | None = None
    harmful_p: Floats | None = None
    counts: Ints
    null_spread: Floats | None = None
    queries: tuple[Name, ...] | None = None
    unit: str = "loss"
    path: str = ""
    replicas: int = 1
    provenance: Mapping[str, Any] = field(default_factory=dict[str, Any])
    standardized: bool = False
    # None: the ids, of strings their hashes. They are given with the ids or not at all, so never None afterwards.
    helpful_mask_ids: Ints = None  # pyright: ignore[reportAssignmentType]
    harmful_mask_ids: Ints = None  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        shape = np.shape(self.helpful_ids)
        if len(shape) != 2:
            raise ScoresError(f"helpful_ids must have shape [queries, k], got {list(shape)}.")
        lists, k = shape
        checked: dict[str, Any] = {
            "counts": integers(self.counts, "counts"),
            "provenance": About.of(self).provenance,
        }
        for side in SIDES:
            given = getattr(self, f"{side}_ids"), getattr(self, f"{side}_mask_ids")
            checked[f"{side}_ids"], checked[f"{side}_mask_ids"], _ = both_ids(*given, f"{side}_ids", dims=2)
        for name in (*_NUMBERS, "null_spread"):
            if getattr(self, name) is not None:
                checked[name] = floats(getattr(self, name), name)
        for name in checked.keys() - {"provenance"}:
            needed = (lists,) if name in ("counts", "null_spread") else (lists, k)
            if checked[name].shape != needed:
                raise ScoresError(
                    f"{name} must have shape {list(needed)}, as helpful_ids are [{lists}, {k}], "
                    f"got {list(checked[name].shape)}."
                )
        if self.queries is not None:
            checked["queries"] = query_names(self.queries, lists)
        elif lists != 1:
            raise ScoresError(f"there are {lists} pairs of lists; give the names of their queries as queries=.")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, values: Floats, ids: Ints, stderr: Floats | None, k: int, **rest: Any) -> "Top":
        """Return the lists of scores [n, m] of the instances with these mask ids [n]; the rest as for the class."""
        by_query = np.ascontiguousarray(values.T)
        # Only k entries of each row are looked at, so views of the whole serve.
        entries: Entries = {"ids": np.broadcast_to(ids, by_query.shape), "scores": by_query}
        entries["stderr"] = None if stderr is None else stderr.T
        counts = np.count_nonzero(~np.isnan(by_query), axis=1).astype(np.int64)
        return cls._of({side: best(entries, k, side) for side in SIDES}, counts=counts, **rest)

    @classmethod
    def _of(cls, sides: Mapping[str, Entries], **rest: Any) -> "Top":
        arrays = {f"{side}_{name}": array for side, entries in sides.items() for name, array in entries.items()}
        return cls(**arrays, **rest)

    @classmethod
    def merge(cls, *tops: "Top") -> "Top":
        """Return the lists of all instances together, from the lists of disjoint sets of instances.

        The result is that of one call over all instances, in whatever order the parts come.

        Args:
            tops: results for the same queries with the same k, each over other training instances.

        Example:
            >>> from turnover.scores import Scores, Top
            >>> scores = Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9])
            >>> first, rest = scores.select(ids=[7]), scores.select(ids=[8, 9])
            >>> Top.merge(first.top(1), rest.top(1)).equals(scores.top(1))
            True
        """
        about, first = _alike(tops, "ids"), tops[0]
        for place, top in enumerate(tops):
            if top.queries != first.queries:
                raise ScoresError(f"queries of part {place} differ from those of part 0; see Top.concat.")
            if not near(first.null_spread, top.null_spread):
                raise ScoresError(
                    f"null_spread of part {place} differs from that of part 0: another model, or another number of "
                    "null ids, which follows the size of the job. Compute all parts with the same: estimator="
                    "turnover.influence.TurnOver(nulls=1024)."
                )
        _check_disjoint(tops)
        return cls.joined(*tops, about=about).named(_names_of(tops))

    @classmethod
    def joined(cls, *tops: "Top", about: About | None = None) -> "Top":
        """Return the lists of all instances together, by their mask ids, of parts that are known to go together."""
        first = tops[0]
        sides: dict[str, Entries] = {}
        for side in SIDES:
            beside: Entries = {}
            for name in ("ids", "scores", "stderr", "p"):
                arrays = [getattr(top, f"{side}_mask_ids" if name == "ids" else f"{side}_{name}") for top in tops]
                beside[name] = None if arrays[0] is None else np.concatenate(arrays, axis=1)
            sides[side] = best(beside, first.k, side)
        counts = np.stack([top.counts for top in tops]).sum(axis=0)
        rest = vars(about or About.of(first))
        return cls._of(sides, counts=counts, queries=first.queries, null_spread=first.null_spread, **rest)

    @classmethod
    def concat(cls, tops: Iterable["Top"]) -> "Top":
        """Return the lists of several results one below the other: more queries, over the same instances.

        Queries that are numbered in every part are numbered anew.

        Args:
            tops: results for other queries with the same k.

        Example:
            >>> from turnover.scores import Scores, Top
            >>> scores = Scores([[0.5, 0.0], [-1.0, 2.0]], ids=[7, 8], queries=["a", "b"])
            >>> Top.concat([scores.top(1, query="a"), scores.top(1, query="b")]).equals(scores.top(1))
            True
        """
        tops = list(tops)
        about = _alike(tops, "queries")
        if any(top.queries is None for top in tops):
            raise ScoresError("a list that is not about a query cannot be put beside others; see Top.merge.")
        queries = joined_names([top.queries or () for top in tops])
        known = [name for name in _ARRAYS if getattr(tops[0], name) is not None]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(top, name) for top in tops]) for name in known}
        ids = {f"{side}_ids": arrays.pop(f"{side}_mask_ids") for side in SIDES}
        return cls(**ids, **arrays, queries=queries, **vars(about)).named(_names_of(tops))

    def named(self, names: Names) -> "Top":
        """Return the same lists with ids as users know them; an instance without a name keeps its mask id."""
        if not names:
            return self
        ids = {f"{side}_ids": names.shown(getattr(self, f"{side}_mask_ids")) for side in SIDES}
        return replace(self, **ids)

    @property
    def method(self) -> str:
        """Return which estimator made the scores: "tod" or "curvature"; "" where that is not known."""
        return method_of(self.provenance)

    @property
    def k(self) -> int:
        """Return the length of each list."""
        return self.helpful_ids.shape[1]

    def against(self, null: ArrayLike) -> "Top":
        """Return these lists with p-values, given the scores of null ids on the same queries.

        Lists that are merged from many parts are judged once, when they are complete.

        Args:
            null: scores [j, m], as for `Scores`, computed and averaged just as those in the lists.

        Example:
            >>> from turnover.scores import Scores
            >>> null = np.random.default_rng(0).normal(size=(1000, 1))
            >>> top = Scores([[0.5], [-1.0], [9.0]], ids=[7, 8, 9]).top(2).against(null)
            >>> top.distinguishable()
            array([[1, 0]])
        """
        checked = null_scores(null, (0, len(self.counts)))
        helpful, harmful = (null_p_values(part.T, checked).T for part in (self.helpful_scores, self.harmful_scores))
        return replace(self, helpful_p=helpful, harmful_p=harmful)

    def significant(self, level: float = 0.05) -> tuple[Bools, Bools]:
        """Tell which entries of the helpful and of the harmful lists, [m, k] each, are significant.

        Benjamini and Hochberg's correction is made for all instances that the lists were chosen from, not only for
        those listed; see `Scores.significant`. As the others' p-values are not kept, each list counts as if all the
        others were noise: an entry that is marked is marked by `Scores.significant` too, and where hundreds of
        instances are, lists of a few may mark fewer than they could. P-values are those of `against`; without, the
        confidence intervals of 3 replicas or more decide.

        Args:
            level: share of the marked that may be noise.

        Example:
            >>> from turnover.scores import Scores
            >>> null = np.random.default_rng(0).normal(size=(1000, 1))
            >>> Scores([[0.5], [-9.0], [9.0]], ids=[7, 8, 9], null=null).top(2).significant()
            (array([[ True, False]]), array([[ True, False]]))
        """
        level = checked_level(level)
        if self._p is None:
            raise ScoresError(
                "what noise looks like is not known for these lists: give the scores of null ids with .against(null), "
                "or train 3 replicas or more (turnover.wrap(..., replicas=3))."
            )
        helpful_p, harmful_p = self._p
        # With fewer than 2k instances the lists overlap. An instance is counted once, among the helpful.
        counts = self.counts[:, None]
        twice = counts - 1 - np.arange(self.k, dtype=np.int64) < np.minimum(counts, self.k)
        listed = np.concatenate([helpful_p, np.where(twice, np.float32(np.nan), harmful_p)], axis=1)
        marked = discoveries(listed.T, level, self.counts)
        limit = np.where(marked, listed.T, np.float32(-1)).max(axis=0, initial=-1)[:, None]
        helpful: Bools = (helpful_p <= limit) & (self.helpful_scores > 0)
        harmful: Bools = (harmful_p <= limit) & (self.harmful_scores < 0)
        return helpful, harmful

    def distinguishable(self, level: float = 0.05) -> Ints:
        """Return how many leading entries of both lists are significant, [m, 2]: helpful, harmful.

        Against null ids all that are significant lead their list. Where replicas judge, an entry on which they disagree
        may stand between others on which they agree: `significant` tells them apart.

        Args:
            level: as for `significant`.

        Example:
            >>> from turnover.scores import Scores
            >>> null = np.random.default_rng(0).normal(size=(1000, 1))
            >>> Scores([[0.5], [-9.0], [9.0]], ids=[7, 8, 9], null=null).top(2).distinguishable()
            array([[1, 1]])
        """
        unbroken = [np.logical_and.accumulate(side, axis=1) for side in self.significant(level)]
        return np.stack([np.count_nonzero(side, axis=1) for side in unbroken], axis=1).astype(np.int64)

    def equals(self, other: object) -> bool:
        """Tell whether all is the same in both, NaN equal to NaN."""
        if not isinstance(other, Top):
            return False
        if (About.of(self), self.queries) != (About.of(other), other.queries):
            return False
        arrays = ("helpful_ids", "harmful_ids", *_ARRAYS)
        return all(same(getattr(self, name), getattr(other, name)) for name in arrays)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return one row per entry: query, side, place, instance, score and, where known, stderr and p.

        Needs pandas: pip install 'turnover[store]'.

        Example:
            >>> from turnover.scores import Scores
            >>> Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9]).top(1).to_pandas()
               query     side  place  instance  score
            0      0  helpful      0         9    2.0
            1      0  harmful      0         8   -1.0
        """
        pandas = load_pandas()
        names = pandas.Index([0] if self.queries is None else list(self.queries))
        # [m, side, k]: both lists of a query stand together.
        query, side, place = np.nonzero(np.stack([self.helpful_mask_ids, self.harmful_mask_ids], axis=1) >= 0)
        columns: dict[str, Any] = {"query": names[query], "side": np.array(SIDES)[side], "place": place}
        for name, column in (("ids", "instance"), ("scores", "score"), ("stderr", "stderr"), ("p", "p")):
            arrays = [getattr(self, f"{one}_{name}") for one in SIDES]
            if arrays[0] is not None:
                columns[column] = np.stack(arrays, axis=1)[query, side, place]
        table = pandas.DataFrame(columns if self.queries is not None else {**columns, "query": 0})
        if self.queries is None:
            table = table.drop(columns="query")
        table.attrs[ATTRIBUTES] = vars(About.of(self))
        return table

    def plot(self, *, query: Name | None = None) -> "Figure":
        """Return a figure of both lists of a query: images or texts where the data is known, else ids, with scores.

        Needs matplotlib: pip install 'turnover[plot]'.

        Args:
            query: the name of one query; None: the first.

        Example:
            >>> from turnover.scores import Scores
            >>> len(Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9]).top(1).plot().axes)
            2
        """
        place = 0 if query is None else int(columns_of([query], self.queries)[0])
        return plot_lists(self, place)

    def __repr__(self) -> str:
        """Return a table of the first entries that a person can read."""
        return text_of_lists(self, self._head)

    def to_html(self) -> str:
        """Return a table of the first entries as HTML: a bar for each score, faded where it is not significant.

        Example:
            >>> from turnover.scores import Scores
            >>> "+2" in Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9]).top(1).to_html()
            True
        """
        return html_of_lists(self, self._head)

    def _repr_html_(self) -> str:
        return self.to_html()

    @property
    def _head(self) -> str:
        head = f"Top {self.k}"
        if self.queries is not None:
            head += f" for {counted(len(self.queries), 'query')}"
        sizes = sorted({int(count) for count in self.counts})
        if sizes:
            size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
            head += f", of {size} training instances"
        return f"{head}, in {About.of(self).unit_text}"

    @property
    def knows_noise(self) -> bool:
        """Tell whether `distinguishable` has something to judge by."""
        return self._p is not None

    @property
    def _p(self) -> tuple[Floats, Floats] | None:
        """Return p-values of both lists, or the tails of intervals by replicas, if either can be known."""
        if self.helpful_p is not None and self.harmful_p is not None:
            return self.helpful_p, self.harmful_p
        if self.helpful_stderr is None or self.harmful_stderr is None or self.replicas < FEWEST_REPLICAS:
            return None
        # In place of standard errors from replicas there may be the standard deviation of null ids.
        stderr, df = self.helpful_stderr, self.replicas - 1
        if self.null_spread is not None and ((stderr == self.null_spread[:, None]) | np.isnan(stderr)).all():
            return None
        return (
            interval_tails(self.helpful_scores, stderr, df),
            interval_tails(self.harmful_scores, self.harmful_stderr, df),
        )


def _alike(tops: Sequence[Top], over: Over) -> About:
    """Return what all parts say about themselves; raise unless they are lists of a kind."""
    about = agreed(tops, over)
    for place, top in enumerate(tops):
        if top.k != tops[0].k:
            raise ScoresError(f"part {place} has k={top.k} and part 0 k={tops[0].k}; choose lists of one length.")
        for name in ("null_spread", *_OPTIONAL):
            if (getattr(top, name) is None) != (getattr(tops[0], name) is None):
                raise ScoresError(f"{name} is known for some of the parts only; compute all parts the same way.")
    return about


def _names_of(tops: Sequence[Top]) -> Names:
    """Return the names of all instances in the lists."""
    pairs = [(getattr(top, f"{side}_mask_ids"), getattr(top, f"{side}_ids")) for top in tops for side in SIDES]
    if all(numbers is names for numbers, names in pairs):
        return Names()
    numbers, names = (np.concatenate([np.ravel(array) for array in arrays]) for arrays in zip(*pairs, strict=True))
    return Names.of(numbers, names)


def _check_disjoint(tops: Sequence[Top]) -> None:
    """Raise if an instance stands in two parts: it was scored twice and would be listed twice."""
    for side in SIDES:
        parts: list[Ints] = []
        for top in tops:
            # Rows of a group share an id: each once, the others as −1.
            part = np.sort(getattr(top, f"{side}_mask_ids"), axis=1)
            part[:, 1:][part[:, 1:] == part[:, :-1]] = -1
            parts.append(part)
        together = np.sort(np.concatenate(parts, axis=1), axis=1)
        twice = (together[:, 1:] == together[:, :-1]) & (together[:, 1:] >= 0)
        if twice.any():
            query, place = np.argwhere(twice)[0]
            name = _names_of(tops).shown(together[query, place : place + 1])[0]
            raise ScoresError(
                f"instance {name} stands in more than one part; merge results over disjoint sets of training instances."
            )
