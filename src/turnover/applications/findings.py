"""All findings about a trained network, each computed once for the terminal, the report and the live page."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.errors import ScoresError
from turnover.scores import OutOfSample, Scores
from turnover.wrapping import MOST_ROWS, AuditReport, audit

from .cleanse import HarmfulExamples, find_harmful
from .explain import Explanations, Queries, SameLabel, explain_examples
from .groups import GroupScores, find_groups
from .labels import ClassSummary, Confusion, NumberFit
from .memorized import LabelErrors, Memorized, MemorizedExamples, memorized
from .near_duplicates import Duplicates, NearDuplicates, example_duplicates, find_near_duplicates
from .results import Histogram, Noise, NoiseFrom, Result, histogram, noise_from

LEVEL = 0.05
"""False discovery rate of what findings call significant."""

_MOST_ERRORS, _MOST_HARMFUL = 24, 200
# Validation and test rows that flipped subnetworks predict, to compare label errors with.
_MOST_COMPARED = 500


ScoreKind = Literal["self_influence", "mean_influence", "explanations"]


class ScoredExamples(Protocol):
    """A trained network with its data and scores, from which findings are made. A run is one.

    Targets `y` are class numbers, or numbers as the network learns them; `train_data` is inputs, targets and ids.
    """

    # Not as properties: type checkers do not take a cached one for those.
    examples: Any
    x: Any
    y: Any
    train_data: Any
    model: Any
    influence: Any
    self_influence: Any
    mean_influence: Any
    out_of_sample: Any

    def predicted(self, x: Tensor) -> NDArray[np.floating]:
        """Return what the full network says of inputs: probabilities [rows, classes], or numbers [rows]."""
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
class ScoreNoise(Result):
    """The noise of one kind of score; None: not known.

    Attributes:
        noise_ratio: standard deviation of noise over that of the scores; 1: nothing but noise.
        signal: share of the variance that noise does not explain.
        stderr: median standard error.
    """

    scores: ScoreKind
    count: int
    noise_ratio: float | None
    signal: float | None
    stderr: float | None
    significant: int
    unit: str
    method: str = ""
    noise_from: NoiseFrom = None


@dataclass(frozen=True)
class Trust(Result):
    """The noise of scores, by kind, and how mean influence is distributed."""

    scores: tuple[ScoreNoise, ...]
    replicas: int
    level: float
    mean_influence: Histogram | None = None

    def noise_of(self, scores: ScoreKind) -> ScoreNoise | None:
        """Return the noise of one kind of score."""
        return next((one for one in self.scores if one.scores == scores), None)


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
    """Return all findings about a trained network; each is what its own function returns."""
    examples, mean = scored.examples, scored.mean_influence
    rows = examples.labeled_unseen_rows
    predicted = scored.predicted(scored.x[rows])
    duplicates = example_duplicates(examples, scored.x)
    own = examine_memorized(scored, duplicates)
    errors = find_errors(scored, predicted=predicted)
    most_harmful = 0 if examples.groups else _MOST_HARMFUL
    return Findings(
        **examples.train_labels.fit(examples.labels.among(rows), predicted, own.likely),
        errors=errors,
        likely_label_errors=find_label_errors(scored, own),
        harmful=find_harmful(mean, scored.out_of_sample, examples, level=LEVEL, most=most_harmful),
        memorized=own.find_memorized(),
        near_duplicates=find_near_duplicates(examples, duplicates),
        groups=find_groups(mean, examples, own.likely, level=LEVEL),
        trust=_trust(scored.self_influence, mean, errors),
        leaks=leak_audit(scored.model, scored.train_data),
    )


def find_errors(
    scored: ScoredExamples,
    *,
    most: int = _MOST_ERRORS,
    k: int = 6,
    same_label: SameLabel = "supporting",
    magnitudes: NDArray[np.float32] | None = None,
    predicted: NDArray[np.floating] | None = None,
) -> Errors:
    """Return the most confident errors among validation and test rows with k examples on each side of them.

    `predicted` is what the full network says of `examples.labeled_unseen_rows`, where it is known already.
    """
    examples = scored.examples
    rows, numeric = examples.labeled_unseen_rows, examples.labels.numeric
    predicted = scored.predicted(scored.x[rows]) if predicted is None else predicted
    errors = examples.labels.among(rows).errors(predicted)
    if not len(errors):
        same_label = False if examples.groups or numeric else same_label
        nothing = Explanations((), same_label, False, LEVEL, "loss", False, "", None, 1, "", numeric=numeric)
        return Errors(**vars(nothing), count=0, unseen_rows=len(rows))
    queries, options = row_queries(scored, rows[errors[:most]]), {"same_label": same_label, "magnitudes": magnitudes}
    explained = explain_examples(scored.influence, queries, examples, k=k, level=LEVEL, **options)
    return Errors(**vars(explained), count=len(errors), unseen_rows=len(rows))


def row_queries(scored: ScoredExamples, rows: NDArray[np.int64]) -> Queries:
    """Return rows of the data as predictions to explain."""
    examples = scored.examples
    return Queries(
        inputs=(scored.x[rows], scored.y[rows]),
        values=[examples.value(row) for row in rows.tolist()],
        names=[examples.names[int(row)] for row in rows],
        rows=rows.tolist(),
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
    if own.wrong_labels.expected is not None:
        return own.find_label_errors()
    examples, rows = scored.examples, scored.examples.labeled_unseen_rows
    rows = rows[np.linspace(0, len(rows) - 1, min(_MOST_COMPARED, len(rows))).astype(int)]
    if not len(rows):
        return own.find_label_errors()
    trained = examples.ids[examples.train_rows]
    ids = torch.from_numpy(trained[np.linspace(0, len(trained) - 1, len(rows)).astype(int)])
    predicted = scored.held_out((scored.x[rows], scored.y[rows], ids)).probs
    beside = examples.labels.among(rows).beside(predicted, like=own.held_out)
    return own.find_label_errors(unseen=(len(rows), int(beside.likely.sum())))


def score_noise(kind: ScoreKind, scores: Scores, level: float) -> ScoreNoise:
    """Return the noise of all scores of a kind."""
    try:
        ratio, signal = float(np.median(scores.noise.ratio)), float(np.median(scores.noise.signal))
    except ScoresError:
        ratio = signal = None
    stderr = None if scores.stderr is None else float(np.nanmedian(scores.stderr))
    significant = int(Noise.of(scores, level).significant.sum())
    return ScoreNoise(
        kind, len(scores), ratio, signal, stderr, significant, scores.unit, scores.method, noise_from(scores)
    )


def _trust(self_influence: Scores, mean: Scores, errors: Explanations) -> Trust:
    level = errors.level
    kinds = [score_noise("self_influence", self_influence, level), score_noise("mean_influence", mean, level)]
    if len(errors):
        supporting = [example for one in errors for example in one.supporting]
        stderrs = [example.stderr for example in supporting if example.stderr is not None]
        stderr = float(np.median(stderrs)) if stderrs else None
        significant = sum(one.significant_supporting for one in errors)
        about = errors.unit, errors.method, errors.noise_from
        kinds.append(ScoreNoise("explanations", len(supporting), None, None, stderr, significant, *about))
    return Trust(tuple(kinds), mean.replicas, level, histogram(mean))


def leak_audit(model: nn.Module, train: tuple[Tensor, Tensor, Tensor]) -> AuditReport:
    """Return the leak audit of a model on a few of its training rows (inputs, labels, ids), spread over all of them."""
    places = np.linspace(0, len(train[1]) - 1, min(MOST_ROWS, len(train[1]))).astype(int)
    x, y, ids = (part[places] for part in train)
    return audit(model, (x, y, ids))
