"""Explanations as data: which training rows pushed a prediction where it is, and how sure that is."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from .plain_data import plain, table_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Reason:
    """One training row behind a prediction.

    Attributes:
        id: its instance id.
        position: its place among the training instances, counted from 0: the row number, unless rows share ids.
        label: its label; None: not known.
        score: its influence on the loss at the predicted label; positive: it pushes toward it. Relative explanations
            give it divided by the row's magnitude.
        stderr: its standard error; None: not known.
        p_value: how probable such a score is for an id that was never trained; None: not known.
        stands_out: whether it is distinguishable from noise among all rows that it was chosen from.
    """

    id: int
    position: int
    label: Any
    score: float
    stderr: float | None
    p_value: float | None
    stands_out: bool


@dataclass(frozen=True)
class Explanation:
    """What made one prediction.

    Attributes:
        query: the query's name: its id where it has one, else its place.
        predicted: the label that the whole network gives it.
        probability: of that label.
        given: the query's own label; None: it has none.
        pushed: rows that pushed toward the prediction, the strongest first.
        against: rows that pushed against it, the strongest first.
    """

    query: int | str
    predicted: int
    probability: float
    given: int | None
    pushed: tuple[Reason, ...]
    against: tuple[Reason, ...]

    @property
    def wrong(self) -> bool:
        """Tell whether the prediction differs from the given label."""
        return self.given is not None and self.given != self.predicted

    @property
    def meaningful(self) -> int:
        """Return how many of the first rows that pushed stand out; from there on the order is noise."""
        return _leading(self.pushed)

    @property
    def meaningful_against(self) -> int:
        """Return how many of the first rows that pushed against it stand out."""
        return _leading(self.against)


@dataclass(frozen=True)
class Explanations:
    """What made each of some predictions.

    Attributes:
        items: one a query, in their order.
        same_label: only rows of the predicted label were looked at; "pushed": among those that pushed toward it.
        relative: scores are divided by the rows' magnitudes.
        level: share of the rows that stand out which may be noise.
        unit: what scores are differences of.
        replicas: over how many networks they are averaged.
        path: how they were computed.
    """

    items: tuple[Explanation, ...]
    same_label: bool | Literal["pushed"]
    relative: bool
    level: float
    unit: str
    replicas: int
    path: str

    def __len__(self) -> int:
        """Return how many queries there are."""
        return len(self.items)

    def __iter__(self) -> Iterator[Explanation]:
        """Iterate over the queries."""
        return iter(self.items)

    def __getitem__(self, place: int) -> Explanation:
        """Return the explanation of one query."""
        return self.items[place]

    @property
    def repetition(self) -> float:
        """Return the share of queries that are topped by the row which tops most queries of their predicted label.

        Near 1 a few rows explain everything, and so nothing; `relative=True` lowers it.
        """
        first = Counter((one.predicted if self.same_label else None, one.pushed[0].id) for one in self if one.pushed)
        most: dict[int | None, int] = {}
        for (label, _), count in first.items():
            most[label] = max(count, most.get(label, 0))
        return sum(most.values()) / max(1, sum(first.values()))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        data = plain(self)
        for one, item in zip(self.items, data["items"], strict=True):
            item |= {
                "wrong": one.wrong,
                "meaningful": one.meaningful,
                "meaningful_against": one.meaningful_against,
            }
        return data

    def table(self) -> "pandas.DataFrame":
        """Return one row a reason: query, predicted, probability, given, side, place, and what `Reason` has."""
        rows: list[Mapping[str, Any]] = []
        for one in self.items:
            about = {name: getattr(one, name) for name in ("query", "predicted", "probability", "given")}
            for side in ("pushed", "against"):
                reasons: tuple[Reason, ...] = getattr(one, side)
                rows += [{**about, "side": side, "place": place, **vars(r)} for place, r in enumerate(reasons)]
        columns = ["query", "predicted", "probability", "given", "side", "place", *(f.name for f in fields(Reason))]
        return table_of(rows, columns)


def _leading(reasons: tuple[Reason, ...]) -> int:
    return next((place for place, reason in enumerate(reasons) if not reason.stands_out), len(reasons))
