"""Annotators, sources, users: influence of whole groups of training rows, and predictions without one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError, InfluenceError
from turnover.ids import Name, Names
from turnover.influence import Influence, null_ids
from turnover.scores import Scores, discoveries, normal_tail, student_tail

from .examples import Examples
from .predictions import predictions
from .results import Noise, NoiseFrom, Result, checked_count, checked_labels, noise_from, table_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class GroupScore(Result):
    """The influence of one group on the queries.

    Attributes:
        rows: its training rows; 1 where that is not known of a group that was the instance.
        score: mean influence on the queries of the whole group; positive: it helps.
        likely_label_errors: among its labels; None: not looked for.
    """

    group: Any
    rows: int
    score: float
    per_row: float
    stderr: float | None
    p_value: float | None
    significant: bool
    likely_label_errors: int | None = None


@dataclass(frozen=True)
class GroupScores(Result):
    """The influence of groups, the most harmful first.

    Attributes:
        as_instances: whether groups were the instances of the training; else scores are sums over their rows.
        noise_from: what significance is judged by; None: it is not known, and no group is marked.
    """

    items: tuple[GroupScore, ...]
    as_instances: bool
    level: float
    unit: str
    method: str
    noise_from: NoiseFrom

    def table(self) -> "pandas.DataFrame":
        """Return one row per group: what `GroupScore` has."""
        return table_of(self.items, GroupScore)


@dataclass(frozen=True)
class WithoutGroup(Result):
    """Predictions with one group switched off.

    Attributes:
        full: probabilities of the full network [rows, classes].
        without: those of the flipped subnetwork of the group, which was not trained on it.
        usual: the mean of those of flipped subnetworks of null ids: what being smaller alone changes.
        spread: how much these differ from each other [rows, classes].
    """

    _also = ("changed", "distance")

    full: NDArray[np.float32]
    without: NDArray[np.float32]
    usual: NDArray[np.float32]
    spread: NDArray[np.float32]

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Tell for each row whether the most probable class is another one without the group."""
        return self.without.argmax(1) != self.full.argmax(1)

    @property
    def distance(self) -> NDArray[np.float32]:
        """Return how far the full network's class moved from `usual` without the group, in spreads [rows]."""
        rows, label = np.arange(len(self.full)), self.full.argmax(1)
        moved = self.without[rows, label] - self.usual[rows, label]
        return (moved / np.maximum(self.spread[rows, label], 1e-6)).astype(np.float32)


def groups(
    influence: Influence,
    queries: Any,
    *,
    members: Any = None,
    names: Mapping[int, Any] | None = None,
    level: float = 0.05,
    progress: bool | None = False,
) -> GroupScores:
    """Return the influence of each group of training rows on a set of queries.

    Where groups were the instances of the training (`turnover.with_instance_ids(data, groups="annotator")`), a group
    has one mask and its score is that of its id: its flipped subnetwork, which was trained on none of its rows, against
    its kept one. Where rows were the instances, a group's score is the sum of its rows'. That leaves out what rows
    teach together, and the other rows of the group stay in play; prefer groups as instances when the question is known
    before training.

    Args:
        influence: with its training data.
        queries: labeled rows, as for `Influence.mean`.
        members: the group of every training instance, in the order of the data; None: instances are groups.
        names: of groups that are instances, by mask id; None: ids as `influence` knows them.
        level: false discovery rate of the significant groups.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: not one group per instance.

    Example:
        >>> import torch, turnover
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(40)):
        ...     _ = net(x)  # training goes here
        >>> scores = groups(turnover.Influence(net, train=data, estimator="tod"), (x, y), members=["Ann", "Bob"] * 20)
        >>> sorted(item.group for item in scores.items), scores.items[0].rows
        (['Ann', 'Bob'], 20)
    """
    mean = influence.mean(queries, progress=progress)
    if members is None:
        every = (mean.names | Names.given(names)).shown(mean.mask_ids)
        values, sizes, noise = mean.values.astype(np.float64), np.ones(len(mean), np.int64), Noise.of(mean, level)
    else:
        every, place, sizes = np.unique(checked_labels(members, len(mean)), return_inverse=True, return_counts=True)
        finite = np.nan_to_num(mean.values.astype(np.float64), nan=0.0)
        values = np.bincount(place, finite, len(every)).astype(np.float64)
        noise = _noise_of_sums(values, mean, place, sizes, level)
    shown, rows = every.tolist(), sizes.tolist()
    order = np.argsort(values, kind="stable").tolist()
    items = tuple(
        GroupScore(shown[at], rows[at], float(values[at]), float(values[at]) / rows[at], **noise.at(at)) for at in order
    )
    return GroupScores(items, members is None, level, mean.unit, mean.method, noise_from(mean))


