"""What the network memorized: self-influence, and labels that the part which never saw a row does not believe."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import turnover
from turnover.errors import ApplicationError
from turnover.scores import OutOfSample, Scores

from .label_margins import doubtful_first, label_margins
from .near_duplicates import Duplicates
from .plain_data import plain, table_of
from .train_instances import checked_count, checked_labels

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class MemorizedRow:
    """One training row, as far as it was memorized.

    Attributes:
        id: its instance id.
        position: its row number in the data.
        label: its given label.
        suggested: the label that the part of the network which never saw it holds for most probable.
        label_probability: what that part gives the given label.
        suggested_probability: and what it gives the suggested one.
        margin: how much more it believes in the given label than in any other, −1 to 1; see `label_margins`.
        self_influence: how much having seen the row helps on it; high: memorized.
        stderr: standard error of the self-influence; None: not known.
        twins: positions of its near-duplicates, with which it was not truly unseen.
        twins_disagree: whether one of them has another label.
    """

    id: int
    position: int
    label: int
    suggested: int
    label_probability: float
    suggested_probability: float
    margin: float
    self_influence: float
    stderr: float | None
    twins: tuple[int, ...]
    twins_disagree: bool

    @property
    def sentence(self) -> str:
        """Return it in words."""
        said = f"given {self.label} ({self.label_probability:.0%}), "
        if self.suggested == self.label:
            said += "and the part that never saw it agrees"
        else:
            said += f"but the part that never saw it says {self.suggested} ({self.suggested_probability:.0%})"
        if self.twins_disagree:
            said += "; a near-duplicate has another label"
        elif self.twins:
            said += "; not truly unseen, as it has a near-duplicate"
        return said + "."


@dataclass(frozen=True)
class Histogram:
    """How often values fall between edges: counts [bins], edges [bins + 1]."""

    counts: NDArray[np.int64]
    edges: NDArray[np.float64]


@dataclass(frozen=True)
class Memorized:
    """How far each training row was memorized.

    Attributes:
        self_influence: of every row.
        unseen: predictions of every row by the part that never saw it.
        labels: the given labels [n].
        margins: of every row's given label [n], see `label_margins`; negative: not the most probable.
        order: places of all rows, the likeliest wrong label first; see `doubtful_first`.
        duplicates: rows that are nearly the same; None: not looked for.
    """

    self_influence: Scores
    unseen: OutOfSample
    labels: NDArray[np.int64]
    margins: NDArray[np.float32]
    order: NDArray[np.int64]
    duplicates: Duplicates | None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @property
    def share_positive(self) -> float:
        """Return the share of rows whose self-influence is positive."""
        values = self.self_influence.values
        return float((values[np.isfinite(values)] > 0).mean())

    @property
    def disbelieved(self) -> int:
        """Return how many rows have a label that is not the most probable to the part which never saw them."""
        return int((self.margins < 0).sum())

    def histogram(self, bins: int = 50) -> Histogram:
        """Return the histogram of self-influence between its 0.5th and 99.5th percentile; outermost bins hold the rest.

        Args:
            bins: how many.
        """
        bins = checked_count(bins, "bins")
        values = self.self_influence.values[np.isfinite(self.self_influence.values)].astype(np.float64)
        low, high = np.percentile(values, [0.5, 99.5])
        if not high > low:
            low, high = low - 0.5, high + 0.5
        counts, edges = np.histogram(np.clip(values, low, high), bins, (low, high))
        return Histogram(counts, edges)

    def row(self, place: int) -> MemorizedRow:
        """Return what is known of one row."""
        probs, stderr = self.unseen.probs[place], self.self_influence.stderr
        label, suggested = int(self.labels[place]), int(probs.argmax())
        twins = () if self.duplicates is None else self.duplicates.twins(place)
        return MemorizedRow(
            id=int(self.unseen.ids[place]),
            position=int(place),
            label=label,
            suggested=suggested,
            label_probability=float(probs[label]),
            suggested_probability=float(probs[suggested]),
            margin=float(self.margins[place]),
            self_influence=float(self.self_influence.values[place]),
            stderr=None if stderr is None else float(stderr[place]),
            twins=twins,
            twins_disagree=bool((self.labels[list(twins)] != label).any()),
        )

    def likely_wrong(self, k: int | None = None) -> tuple[MemorizedRow, ...]:
        """Return the rows whose label looks wrong, the likeliest first.

        Args:
            k: that many rows, whatever their margin; None: all whose label is not the most probable.
        """
        count = self.disbelieved if k is None else checked_count(k, "k")
        return tuple(self.row(int(place)) for place in self.order[:count])

    def most_memorized(self, k: int = 10) -> tuple[MemorizedRow, ...]:
        """Return the k rows of the highest self-influence, the highest first."""
        values = np.nan_to_num(self.self_influence.values, nan=-np.inf)
        order = np.lexsort((np.arange(len(values)), -values))
        return tuple(self.row(int(place)) for place in order[: checked_count(k, "k")])

    def as_dict(self, k: int | None = None) -> dict[str, Any]:
        """Return a summary and the rows whose label looks wrong, as JSON could hold it.

        Args:
            k: as for `likely_wrong`.
        """
        return {
            "rows": len(self),
            "unit": self.self_influence.unit,
            "share_positive": self.share_positive,
            "disbelieved": self.disbelieved,
            "histogram": plain(self.histogram()),
            "duplicate_groups": None if self.duplicates is None else len(self.duplicates.groups),
            "likely_wrong": _as_rows(self.likely_wrong(k)),
            "most_memorized": _as_rows(self.most_memorized()),
        }

    def table(self) -> "pandas.DataFrame":
        """Return one row for each training row, the likeliest wrong label first: what `MemorizedRow` has."""
        rows = [vars(self.row(int(place))) for place in self.order]
        return table_of(rows, [field.name for field in fields(MemorizedRow)])


def memorized(
    influence: turnover.Influence,
    *,
    train: Any = None,
    labels: Any = None,
    duplicates: Duplicates | None = None,
    self_influence: Scores | None = None,
    unseen: OutOfSample | None = None,
    progress: bool | None = False,
) -> Memorized:
    """Return how far each training row was memorized, and which labels are doubtful.

    A label is suspicious where the part of the network that never saw the row does not believe it. Rows are ordered by
    `doubtful_first`; self-influence is reported beside it. A near-duplicate that was trained makes a row less unseen
    than it seems: where both have one label, self-influence is too low and the margin too good. Rows that have one say
    so.

    Args:
        influence: of a classifier, with its training data.
        train: rows with ids and labels; None: those of `influence`.
        labels: the label of every row, from 0 to classes − 1; None: those of the data.
        duplicates: of `near_duplicates` on the same rows; None: not looked for.
        self_influence: `influence.self_influence(train)` where it is known already; None: it is computed.
        unseen: `influence.out_of_sample(train)` where it is known already; None: it is computed.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: labels or duplicates do not fit the rows, or there is only one class.

    Example:
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> from turnover.training import TrainingRecipe
        >>> trained = TrainingRecipe(lambda: turnover.wrap(net, at=["1"]), x, y, epochs=40).fit()
        >>> found = memorized(turnover.Influence(trained, train=data))
        >>> len(found), len(found.likely_wrong(3)), 0 <= found.share_positive <= 1
        (40, 3, True)
    """
    own = influence.self_influence(train, progress=progress) if self_influence is None else self_influence
    seen = influence.out_of_sample(train, progress=progress) if unseen is None else unseen
    if not np.array_equal(own.ids, seen.ids):
        raise ApplicationError("self_influence and unseen are of different rows. Compute both on the same data.")
    given = _labels(labels, seen)
    if duplicates is not None and len(duplicates) != len(given):
        raise ApplicationError(
            f"duplicates were looked for among {len(duplicates)} rows, and there are {len(given)}. Give those of the "
            "same rows: near_duplicates(texts)."
        )
    margins, order = label_margins(seen, given), doubtful_first(seen, given)
    return Memorized(own, seen, given, margins, order, duplicates)


def _labels(labels: Any, seen: OutOfSample) -> NDArray[np.int64]:
    if labels is None and seen.labels is None:
        raise ApplicationError(
            "the labels of the rows are not known as classes. Give labels=[...], one a row, from 0 to classes − 1."
        )
    given = checked_labels(seen.labels if labels is None else labels, len(seen))
    classes = seen.probs.shape[1]
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= classes:
        raise ApplicationError(f"labels must be class numbers from 0 to {classes - 1}, one a row.")
    if (given == given[0]).all():
        raise ApplicationError(
            f"all {len(given)} rows have the label {given[0]}, so none can be told to be wrong. Give rows of two "
            "classes or more."
        )
    return given.astype(np.int64)


def _as_rows(rows: Sequence[MemorizedRow]) -> list[dict[str, Any]]:
    return [{**plain(row), "sentence": row.sentence} for row in rows]
