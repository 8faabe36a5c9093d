"""Cleanse training data: the rows whose mean influence on a validation set is most harmful (§4.4)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import turnover
from turnover.batches import batches_of
from turnover.errors import ApplicationError
from turnover.scores import OutOfSample, Scores

from .drop_amount import DropAmount, drop_amount
from .plain_data import plain, table_of
from .train_instances import TrainInstances, train_instances
from .unseen import UnseenRow, unseen_rows

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class HarmfulRow:
    """A row that should go.

    Attributes:
        id: its instance id.
        position: its place among the training instances, counted from 0.
        label: its given label; None: not known.
        score: its mean influence on the validation set; negative: it harms.
        stderr: its standard error; None: not known.
        p_value: how probable such a mean is for an id that was never trained; None: not known.
        significant: whether it stands out from noise among all rows.
        unseen_label: what the part of the network that never saw the row says; None: not known.
        unseen_probability: how sure that part is.
        label_probability: the probability that it gives to the given label.
        reason: all this as a sentence.
    """

    id: int
    position: int
    label: Any
    score: float
    stderr: float | None
    p_value: float | None
    significant: bool
    unseen_label: int | None
    unseen_probability: float | None
    label_probability: float | None
    reason: str


@dataclass(frozen=True)
class Cleansing:
    """Which rows to drop, and why.

    Attributes:
        mean: mean influence of every training instance on the validation set.
        dropped: the rows to drop, the most harmful first.
        kept: bool for every training instance, in the order of the data.
        asked: how many were asked for, as a person would write it.
        level: share of the significant rows that may be noise.
        significant: how many rows are significantly harmful.
        validation_rows: on how many rows the mean was taken.
        notes: what did not go as asked.
    """

    mean: Scores
    dropped: tuple[HarmfulRow, ...]
    kept: NDArray[np.bool_]
    asked: str
    level: float
    significant: int
    validation_rows: int
    notes: tuple[str, ...]

    @property
    def dropped_ids(self) -> NDArray[np.int64]:
        """Return the ids of the rows to drop, the most harmful first."""
        return np.array([row.id for row in self.dropped], np.int64)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the scores of the rows that stay, as JSON could hold it."""
        return {
            "asked": self.asked,
            "level": self.level,
            "unit": self.mean.unit,
            "rows": len(self.kept),
            "dropped_rows": len(self.dropped),
            "significant": self.significant,
            "validation_rows": self.validation_rows,
            "notes": list(self.notes),
            "dropped": plain(self.dropped),
        }

    def table(self) -> "pandas.DataFrame":
        """Return one row for each that is dropped: what `HarmfulRow` has."""
        return table_of([vars(row) for row in self.dropped], [field.name for field in fields(HarmfulRow)])


def cleanse(
    influence: turnover.Influence,
    validation: Any,
    *,
    drop: str | float = "1%",
    level: float = 0.05,
    protect: ArrayLike | None = None,
    train_labels: Any = None,
    unseen: OutOfSample | None = None,
    progress: bool | None = False,
) -> Cleansing:
    """Return the training rows that harm a validation set most, as many as asked for, with a reason for each.

    Only rows with a negative mean influence are dropped, none that is protected, and never the last row of a class.

    Args:
        influence: with its training data.
        validation: labeled rows that were not trained on and stand for what the model is for.
        drop: "1%" or 0.01, a share of all rows; 25, a number of rows; "significant", all that stand out as harmful
            against ids that were never trained.
        level: share of the significant rows that may be noise.
        protect: ids that are never dropped.
        train_labels: the label of every training instance, in the order of the data; None: those of the data.
        unseen: `influence.out_of_sample()` where it is known already; None: it is computed.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: an amount, an id or labels that do not fit, or training data of one class.
        InfluenceError: the validation set is empty or has no labels.

    Example:
        >>> x, y = torch.randn(60, 4), torch.randint(2, (60,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x[:40], y[:40]))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(40)):
        ...     _ = net(x[:40])  # training goes here
        >>> found = cleanse(turnover.Influence(net, train=data), (x[40:], y[40:]), drop="5%")
        >>> len(found.dropped), int(found.kept.sum())
        (2, 38)
    """
    known = train_instances(influence, train_labels, needed=False)
    amount = drop_amount(drop, len(known))
    classes = None if known.labels is None or known.labels.dtype.kind == "f" else known.labels
    _refuse_one_class(classes)
    protected = _protected(protect, known)
    mean = influence.mean(validation, at_label="given", progress=progress)
    harmful = np.nan_to_num(mean.values, nan=0.0) < 0
    significant = mean.significant(level) & harmful
    order = np.lexsort((mean.ids, mean.values))
    wanted = [int(place) for place in order if harmful[place] and not protected[place]]
    if amount.rows is None:
        wanted = [place for place in wanted if significant[place]]
    chosen, spared = _sparing_classes(wanted, amount.rows, classes)
    told = unseen_rows(influence, unseen, known.ids[chosen], progress=progress)
    kept = np.ones(len(known), bool)
    kept[chosen] = False
    rows = _validation_rows(influence, validation)
    p = mean.p_values()
    return Cleansing(
        mean=mean,
        dropped=tuple(_row(place, mean, p, significant, known, told, rows) for place in chosen),
        kept=kept,
        asked=amount.text,
        level=level,
        significant=int(significant.sum()),
        validation_rows=rows,
        notes=tuple(_notes(amount, len(chosen), protected & harmful, spared, known)),
    )


