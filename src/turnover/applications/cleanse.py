"""Cleanse training data: the instances whose mean influence on a validation set is most harmful (§4.4)."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.batches import batches_of
from turnover.errors import ApplicationError, TurnOverError
from turnover.ids import Ids, id_array
from turnover.influence import Influence
from turnover.scores import OutOfSample, Scores

from .examples import Examples, HeldOutExample, TrainInstances, held_out_fields
from .results import Noise, NoiseFrom, Result, noise_from, table_of

if TYPE_CHECKING:
    import pandas

# In words that suit a function and an option of a command alike.
_HOW = 'Give a percentage such as "1%", a share such as 0.01, a number of rows such as 25, or "significant".'


@dataclass(frozen=True)
class HarmfulExample(HeldOutExample):
    """A training example, or group of them, with its mean influence on a validation set."""

    score: float
    stderr: float | None
    p_value: float | None
    significant: bool

    def __str__(self) -> str:
        words = "" if self.group is None else f"group {self.group}: "
        words += f"mean influence {self.score:.3g}" + ("" if self.stderr is None else f" ± {self.stderr:.2g}")
        if self.p_value is not None:
            words += f" (p = {self.p_value:.1g}, {'' if self.significant else 'not '}significant)"
        elif self.stderr is not None:
            words += f" ({'' if self.significant else 'not '}significant)"
        return f"{words}; {self.prediction_words}." if self.prediction_words else f"{words}."


@dataclass(frozen=True)
class HarmfulExamples(Result):
    """Training examples by mean influence on the validation set, the most harmful first.

    Attributes:
        count: how many are harmful and significant; `helpful`: how many are helpful and significant.
        standardized: scores are relative to what training rows usually do to each validation row.
        noise_from: what significance is judged by; None: it is not known, and no example is marked.
    """

    count: int
    helpful: int
    scored: int
    unit: str
    standardized: bool
    method: str
    noise_from: NoiseFrom
    items: tuple[HarmfulExample, ...]


@dataclass(frozen=True)
class Cleansing(Result):
    """Which training instances to drop, and why.

    Attributes:
        mean: mean influence of every training instance on the validation set.
        kept: bool for every training instance, in the order of the data.
        requested: how many were to be dropped; None: all that are significantly harmful.
        protected: how many harmful ones are protected, and so kept.
        spared_classes: classes of which the last row was kept.
    """

    _hidden = ("mean", "kept")

    mean: Scores
    dropped: tuple[HarmfulExample, ...]
    kept: NDArray[np.bool_]
    drop: str
    requested: int | None
    level: float
    significant: int
    protected: int
    spared_classes: tuple[Any, ...]
    validation_rows: int
    instances: int
    unit: str
    method: str
    noise_from: NoiseFrom

    @property
    def dropped_ids(self) -> Ids:
        """Return the ids of the instances to drop, the most harmful first."""
        return id_array([one.id for one in self.dropped])

    def table(self) -> "pandas.DataFrame":
        """Return one row per dropped instance: what `HarmfulExample` has."""
        return table_of(self.dropped, HarmfulExample)


def cleanse(
    influence: Influence,
    validation: Any,
    *,
    drop: str | float = "1%",
    level: float = 0.05,
    protect: ArrayLike | None = None,
    train_labels: Any = None,
    mean: Scores | None = None,
    out_of_sample: OutOfSample | None = None,
    examples: Examples | None = None,
    progress: bool | None = False,
) -> Cleansing:
    """Return the training instances that harm a validation set most, as many as asked for.

    Only instances of negative mean influence are dropped, none that is protected, and never the last row of a class.

    Args:
        influence: with its training data.
        validation: labeled rows that were not trained on and stand for what the model is for.
        drop: "1%" or 0.01, a share of all rows; 25, a number of rows; "significant", all that are significantly
            harmful.
        level: false discovery rate of the significant ones.
        protect: ids that are never dropped.
        train_labels: the label of every training instance, in the order of the data; None: those of the data.
        mean: `influence.mean(validation)` where it is known already; None: it is computed.
        out_of_sample: `influence.out_of_sample()` where it is known already; None: it is computed.
        examples: the training rows with their names; None: results have positions and class numbers.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: an amount, an id or labels that do not fit, or training data of one class.
        InfluenceError: the validation set is empty or has no labels.

    Example:
        >>> import torch, turnover
        >>> x, y = torch.randn(60, 4), torch.randint(2, (60,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x[:40], y[:40]))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(40)):
        ...     _ = net(x[:40])  # training goes here
        >>> found = cleanse(turnover.Influence(net, train=data, estimator="tod"), (x[40:], y[40:]), drop="5%")
        >>> len(found.dropped), int(found.kept.sum())
        (2, 38)
    """
    known = TrainInstances.of(influence, train_labels, examples, needed=False)
    text, most = drop_amount(drop, len(known))
    classes = None if known.labels is None or known.labels.dtype.kind == "f" else known.labels
    if classes is not None and len(classes) > 0 and (classes == classes[0]).all():
        raise ApplicationError(
            f"all {len(classes)} training rows have the label {classes[0].item()!r}, so no row can be harmful to "
            "another class. Give training data of two classes or more."
        )
    protected = _protected(protect, known)
    if mean is None:
        mean = influence.mean(validation, at_label="given", progress=progress)
    if most is None and noise_from(mean) is None:
        raise ApplicationError(
            "drop: which rows are significant is not known: scores of "
            f"{'a single network' if mean.replicas == 1 else f'{mean.replicas} networks'} have no interval. Give an "
            'amount such as "1%", or train 3 replicas or more.'
        )
    noise, harmful = Noise.of(mean, level), _harmful_first(mean)
    candidates = [place for place in harmful.tolist() if not protected[place] and (most or noise.significant[place])]
    chosen, spared = _sparing_classes(candidates, most, classes)
    if out_of_sample is None and chosen:
        with suppress(TurnOverError):  # outputs that are no predictions of one thing: there is nothing to say
            out_of_sample = influence.out_of_sample(progress=progress)
    kept = np.ones(len(known), bool)
    kept[chosen] = False
    return Cleansing(
        mean=mean,
        dropped=_harmful_examples(known, chosen, mean, noise, out_of_sample),
        kept=kept,
        drop=text,
        requested=most,
        level=level,
        significant=int(noise.significant[harmful].sum()),
        protected=int(protected[harmful].sum()),
        spared_classes=tuple(spared if examples is None else map(examples.labels.name, spared)),
        validation_rows=sum(
            batch.rows for batch in batches_of(validation, targets=influence.targets, training_rows=False)
        ),
        instances=len(known),
        unit=mean.unit,
        method=mean.method,
        noise_from=noise_from(mean),
    )


def find_harmful(
    mean: Scores, out_of_sample: OutOfSample, examples: Examples, *, level: float, most: int = 200
) -> HarmfulExamples:
    """Return harmful training examples as a finding: its counts, and at most so many of negative mean influence."""
    noise, harmful = Noise.of(mean, level), _harmful_first(mean)
    known = TrainInstances(mean.mask_ids, None, examples, mean.names)
    return HarmfulExamples(
        count=int(noise.significant[harmful].sum()),
        helpful=int((noise.significant & (mean.values > 0)).sum()),
        scored=len(mean),
        unit=mean.unit,
        standardized=mean.standardized,
        method=mean.method,
        noise_from=noise_from(mean),
        items=_harmful_examples(known, harmful[:most].tolist(), mean, noise, out_of_sample),
    )


def drop_amount(drop: Any, count: int) -> tuple[str, int | None]:
    """Return how many of `count` rows to drop, as a person would write it and as a number; of a share at least one.

    Example:
        >>> drop_amount("1%", 500), drop_amount(0.5, 3), drop_amount(7, 500)
        (('1%', 5), ('50%', 2), ('7 rows', 7))
        >>> drop_amount("significant", 500)  # all that are significantly harmful
        ('significant', None)
    """
    text = str(drop).strip()
    if text.lower() == "significant":
        return "significant", None
    try:
        amount = math.nan if isinstance(drop, bool) else float(text.removesuffix("%"))
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise ApplicationError(f"drop: must be an amount of rows, got {drop!r}. {_HOW}")
    if isinstance(drop, int) or (isinstance(drop, str) and text.isdecimal() and amount >= 1):
        if not 1 <= amount < count:
            raise ApplicationError(f"drop: must be from 1 to {count - 1} of {count} rows, got {drop}. {_HOW}")
        return f"{int(amount)} rows", int(amount)
    percent = text.removesuffix("%").strip() if text.endswith("%") else f"{100 * amount:g}"
    share = amount / 100 if text.endswith("%") else amount
    if not 0 < share < 1:
        raise ApplicationError(f"drop: must be between 0% and 100% of the rows, got {percent}%. {_HOW}")
    return f"{percent}%", min(max(1, round(share * count)), count - 1)


def _harmful_first(mean: Scores) -> NDArray[np.int64]:
    order = np.lexsort((mean.mask_ids, mean.values))
    return order[np.nan_to_num(mean.values[order], nan=0.0) < 0]


def _harmful_examples(
    known: TrainInstances, positions: Sequence[int], mean: Scores, noise: Noise, out_of_sample: OutOfSample | None
) -> tuple[HarmfulExample, ...]:
    if out_of_sample is None or not positions:
        held_out = [held_out_fields(None, None, -1)] * len(positions)
    else:
        held_out = known.held_out(out_of_sample, positions)
    return tuple(
        HarmfulExample(**known.instance(position), **held, score=float(mean.values[position]), **noise.at(position))
        for position, held in zip(positions, held_out, strict=True)
    )


def _protected(protect: ArrayLike | None, known: TrainInstances) -> NDArray[np.bool_]:
    result = np.zeros(len(known), bool)
    if protect is None:
        return result
    ids = np.asarray(protect).reshape(-1)
    if ids.size and ids.dtype.kind not in "iu":
        raise ApplicationError(f"protect must hold instance ids, as in protect=[3, 17], got {ids.dtype}.")
    positions = known.positions(ids.astype(np.int64))
    if (positions < 0).any():
        raise ApplicationError(
            f"protect must hold ids of training instances, got {ids[positions < 0][0]}. Give ids of training rows."
        )
    result[positions] = True
    return result


def _sparing_classes(
    candidates: Sequence[int], count: int | None, labels: NDArray[Any] | None
) -> tuple[list[int], list[Any]]:
    """Return the first `count` positions that leave every class a row, and the classes of which one was spared."""
    if labels is None:
        return list(candidates[:count]), []
    left = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
    chosen: list[int] = []
    spared: dict[Any, None] = {}
    for position in candidates:
        if count is not None and len(chosen) == count:
            break
        label = labels[position].item()
        if left[label] == 1:
            spared[label] = None
            continue
        left[label] -= 1
        chosen.append(position)
    return chosen, list(spared)