def find_groups(
    mean: Scores, examples: Examples, label_errors: NDArray[np.bool_], *, level: float, most: int = 200
) -> GroupScores:
    """Return groups that were the instances of the training as a finding, the most harmful first, if there are any."""
    items: list[GroupScore] = []
    noise, ids = Noise.of(mean, level), examples.ids[examples.train_rows]
    order = np.argsort(mean.values, kind="stable") if examples.groups else np.empty(0, np.int64)
    for at in order[np.isfinite(mean.values[order])][:most].tolist():
        group, score = examples.instance_of(int(mean.mask_ids[at])), float(mean.values[at])
        errors = int(label_errors[ids == mean.mask_ids[at]].sum())
        about = group["group"], group["rows"], score, score / group["rows"]
        items.append(GroupScore(*about, **noise.at(at), likely_label_errors=errors))
    return GroupScores(tuple(items), True, level, mean.unit, mean.method, noise_from(mean))


def without_group(influence: Influence, group: Name, inputs: Any, *, others: int = 32) -> WithoutGroup:
    """Return predictions by the flipped subnetwork of a group, beside those of the full network.

    Half of a network predicts a little differently from the whole of it, whatever the half. So the same is done with
    null ids: only what goes beyond them is due to the group.

    Args:
        influence: of a classifier whose instances are groups.
        group: the group's name or id.
        inputs: rows, as for `Influence.pairwise`.
        others: how many null ids to compare with.

    Raises:
        ApplicationError: the group was never trained, or others is less than 2.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances([7] * 20):
        ...     _ = net(torch.randn(20, 4))  # training goes here
        >>> without_group(turnover.Influence(net), 7, torch.randn(3, 4)).changed.shape
        (3,)
    """
    others = checked_count(others, "others", least=2, such_as="32")  # for a standard deviation
    is_id = isinstance(group, int | np.integer) and not isinstance(group, bool) and group >= 0
    if not is_id and not isinstance(group, str):
        raise ApplicationError(f"group must be a name or an integer >= 0, got {group!r}. Give the name of a group.")
    try:  # without training data any id may be meant
        mask_id = int(influence.mask_ids([group])[0])
    except InfluenceError as error:
        raise ApplicationError(
            f"no training instance has the id {group!r} ({error}) Give ids to groups: "
            "turnover.with_instance_ids(data, groups='column')."
        ) from error
    full = predictions(influence, inputs).probs
    ids = [mask_id, *null_ids(others).tolist()]
    flipped = np.stack([predictions(influence, inputs, flipped=id).probs for id in ids])
    return WithoutGroup(full, flipped[0], flipped[1:].mean(0), flipped[1:].std(0, ddof=1))


def _noise_of_sums(
    values: NDArray[np.float64], mean: Scores, place: NDArray[np.int64], sizes: NDArray[np.int64], level: float
) -> Noise:
    """Return the noise of sums of scores; `place` is the group of each score.

    Masks of different rows are independent, so variances add up. What was subtracted from all of them was estimated on
    null ids; its error is common to the rows of a group and adds up as it is. Without null ids rows are scored by the
    same networks, and how their errors go together is not known: the sum of them is the most that it can be.
    """
    known = noise_from(mean)
    if mean.stderr is None or known is None:
        return Noise(None, None, np.zeros(len(values), bool))
    if mean.null is None:
        stderr = np.bincount(place, mean.stderr, len(sizes)).astype(np.float64)
    else:
        variance = np.bincount(place, np.square(mean.stderr.astype(np.float64)), len(sizes))
        if mean.offset is not None:
            variance = variance + np.square(sizes) * mean.null.astype(np.float64).var(ddof=1) / len(mean.null)
        stderr = np.sqrt(variance)
    distances = values / np.maximum(stderr, 1e-30)
    tail = normal_tail(distances) if known == "null_ids" else student_tail(distances, mean.replicas - 1)
    p = tail.astype(np.float32)
    return Noise(stderr, p if known == "null_ids" else None, discoveries(p[:, None], level)[:, 0])
