"""Annotators, sources, users: what a whole group of training rows does to predictions."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import turnover
from turnover.scores import Scores, discoveries, normal_tail

from .plain_data import plain, table_of
from .train_instances import checked_labels

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class GroupScore:
    """What one group does to the queries.

    Attributes:
        group: its name; its id where it has none.
        rows: how many training instances it has; 1 where the group itself was the instance.
        score: mean influence on the queries of the whole group; positive: it helps.
        per_row: the same for each of its rows.
        stderr: standard error of `score`; None: not known.
        p_value: how probable such a score is without any influence; None: not known.
        stands_out: whether it is distinguishable from noise among all groups.
    """

    group: Any
    rows: int
    score: float
    per_row: float
    stderr: float | None
    p_value: float | None
    stands_out: bool


@dataclass(frozen=True)
class GroupScores:
    """What groups do, the most helpful first.

    Attributes:
        items: one a group.
        as_instances: whether groups were the instances of the training; else scores are sums over their rows.
        level: share of the groups that stand out which may be noise.
        unit: what scores are differences of.
    """

    items: tuple[GroupScore, ...]
    as_instances: bool
    level: float
    unit: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        return plain(self)

    def table(self) -> "pandas.DataFrame":
        """Return one row a group: what `GroupScore` has."""
        return table_of([vars(item) for item in self.items], [field.name for field in fields(GroupScore)])


def groups(
    influence: turnover.Influence,
    queries: Any,
    *,
    members: Any = None,
    names: Mapping[int, Any] | None = None,
    level: float = 0.05,
    progress: bool | None = False,
) -> GroupScores:
    """Return what each group of training rows does to a set of queries.

    Where groups were the instances of the training (`turnover.with_instance_ids(data, groups="annotator")`), a group
    has one mask and its score is that of its id: the part of the network that never saw any of its rows against the
    part that did. Where rows were the instances, a group's score is the sum of its rows'. That leaves out what rows
    teach together, and the other rows of the group stay in play; prefer groups as instances when the question is known
    before training.

    Args:
        influence: with its training data.
        queries: labeled rows, as for `Influence.mean`.
        members: the group of every training instance, in the order of the data; None: instances are groups.
        names: of groups that are instances, by id, as `data.names` has them; None: ids.
        level: share of the groups that stand out which may be noise.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: not one group an instance.

    Example:
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(40)):
        ...     _ = net(x)  # training goes here
        >>> found = groups(turnover.Influence(net, train=data), (x, y), members=["Ann", "Bob"] * 20)
        >>> sorted(item.group for item in found.items), found.items[0].rows
        (['Ann', 'Bob'], 20)
    """
    mean = influence.mean(queries, progress=progress)
    if members is None:
        every = [(names or {}).get(int(id), int(id)) for id in mean.ids]
        stderr, p = mean.stderr, mean.p_values()
        values, sizes = mean.values.astype(np.float64), np.ones(len(mean), np.int64)
    else:
        given = checked_labels(members, len(mean))
        every, values, stderr, sizes = _summed(mean, given)
        p = None if stderr is None else normal_tail(values / np.maximum(stderr, 1e-30))
    marked = np.zeros(len(values), bool) if p is None else discoveries(np.asarray(p, np.float32)[:, None], level)[:, 0]
    items = [
        GroupScore(
            group=every[place],
            rows=int(sizes[place]),
            score=float(values[place]),
            per_row=float(values[place] / sizes[place]),
            stderr=None if stderr is None else float(stderr[place]),
            p_value=None if p is None else float(p[place]),
            stands_out=bool(marked[place]),
        )
        for place in np.argsort(-values, kind="stable")
    ]
    return GroupScores(tuple(items), members is None, level, mean.unit)


def _summed(
    mean: Scores, members: NDArray[Any]
) -> tuple[list[Any], NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.int64]]:
    """Return names, sums of scores, their standard errors and sizes of groups.

    Masks of different rows are independent, so variances add up. What was subtracted from all of them was estimated on
    never-trained ids; its error is common to the rows of a group and adds up as it is.
    """
    every, place, sizes = np.unique(members, return_inverse=True, return_counts=True)
    finite = np.nan_to_num(mean.values.astype(np.float64), nan=0.0)
    values = np.bincount(place, finite, len(every)).astype(np.float64)
    if mean.stderr is None:
        return every.tolist(), values, None, sizes.astype(np.int64)
    variance = np.bincount(place, np.square(mean.stderr.astype(np.float64)), len(every))
    if mean.null is not None and mean.offset is not None:
        variance = variance + np.square(sizes) * mean.null.astype(np.float64).var(ddof=1) / len(mean.null)
    return every.tolist(), values, np.sqrt(variance), sizes.astype(np.int64)
