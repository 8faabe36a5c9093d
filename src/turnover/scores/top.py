"""The most helpful and the most harmful training instances of every query."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError

from .about import About, Name, Over, about, agreed, all_names, names, told_by
from .arrays import Floats, Ints, close, floats, near, same, whole_numbers
from .discoveries import checked_level, leading
from .error_tail import FEWEST_REPLICAS, error_p_values
from .lists import Entries, Lists, merged
from .null_tail import null_p_values
from .per_query import null_scores

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]


_NUMBERS = ("helpful_scores", "harmful_scores", "helpful_stderr", "harmful_stderr", "helpful_p", "harmful_p")
_SIDES = ("helpful_ids", "harmful_ids", *_NUMBERS)
_ARRAYS = (*_SIDES, "counts", "null_spread")


def _nothing() -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Top:
    """The k most helpful and the k most harmful training instances of every query.

    Both lists come from one order: from the largest score to the smallest whatever the sign, among equals the smaller
    id first. The harmful list is the end of that order, the last first, so that an instance stands in both lists only
    where there are fewer than 2k. Arrays are closed to writing.

    Attributes:
        helpful_ids: instance ids [m, k], the most helpful first; −1 where there are fewer than k.
        helpful_scores: their scores [m, k]; NaN where there are fewer than k.
        helpful_stderr: their standard errors [m, k]; None: not known.
        harmful_ids: instance ids [m, k], the most harmful first; −1 where there are fewer than k.
        harmful_scores: their scores [m, k]; NaN where there are fewer than k.
        harmful_stderr: their standard errors [m, k]; None: not known.
        helpful_p: their p-values [m, k], see `Scores.p_values`; None: not known.
        harmful_p: those of the harmful; None: not known.
        counts: how many scores each query's lists were chosen from [m]; failed pairs do not count.
        null_spread: standard deviation of the scores of never-trained ids, for each query [m]; None: not known.
        queries: names of the queries; None: the one list is not about a query, as for a mean or self-influence.
        unit: what scores are differences of.
        path: how they were computed.
        replicas: over how many networks they are averaged.
        provenance: all that they depend on.

    Example:
        >>> from turnover.scores import Scores
        >>> top = Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9]).top(1)
        >>> top.helpful_ids, top.harmful_ids
        (array([[9]]), array([[8]]))
    """

    helpful_ids: Ints
    helpful_scores: Floats
    harmful_ids: Ints
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
    provenance: Mapping[str, Any] = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        lists, k = _shape(self.helpful_ids)
        checked: dict[str, Any] = {
            "counts": whole_numbers(self.counts, "counts"),
            "provenance": about(self.unit, self.path, self.replicas, self.provenance).provenance,
        }
        for name in ("helpful_ids", "harmful_ids"):
            checked[name] = whole_numbers(getattr(self, name), name, dims=2)
        for name in (*_NUMBERS, "null_spread"):
            if getattr(self, name) is not None:
                checked[name] = floats(getattr(self, name), name)
        for name in checked.keys() - {"provenance"}:
            needed = (lists,) if name in ("counts", "null_spread") else (lists, k)
            if checked[name].shape != needed:
                raise ScoresError(
                    f"{name} have shape {list(checked[name].shape)}, which does not fit helpful_ids [{lists}, {k}]; "
                    f"give {list(needed)}."
                )
        if self.queries is not None:
            checked["queries"] = names(self.queries, lists)
        elif lists != 1:
            raise ScoresError(f"there are {lists} pairs of lists; give the names of their queries as queries=.")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def merge(cls, *tops: "Top") -> "Top":
        """Return the lists of all instances together, from the lists of disjoint sets of instances.

        The result is that of one call over all instances, in whatever order the parts come.

        Args:
            tops: results for the same queries with the same k, each over other training instances.

        Raises:
            ScoresError: the parts differ in k, queries, unit or provenance, or share an instance.

        Example:
            >>> from turnover.scores import Scores, Top
            >>> scores = Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9])
            >>> first, rest = scores.select(ids=[7]), scores.select(ids=[8, 9])
            >>> Top.merge(first.top(1), rest.top(1)).equals(scores.top(1))
            True
        """
        told = _alike(tops, "ids")
        first = tops[0]
        for place, top in enumerate(tops):
            if top.queries != first.queries:
                raise ScoresError(f"queries of part {place} differ from those of part 0; see Top.concat.")
            if not near(first.null_spread, top.null_spread):
                raise ScoresError(f"null_spread of part {place} differs from that of part 0: another model or null.")
        _refuse_shared(tops)
        lists = merged([top._lists for top in tops], first.k)
        return cls.of(lists, queries=first.queries, null_spread=first.null_spread, **vars(told))

    @classmethod
    def concat(cls, tops: Iterable["Top"]) -> "Top":
        """Return the lists of several results one below the other: more queries, over the same instances.

        Queries that are numbered in every part are numbered anew.

        Args:
            tops: results for other queries with the same k.

        Raises:
            ScoresError: the parts differ in k, unit or provenance, or are not about queries.

        Example:
            >>> from turnover.scores import Scores, Top
            >>> scores = Scores([[0.5, 0.0], [-1.0, 2.0]], ids=[7, 8], queries=["a", "b"])
            >>> Top.concat([scores.top(1, query="a"), scores.top(1, query="b")]).equals(scores.top(1))
            True
        """
        tops = list(tops)
        told = _alike(tops, "queries")
        if any(top.queries is None for top in tops):
            raise ScoresError("a list that is not about a query cannot be put beside others; see Top.merge.")
        queries = all_names([top.queries or () for top in tops])
        known = [name for name in _ARRAYS if getattr(tops[0], name) is not None]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(top, name) for top in tops]) for name in known}
        return cls(**arrays, queries=queries, **vars(told))

    @classmethod
    def of(cls, lists: Lists, **rest: Any) -> "Top":
        """Return the result with these lists; the rest as for the class."""
        return cls(
            helpful_ids=lists.helpful.ids,
            helpful_scores=lists.helpful.scores,
            helpful_stderr=lists.helpful.stderr,
            helpful_p=lists.helpful.p,
            harmful_ids=lists.harmful.ids,
            harmful_scores=lists.harmful.scores,
            harmful_stderr=lists.harmful.stderr,
            harmful_p=lists.harmful.p,
            counts=lists.counts,
            **rest,
        )

    @property
    def k(self) -> int:
        """Return the length of each list."""
        return self.helpful_ids.shape[1]

    def against(self, null: ArrayLike) -> "Top":
        """Return these lists with p-values, given the scores of never-trained ids on the same queries.

        Lists that are merged from many parts are judged once, when they are complete.

        Args:
            null: scores [j, m], as for `Scores`, computed and averaged just as those in the lists.

        Raises:
            ScoresError: null does not fit the queries.

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

    def distinguishable(self, level: float = 0.05) -> Ints:
        """Return how many leading entries of both lists are distinguishable from noise, [m, 2]: helpful, harmful.

        Benjamini and Hochberg's correction is made for all instances that the lists were chosen from, not only for
        those listed; see `Scores.significant`. As the others' p-values are not kept, each list counts as if all the
        others were noise: an entry that is marked is marked by `Scores.significant` too, and where hundreds of
        instances are, lists of a few may mark fewer than they could. P-values are those of `against`; without, those
        of standard errors from 3 replicas or more.

        Args:
            level: share of the marked that may be noise.

        Raises:
            ScoresError: level is not between 0 and 1, or noise is not known.

        Example:
            >>> from turnover.scores import Scores
            >>> null = np.random.default_rng(0).normal(size=(1000, 1))
            >>> Scores([[0.5], [-9.0], [9.0]], ids=[7, 8, 9], null=null).top(2).distinguishable()
            array([[1, 1]])
        """
        level = checked_level(level)
        p = self._p
        if p is None:
            raise ScoresError(
                "what noise looks like is not known for these lists: give the scores of never-trained ids with "
                ".against(null), or train 3 replicas or more (turnover.wrap(..., replicas=3))."
            )
        return leading(self._lists, *p, level)

    def equals(self, other: object) -> bool:
        """Tell whether all is the same in both, NaN equal to NaN."""
        if not isinstance(other, Top):
            return False
        if (told_by(self), self.queries) != (told_by(other), other.queries):
            return False
        return all(same(getattr(self, name), getattr(other, name)) for name in _ARRAYS)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return one row an entry: query, side, place, instance, score and, where known, stderr and p.

        Needs pandas: pip install 'turnover[store]'.

        Example:
            >>> from turnover.scores import Scores
            >>> Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9]).top(1).to_pandas()
               query     side  place  instance  score
            0      0  helpful      0         9    2.0
            1      0  harmful      0         8   -1.0
        """
        from .tables import top_table

        return top_table(self)

    def __repr__(self) -> str:
        """Return a table of the first entries that a person can read."""
        from .text import top_text

        return top_text(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))

    @property
    def knows_noise(self) -> bool:
        """Tell whether `distinguishable` has something to judge by."""
        return self._p is not None

    @property
    def _p(self) -> tuple[Floats, Floats] | None:
        """Return the p-values of both lists, if they can be known."""
        if self.helpful_p is not None and self.harmful_p is not None:
            return self.helpful_p, self.harmful_p
        if self.helpful_stderr is None or self.harmful_stderr is None or self.replicas < FEWEST_REPLICAS:
            return None
        # In place of standard errors from replicas there may be the spread of never-trained ids.
        if self.null_spread is not None and _is_spread(self.helpful_stderr, self.null_spread):
            return None
        df = self.replicas - 1
        return (
            error_p_values(self.helpful_scores, self.helpful_stderr, df),
            error_p_values(self.harmful_scores, self.harmful_stderr, df),
        )

    @property
    def _lists(self) -> Lists:
        return Lists(
            Entries(self.helpful_ids, self.helpful_scores, self.helpful_stderr, self.helpful_p),
            Entries(self.harmful_ids, self.harmful_scores, self.harmful_stderr, self.harmful_p),
            self.counts,
        )


def _alike(tops: Sequence[Top], over: Over) -> About:
    """Return what all parts say about themselves; raise unless they are lists of a kind."""
    if not tops:
        raise ScoresError("there is nothing to put together; give one Top or more.")
    told = agreed([told_by(top) for top in tops], over)
    for place, top in enumerate(tops):
        if top.k != tops[0].k:
            raise ScoresError(f"part {place} has k={top.k} and part 0 k={tops[0].k}; choose lists of one length.")
        for what in ("null_spread", *_NUMBERS[2:]):
            if (getattr(top, what) is None) != (getattr(tops[0], what) is None):
                raise ScoresError(f"{what} is known for some of the parts only; compute all parts the same way.")
    return told


def _is_spread(stderr: Floats, spread: Floats) -> bool:
    return bool(((stderr == spread[:, None]) | np.isnan(stderr)).all())


def _shape(ids: Any) -> tuple[int, int]:
    shape = np.shape(ids)
    if len(shape) != 2:
        raise ScoresError(f"helpful_ids have shape {list(shape)}; give [queries, k].")
    return shape[0], shape[1]


def _refuse_shared(tops: Sequence[Top]) -> None:
    """Raise if an instance stands in two parts: it was scored twice and would be listed twice."""
    for side in ("helpful_ids", "harmful_ids"):
        together = np.sort(np.concatenate([_each_once(getattr(top, side)) for top in tops], axis=1), axis=1)
        twice = (together[:, 1:] == together[:, :-1]) & (together[:, 1:] >= 0)
        if twice.any():
            query, place = np.argwhere(twice)[0]
            raise ScoresError(
                f"instance {together[query, place]} stands in more than one part; "
                "merge results over disjoint sets of training instances."
            )


def _each_once(ids: Ints) -> Ints:
    """Return each list's ids without repetition (rows of a group share one), filled up with −1."""
    result = np.sort(ids, axis=1)
    result[:, 1:][result[:, 1:] == result[:, :-1]] = -1
    return result