def _refuse_one_class(labels: NDArray[Any] | None) -> None:
    if labels is not None and len(labels) > 0 and (labels == labels[0]).all():
        raise ApplicationError(
            f"all {len(labels)} training rows have the label {labels[0].item()!r}, so no row can be harmful to another "
            "class. Give training data of two classes or more."
        )


def _protected(protect: ArrayLike | None, known: TrainInstances) -> NDArray[np.bool_]:
    result = np.zeros(len(known), bool)
    if protect is None:
        return result
    ids = np.asarray(protect).reshape(-1)
    if ids.size and ids.dtype.kind not in "iu":
        raise ApplicationError(f"protect holds {ids.dtype}. Give instance ids, as in protect=[3, 17].")
    places = known.places(ids.astype(np.int64))
    if (places < 0).any():
        raise ApplicationError(
            f"protect holds the id {ids[places < 0][0]}, which is no training instance. Give ids of training rows."
        )
    result[places] = True
    return result


def _sparing_classes(
    wanted: Sequence[int], count: int | None, labels: NDArray[Any] | None
) -> tuple[list[int], list[Any]]:
    """Return the first `count` places that leave every class a row, and the classes for whose sake one was passed."""
    if labels is None:
        return list(wanted[:count]), []
    left = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
    chosen: list[int] = []
    spared: dict[Any, None] = {}
    for place in wanted:
        if count is not None and len(chosen) == count:
            break
        label = labels[place].item()
        if left[label] == 1:
            spared[label] = None
            continue
        left[label] -= 1
        chosen.append(place)
    return chosen, list(spared)


def _validation_rows(influence: turnover.Influence, validation: Any) -> int:
    return sum(batch.rows for batch in batches_of(validation, targets=influence.targets, training_rows=False))


def _notes(
    amount: DropAmount, dropped: int, protected: NDArray[np.bool_], spared: Sequence[Any], known: TrainInstances
) -> list[str]:
    notes: list[str] = []
    if spared:
        names = ", ".join(repr(label) for label in spared)
        notes.append(f"the last row of class {names} was kept: a class without rows cannot be learned.")
    if protected.any():
        notes.append(f"{int(protected.sum())} harmful rows are protected and were kept.")
    if amount.rows is not None and dropped < amount.rows:
        notes.append(
            f"{amount.rows} of {len(known)} rows were asked for ({amount.text}), but only {dropped} that may go have a "
            "negative mean influence."
        )
    if amount.rows is None and not dropped:
        notes.append("no row is significantly harmful, so none was dropped.")
    return notes


def _row(
    place: int,
    mean: Scores,
    p: NDArray[np.float32],
    significant: NDArray[np.bool_],
    known: TrainInstances,
    told: dict[int, UnseenRow],
    rows: int,
) -> HarmfulRow:
    id, label, stderr = int(mean.ids[place]), known.label(place), mean.stderr
    unseen = told.get(id)
    score, error = float(mean.values[place]), None if stderr is None else float(stderr[place])
    sentence = f"mean influence {score:.3g}" + ("" if error is None else f" ± {error:.2g}")
    sentence += f" on {rows} validation rows (p = {p[place]:.1g}"
    sentence += ", stands out from noise)" if significant[place] else ", could be noise)"
    return HarmfulRow(
        id=id,
        position=place,
        label=label,
        score=score,
        stderr=error,
        p_value=float(p[place]),
        significant=bool(significant[place]),
        unseen_label=None if unseen is None else unseen.label,
        unseen_probability=None if unseen is None else unseen.probability,
        label_probability=None if unseen is None else unseen.given_probability,
        reason=f"{sentence}." if unseen is None else f"{sentence}; {unseen.sentence(label)}.",
    )
