"""What the network memorized: self-influence of the training rows, and likely label errors among them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError
from turnover.influence import Influence
from turnover.scores import OutOfSample, Scores

from .examples import Examples, HeldOutExample, TrainInstances, held_out_fields
from .labels import HeldOutLabels, Labels, Residuals, WrongLabels, labels_of
from .near_duplicates import Duplicates
from .results import Histogram, Noise, Result, checked_count, entry, histogram, table_of

if TYPE_CHECKING:
    import pandas

_MOST_DUPLICATES = 4


@dataclass(frozen=True)
class MemorizedExample(HeldOutExample):
    """A training example: how far it was memorized, and what speaks for and against its label.

    Attributes:
        self_influence: how much training on the example improves its own prediction; high: memorized.
        significant: whether it differs from the null ids.
        confident: the other label is at least as probable as it is, on average, for examples that have it.
        duplicates: rows of its first near-duplicates among the training rows: with them it was not truly held out.
    """

    self_influence: float | None
    stderr: float | None
    significant: bool
    confident: bool
    duplicates: tuple[int, ...]
    duplicates_disagree: bool

    def __str__(self) -> str:
        words = self.prediction_words
        if self.duplicates_disagree:
            words += "; a near-duplicate has another label"
        elif self.duplicates:
            words += "; not truly held out, as it has a near-duplicate"
        return f"{words}."


@dataclass(frozen=True)
class LabelErrors(Result):
    """Training rows whose label is a likely error, the likeliest first.

    Attributes:
        expected_errors: how many of them are expected to be wrong, with a 90 % interval (`expected_errors_range`);
            None: the training was not recorded.
        unseen_rows: validation and test rows that flipped subnetworks predicted for comparison.
        unseen_disagreements: how many of their labels disagree; of numbers, how many lie as far off as likely errors.
        numeric: labels are numbers, and likely errors by their distance from the held-out prediction (`Residuals`).
    """

    _also = ("expected",)

    rows: int
    count: int
    confident: int
    unseen_rows: int
    unseen_disagreements: int
    items: tuple[MemorizedExample, ...]
    expected_errors: int | None = None
    expected_errors_range: tuple[int, int] | None = None
    numeric: bool = False

    @property
    def expected(self) -> int | None:
        """Return how many would disagree if labels were as good as those of validation and test rows."""
        return round(self.rows * self.unseen_disagreements / self.unseen_rows) if self.unseen_rows else None


@dataclass(frozen=True)
class MemorizedExamples(Result):
    """Training examples by self-influence, the largest first; `count` is how many are memorized."""

    _also = ("share",)

    rows: int
    count: int
    share_positive: float
    level: float
    unit: str
    histogram: Histogram | None
    items: tuple[MemorizedExample, ...]

    @property
    def share(self) -> float:
        """Return the share of training rows that are memorized."""
        return self.count / max(self.rows, 1)


@dataclass(frozen=True)
class Memorized:
    """How far each training row was memorized, and how probably its label is wrong.

    Attributes:
        held_out: the labels beside their held-out predictions.
        wrong_labels: by the record of the training, else by held-out predictions.
        duplicates: near-duplicates among the rows; None: not looked for.
    """

    self_influence: Scores
    out_of_sample: OutOfSample
    labels: Labels
    held_out: HeldOutLabels | Residuals
    wrong_labels: WrongLabels
    significant: NDArray[np.bool_]
    level: float
    duplicates: Duplicates | None = None
    examples: Examples | None = None

    def __len__(self) -> int:
        return len(self.significant)

    @property
    def count(self) -> int:
        """Return how many rows are memorized: their self-influence is positive and significant."""
        return int((self.significant & (self.self_influence.values > 0)).sum())

    @property
    def share_positive(self) -> float:
        """Return the share of rows whose self-influence is positive, significant or not."""
        values = self.self_influence.values
        return float((values[np.isfinite(values)] > 0).mean())

    @property
    def order(self) -> NDArray[np.int64]:
        """Return the places of all rows, the likeliest label error first."""
        return self.wrong_labels.order

    @property
    def likely(self) -> NDArray[np.bool_]:
        """Return whether each row's label is a likely error [n]."""
        return self.wrong_labels.likely

    @property
    def disagreements(self) -> int:
        """Return how many labels disagree with their held-out prediction."""
        return int(self.held_out.likely.sum())

    def histogram(self, bins: int = 50, *, tails: float = 0.5) -> Histogram | None:
        """Return the histogram of self-influence; its outermost bins hold `tails` percent of the rows each."""
        return histogram(self.self_influence, bins=checked_count(bins, "bins"), tails=tails)

    def at(self, places: Iterable[int]) -> tuple[MemorizedExample, ...]:
        """Return what is known of the rows at some places."""
        own, confident, examples = self.self_influence, self.held_out.confident, []
        for place in map(int, places):
            others = [] if self.duplicates is None else list(self.duplicates.twins(place))
            rows = others if self.examples is None else self.examples.train_rows[others].tolist()
            examples.append(
                MemorizedExample(
                    **self._row(place),
                    self_influence=entry(own.values, place),
                    stderr=entry(own.stderr, place),
                    significant=bool(self.significant[place]),
                    confident=bool(confident[place]),
                    duplicates=tuple(rows[:_MOST_DUPLICATES]),
                    duplicates_disagree=not self.labels.agree([place, *others]),
                )
            )
        return tuple(examples)

    def likely_label_errors(self, k: int | None = None) -> tuple[MemorizedExample, ...]:
        """Return the k likeliest label errors, likely or not; None: all labels that are likely errors."""
        return self.at(self.order[: int(self.likely.sum()) if k is None else checked_count(k, "k")])

    def most_memorized(self, k: int = 10) -> tuple[MemorizedExample, ...]:
        """Return the k rows of the highest self-influence, the highest first."""
        order = np.argsort(-np.nan_to_num(self.self_influence.values, nan=-np.inf), kind="stable")
        return self.at(order[: checked_count(k, "k")])

    def find_memorized(self, most: int = 200) -> MemorizedExamples:
        """Return the memorized rows as a finding: its counts, and at most so many rows of positive self-influence."""
        items = tuple(one for one in self.most_memorized(most) if (one.self_influence or 0) > 0)
        about = self.self_influence.unit, self.histogram(40, tails=0.0)
        return MemorizedExamples(len(self), self.count, self.share_positive, self.level, *about, items)

    def find_label_errors(self, most: int = 500, *, unseen: tuple[int, int] = (0, 0)) -> LabelErrors:
        """Return the likely label errors as a finding: its counts, and at most so many rows.

        `unseen` are rows that were not trained on and were predicted in the same way, and disagreements among them.
        """
        count, wrong = int(self.likely.sum()), self.wrong_labels
        return LabelErrors(
            rows=len(self),
            count=count,
            confident=int((self.held_out.confident & self.likely).sum()),
            unseen_rows=unseen[0],
            unseen_disagreements=unseen[1],
            items=self.at(self.order[: min(most, count)]),
            expected_errors=None if wrong.expected is None else round(wrong.expected),
            expected_errors_range=wrong.expected_range,
            numeric=self.labels.numeric,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return memorized rows and likely label errors as JSON could hold them."""
        return {
            "memorized": self.find_memorized().as_dict(),
            "likely_label_errors": self.find_label_errors().as_dict(),
        }

    def table(self) -> "pandas.DataFrame":
        """Return one row per training row, the likeliest label error first: what `MemorizedExample` has."""
        return table_of(self.at(self.order), MemorizedExample)

    def _row(self, place: int) -> dict[str, Any]:
        held_out = held_out_fields(self.held_out, self.wrong_labels, place)
        if self.examples is not None:
            return self.examples.training_row(place) | held_out
        known = TrainInstances(self.out_of_sample.mask_ids, self.labels.values, names=self.out_of_sample.names)
        return known.instance(place) | held_out


def memorized(
    influence: Influence,
    *,
    train: Any = None,
    labels: Any = None,
    duplicates: Duplicates | None = None,
    self_influence: Scores | None = None,
    out_of_sample: OutOfSample | None = None,
    wrong_labels: WrongLabels | None = None,
    level: float = 0.05,
    examples: Examples | None = None,
    progress: bool | None = False,
) -> Memorized:
    """Return how far each training row was memorized, and which labels are likely errors.

    A row is memorized where its self-influence is positive and significant. Its label is a likely error where it is
    more probably wrong than right by the record of the training (`TrainingRecord`, `wrong_labels`). Without a record
    it is one where it disagrees with the held-out prediction. A near-duplicate that was trained makes a row less held
    out than it seems: where both have one label, self-influence is too low and the held-out prediction too good. Rows
    that have one name it.

    Labels that are numbers are likely errors where they lie further from their held-out prediction than three times the
    usual distance of labels with about the same prediction (`Residuals`).

    Args:
        influence: of a classifier, or of a network that predicts one number, with its training data.
        train: rows with ids and labels; None: those of `influence`.
        labels: the label of every row, from 0 to classes − 1; None: those of the data. Numbers have to be given.
        duplicates: of `near_duplicates` on the same rows; None: not looked for.
        self_influence: `influence.self_influence(train)` where it is known already; None: it is computed.
        out_of_sample: `influence.out_of_sample(train)` where it is known already; None: it is computed.
        wrong_labels: what `wrong_labels` said of the same rows; None: that of `examples`, else of `out_of_sample`.
        level: false discovery rate of the significant rows.
        examples: the rows with their names; None: results have positions and class numbers.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: labels or duplicates do not fit the rows, or there is only one class.

    Example:
        >>> import torch, turnover
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> from turnover.training import TrainingRecipe
        >>> trained = TrainingRecipe(lambda: turnover.wrap(net, at=["1"]), x, y, epochs=40).fit()
        >>> found = memorized(turnover.Influence(trained, train=data))
        >>> len(found), len(found.likely_label_errors(3)), 0 <= found.share_positive <= 1
        (40, 3, True)
    """
    own = influence.self_influence(train, progress=progress) if self_influence is None else self_influence
    out = influence.out_of_sample(train, progress=progress) if out_of_sample is None else out_of_sample
    if not np.array_equal(own.mask_ids, out.mask_ids):
        raise ApplicationError("self_influence and out_of_sample are of different rows. Compute both on the same data.")
    given = labels_of(labels, out) if examples is None else examples.train_labels
    held_out = given.beside(out.probs)
    judged = examples.wrong_labels if wrong_labels is None and examples is not None else wrong_labels
    judged = held_out if judged is None else judged
    if duplicates is not None and len(duplicates) != len(out):
        raise ApplicationError(
            f"duplicates were looked for among {len(duplicates)} rows, and there are {len(out)}. Give those of the "
            "same rows: near_duplicates(texts)."
        )
    if len(judged.order) != len(out):
        raise ApplicationError(
            f"wrong_labels are of {len(judged.order)} rows, and there are {len(out)}. Record the same rows: "
            "TrainingRecord(model, train=...)."
        )
    significant = Noise.of(own, level).significant
    return Memorized(own, out, given, held_out, judged, significant, level, duplicates, examples)
