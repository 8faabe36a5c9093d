"""All findings about a trained classifier, each computed once for the terminal, the report and the live page."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.scores import OutOfSample, Scores
from turnover.wrapping import AuditReport

from ._results import Result
from .cleanse import HarmfulExamples, find_harmful
from .examples import Examples
from .explain import Explanations, Queries, SameLabel, explain_examples
from .groups import GroupScores, find_groups
from .label_errors import LabelErrors
from .memorized import Memorized, MemorizedExamples, memorized
from .near_duplicates import Duplicates, NearDuplicates, example_duplicates, find_near_duplicates
from .predictions import Predictions
from .residuals import LIKELY_ERROR, NumberFit
from .trust import ScoreNoise, Trust, expected_of, histogram, leak_audit, score_noise

LEVEL = 0.05
"""False discovery rate of what findings call significant."""

_MOST_ERRORS = 24
# Validation and test rows that flipped subnetworks predict, to compare label errors with.
_MOST_COMPARED = 500
# With many labels nearly every error is a pair of its own.
_MOST_PAIRS = 500


class ScoredExamples(Protocol):
    """A trained classifier with its data and scores, from which findings are made. A run is one."""

    @property
    def examples(self) -> Examples:
        """Return the rows."""
        ...

    @property
    def x(self) -> Tensor:
        """Return the inputs of all rows."""
        ...

    @property
    def y(self) -> Tensor:
        """Return the class numbers of all rows, or their numbers as the network learns them."""
        ...

    @property
    def train_data(self) -> Any:
        """Return inputs, labels and ids of the training rows."""
        ...

    @property
    def model(self) -> nn.Module:
        """Return the trained model."""
        ...

    @property
    def width(self) -> int | None:
        """Return the number of units of the masked layer; None: not known."""
        ...

    @property
    def influence(self) -> Any:
        """Return the engine for single predictions."""
        ...

    @property
    def self_influence(self) -> Scores:
        """Return the influence of each training row on itself."""
        ...

    @property
    def mean_influence(self) -> Scores:
        """Return the mean influence of each training instance on the validation rows."""
        ...

    @property
    def out_of_sample(self) -> OutOfSample:
        """Return the held-out predictions of the training rows."""
        ...

    def probabilities(self, x: Tensor) -> NDArray[np.float32]:
        """Return the probabilities [rows, classes] that the full network gives inputs."""
        ...

    def numbers(self, x: Tensor) -> NDArray[np.float64]:
        """Return the numbers [rows] that the full network predicts, where labels are numbers."""
        ...

    def held_out(self, rows: Any = None) -> OutOfSample:
        """Return the predictions of rows (inputs, labels, ids) by the flipped subnetworks of these ids."""
        ...


@dataclass(frozen=True)
class Errors(Explanations):
    """The most confident errors among validation and test rows, explained; the most confident first.

    Where labels are numbers: the predictions that are furthest from them, of all `count` rows.
    """

    _also = ("accuracy", "with_significant")

    count: int
    unseen_rows: int

    @property
    def accuracy(self) -> float | None:
        """Return the share of correct predictions; None: there are no rows to test on, or labels are numbers."""
        return 1 - self.count / self.unseen_rows if self.unseen_rows and not self.numeric else None

    @property
    def with_significant(self) -> int:
        """Return how many of the explained errors have a significant supporting example."""
        return sum(one.significant_supporting > 0 for one in self.items)


@dataclass(frozen=True)
class ClassSummary(Result):
    """How well one class is predicted.

    Attributes:
        unseen: validation and test rows.
        correct: how many of these are predicted correctly.
        predicted: validation and test rows that are predicted to be of it.
        likely_label_errors: training labels of this class that are likely errors.
    """

    _also = ("recall", "precision")

    label: str
    train: int
    unseen: int
    correct: int
    predicted: int
    likely_label_errors: int = 0

    @property
    def recall(self) -> float | None:
        """Return the share of its rows that are predicted correctly."""
        return self.correct / self.unseen if self.unseen else None

    @property
    def precision(self) -> float | None:
        """Return the share of rows predicted to be of it that are."""
        return self.correct / self.predicted if self.predicted else None


@dataclass(frozen=True)
class Confusion(Result):
    """How many validation and test rows of one label are predicted to have another, or the same."""

    label: str
    predicted: str
    rows: int


@dataclass(frozen=True)
class Findings(Result):
    """All findings about a classifier, or about a network that predicts numbers.

    Attributes:
        majority_class_baseline: accuracy of always predicting the most frequent class of the training rows; None:
            labels are numbers.
        fit: how well numbers of validation and test rows are predicted; None: labels are classes, or there are none.
        harmful: training examples by mean influence on the validation rows; without items where groups were trained.
        confusions: which label is predicted for which, the most frequent first.
    """

    majority_class_baseline: float | None
    fit: NumberFit | None
    errors: Errors
    likely_label_errors: LabelErrors
    harmful: HarmfulExamples
    memorized: MemorizedExamples
    near_duplicates: NearDuplicates
    groups: GroupScores
    classes: tuple[ClassSummary, ...]
    confusions: tuple[Confusion, ...]
    trust: Trust
    leaks: AuditReport

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        return {**super().as_dict(), "leaks": self.leaks.to_dict()}

    @property
    def named_rows(self) -> list[int]:
        """Return the numbers of all rows that something speaks of, each once, in their order."""
        rows = {one.row for part in (self.harmful, self.memorized, self.likely_label_errors) for one in part.items}
        rows |= {row for one in self.likely_label_errors.items for row in one.duplicates}
        rows |= {row for group in self.near_duplicates.items for row in group.rows}
        rows |= {example.row for one in self.errors for example in (*one.supporting, *one.opposing)}
        return sorted(rows | {one.row for one in self.errors if one.row is not None})


def find_all(scored: ScoredExamples) -> Findings:
    """Return all findings about a classifier; each is what its own function returns."""
    examples = scored.examples
    unseen = None if examples.numeric else unseen_predictions(scored)
    duplicates = example_duplicates(examples, scored.x)
    own = examine_memorized(scored, duplicates)
    errors = find_errors(scored, unseen=unseen)
    harmful = find_harmful(
        scored.mean_influence, scored.out_of_sample, examples, level=LEVEL, most=0 if examples.groups else 200
    )
    labels = examples.labels[examples.train_rows]
    return Findings(
        majority_class_baseline=None if unseen is None else float(np.bincount(labels).max() / len(labels)),
        fit=_number_fit(scored),
        errors=errors,
        likely_label_errors=find_label_errors(scored, own),
        harmful=harmful,
        memorized=own.find_memorized(),
        near_duplicates=find_near_duplicates(examples, duplicates),
        groups=find_groups(scored.mean_influence, examples, own.likely, level=LEVEL),
        classes=() if unseen is None else _classes(examples, unseen, own.likely),
        confusions=() if unseen is None else _confusions(examples, unseen),
        trust=find_trust(scored, errors),
        leaks=leak_audit(scored.model, scored.train_data),
    )


def unseen_predictions(scored: ScoredExamples) -> Predictions:
    """Return the predictions of the labeled validation and test rows, `examples.labeled_unseen_rows`."""
    rows = scored.examples.labeled_unseen_rows
    return Predictions(scored.probabilities(scored.x[rows]), scored.examples.labels[rows])


def find_errors(
    scored: ScoredExamples,
    *,
    most: int = _MOST_ERRORS,
    k: int = 6,
    same_label: SameLabel = "supporting",
    magnitudes: NDArray[np.float32] | None = None,
    unseen: Predictions | None = None,
) -> Errors:
    """Return the most confident errors among validation and test rows with the training examples behind them.

    Args:
        scored: the classifier.
        most: errors to explain.
        k: supporting and opposing examples of each.
        same_label: as for `explain`.
        magnitudes: as for `explain`.
        unseen: what `unseen_predictions` returned, where it is known already.
    """
    places, numeric = scored.examples.labeled_unseen_rows, scored.examples.numeric
    if numeric:
        distances = np.abs(scored.numbers(scored.x[places]) - scored.examples.labels[places])
        errors = np.argsort(-distances, kind="stable")
    else:
        errors = (unseen_predictions(scored) if unseen is None else unseen).errors
    rows = places[errors[:most]]
    if not len(rows):
        return Errors(
            items=(),
            same_label=False if scored.examples.groups or numeric else same_label,
            relative=False,
            level=LEVEL,
            unit="loss",
            standardized=False,
            method="",
            noise_from=None,
            replicas=1,
            path="",
            count=0,
            unseen_rows=len(places),
            numeric=numeric,
        )
    explained = explain_examples(
        scored.influence,
        row_queries(scored, rows),
        scored.examples,
        k=k,
        same_label=same_label,
        magnitudes=magnitudes,
        level=LEVEL,
    )
    return Errors(**vars(explained), count=len(errors), unseen_rows=len(places))


def row_queries(scored: ScoredExamples, rows: NDArray[np.int64]) -> Queries:
    """Return rows of the data as predictions to explain."""
    examples = scored.examples
    return Queries(
        inputs=(scored.x[rows], scored.y[rows]),
        values=[examples.value(int(row)) for row in rows],
        names=[examples.names[int(row)] for row in rows],
        rows=[int(row) for row in rows],
    )


def examine_memorized(scored: ScoredExamples, duplicates: Duplicates | None = None) -> Memorized:
    """Return how far each training row was memorized, with near-duplicates looked for among all rows."""
    examples = scored.examples
    near = example_duplicates(examples, scored.x) if duplicates is None else duplicates
    return memorized(
        scored.influence,
        self_influence=scored.self_influence,
        out_of_sample=scored.out_of_sample,
        duplicates=near.among(examples.train_rows),
        level=LEVEL,
        examples=examples,
    )


def find_label_errors(scored: ScoredExamples, own: Memorized) -> LabelErrors:
    """Return likely label errors, with how many labels of validation and test rows disagree in the same way.

    Where the training was recorded, the record says how many are expected to be wrong. Else each of these rows is
    predicted by the flipped subnetwork of some training row, as training rows are by their own. So the share that
    disagrees is what errors of these subnetworks, and wrong labels where there are any, amount to.
    """
    if own.wrong_labels is not None:
        return own.find_label_errors()
    rows = scored.examples.labeled_unseen_rows
    rows = rows[np.linspace(0, len(rows) - 1, min(_MOST_COMPARED, len(rows))).astype(int)]
    return own.find_label_errors(unseen=(len(rows), unseen_disagreements(scored, rows)))


def unseen_disagreements(scored: ScoredExamples, rows: NDArray[np.int64]) -> int:
    """Return how many labels of rows disagree with predictions by flipped subnetworks of training rows."""
    if not len(rows):
        return 0
    trained = scored.examples.ids[scored.examples.train_rows]
    ids = torch.from_numpy(trained[np.linspace(0, len(trained) - 1, len(rows)).astype(int)])
    predicted, labels = scored.held_out((scored.x[rows], scored.y[rows], ids)).probs, scored.examples.labels[rows]
    residuals = scored.examples.residuals
    if residuals is not None:
        return int((np.abs(residuals.standardized_at(predicted[:, 0], labels)) > LIKELY_ERROR).sum())
    return int((predicted.argmax(1) != labels).sum())


def find_trust(scored: ScoredExamples, errors: Errors) -> Trust:
    """Return the noise of all scores of a classifier."""
    mean = scored.mean_influence
    kinds = [score_noise("self_influence", scored.self_influence, LEVEL), score_noise("mean_influence", mean, LEVEL)]
    if len(errors):
        supporting = [example for one in errors for example in one.supporting]
        stderrs = [example.stderr for example in supporting if example.stderr is not None]
        stderr = float(np.median(stderrs)) if stderrs else None
        significant = sum(one.significant_supporting for one in errors)
        kinds.append(
            ScoreNoise(
                "explanations",
                len(supporting),
                None,
                None,
                stderr,
                significant,
                errors.unit,
                errors.method,
                errors.noise_from,
            )
        )
    # The rule of thumb is that of raw scores, whose noise is that of masks.
    by_masks = not len(errors) or errors.noise_from == "null_ids"
    return Trust(
        scores=tuple(kinds),
        replicas=mean.replicas,
        level=LEVEL,
        expected=expected_of(len(scored.examples.train_rows), scored.width, mean.replicas) if by_masks else None,
        mean_influence=histogram(mean, null=True),
    )


def _number_fit(scored: ScoredExamples) -> NumberFit | None:
    """Return how well numbers of validation and test rows are predicted; None: there are none."""
    rows, scale = scored.examples.labeled_unseen_rows, scored.examples.scale
    if scale is None or not len(rows):
        return None
    return NumberFit.of(scored.numbers(scored.x[rows]), scored.examples.labels[rows], baseline=scale.mean)


def _classes(examples: Examples, unseen: Predictions, label_errors: NDArray[np.bool_]) -> tuple[ClassSummary, ...]:
    train, given, predicted = examples.labels[examples.train_rows], unseen.labels, unseen.predicted
    return tuple(
        ClassSummary(
            label=name,
            train=int((train == number).sum()),
            unseen=int((given == number).sum()),
            correct=int(((given == number) & (predicted == number)).sum()),
            predicted=int((predicted == number).sum()),
            likely_label_errors=int(label_errors[train == number].sum()),
        )
        for number, name in enumerate(examples.label_names)
    )


def _confusions(examples: Examples, unseen: Predictions) -> tuple[Confusion, ...]:
    assert unseen.labels is not None
    pairs, counts = np.unique(np.stack([unseen.labels, unseen.predicted], 1), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_PAIRS]
    names = examples.label_names
    return tuple(Confusion(names[pairs[at, 0]], names[pairs[at, 1]], int(counts[at])) for at in order)
