"""Explain a prediction: the training examples that support it, and those that oppose it (§4.3).

An example supports a prediction where it lowers the loss at the predicted label, whether that label is right or not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import ApplicationError
from turnover.influence import Influence
from turnover.scores import Scores, Top

from ._results import NoiseFrom, Result, checked_count, entry, noise_from, table_of
from .examples import Examples, Instance, TrainInstances, train_instances
from .predictions import Predictions, number_predictions, predictions
from .relative import Marks, checked_magnitudes, relative_top, with_values
from .residuals import NumberScale

if TYPE_CHECKING:
    import pandas

SameLabel = bool | Literal["supporting"]
_Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class InfluentialExample(Instance):
    """A training example that supports or opposes a prediction.

    Attributes:
        score: its influence on the loss at the predicted label; positive: it supports the prediction. Relative
            explanations give it divided by the example's magnitude.
        p_value: probability of such a score for a null id; None: there are no null ids.
        significant: whether it differs from the null ids, or from 0 by more than replicas disagree, corrected for all
            examples that it was chosen from; never where neither is known.
        shared_spans: words of its text that the query has too, as (start, end).
        near_columns: columns of a table in which it has the value of the query, or nearly.
    """

    score: float
    stderr: float | None
    p_value: float | None
    significant: bool
    shared_spans: _Spans = ()
    near_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation(Result):
    """A prediction and the training examples behind it, the strongest first. Labels are names where they are known.

    Attributes:
        query: the query's id where it has one, else its place.
        row: row number of the query in the data; None: it is new.
        shared_spans: words of the query's text that one of these examples has too, as (start, end).
    """

    _also = ("error", "significant_supporting", "significant_opposing")

    query: int | str
    predicted: Any
    probability: float | None
    label: Any
    supporting: tuple[InfluentialExample, ...]
    opposing: tuple[InfluentialExample, ...]
    row: int | None = None
    name: str | None = None
    shared_spans: _Spans = ()

    @property
    def error(self) -> bool:
        """Tell whether the prediction differs from the label; never of numbers, which always differ a little."""
        return self.label is not None and self.probability is not None and self.label != self.predicted

    @property
    def significant_supporting(self) -> int:
        """Return how many of the supporting examples are significant; against null ids these come first."""
        return sum(example.significant for example in self.supporting)

    @property
    def significant_opposing(self) -> int:
        """Return how many of the opposing examples are significant."""
        return sum(example.significant for example in self.opposing)


@dataclass(frozen=True)
class Explanations(Result):
    """Explanations of several predictions.

    Attributes:
        same_label: only examples of the predicted label were looked at; "supporting": among the supporting ones.
        relative: scores are divided by the examples' magnitudes.
        unit: what scores are differences of.
        standardized: scores are in units of the usual effect of a training example on the loss of each prediction.
        method: the estimator that made them.
        noise_from: what their significance is judged by; None: it is not known, and nothing is marked.
        path: how they were computed.
        numeric: predictions are numbers, which supporting examples raise and opposing ones lower.
    """

    items: tuple[Explanation, ...]
    same_label: SameLabel
    relative: bool
    level: float
    unit: str
    standardized: bool
    method: str
    noise_from: NoiseFrom
    replicas: int
    path: str
    numeric: bool = field(default=False, kw_only=True)

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.items)

    def __iter__(self) -> Iterator[Explanation]:
        """Iterate over the queries."""
        return iter(self.items)

    def __getitem__(self, place: int) -> Explanation:
        """Return the explanation of one query."""
        return self.items[place]

    @property
    def repetition(self) -> float:
        """Return the share of queries that are topped by the example which tops most queries of their predicted label.

        Near 1 a few examples explain everything, and so nothing; `relative=True` lowers it.
        """
        first = Counter(
            (one.predicted if self.same_label else None, one.supporting[0].id) for one in self if one.supporting
        )
        most: dict[Any, int] = {}
        for (label, _), count in first.items():
            most[label] = max(count, most.get(label, 0))
        return sum(most.values()) / max(1, sum(first.values()))

    def table(self) -> "pandas.DataFrame":
        """Return one row per example: query, predicted, probability, label, side, place, and its own fields."""
        entries = [
            (one, side, place, example)
            for one in self.items
            for side in ("supporting", "opposing")
            for place, example in enumerate(getattr(one, side))
        ]
        before: Mapping[str, Sequence[Any]] = {
            "query": [one.query for one, *_ in entries],
            "predicted": [one.predicted for one, *_ in entries],
            "probability": [one.probability for one, *_ in entries],
            "query_label": [one.label for one, *_ in entries],
            "side": [side for _, side, *_ in entries],
            "place": [place for _, _, place, _ in entries],
        }
        return table_of([example for *_, example in entries], InfluentialExample, before)


@dataclass(frozen=True)
class Queries:
    """Predictions to explain, with what people see of them.

    Attributes:
        inputs: as `Influence.pairwise` takes them: x, or (x, y).
        values: a text, pixels or the cells of a table, per query.
        rows: row number of each in the data; None: it is new.
    """

    inputs: Any
    values: Sequence[Any]
    names: Sequence[str]
    rows: Sequence[int | None]


def explain(
    influence: Influence,
    queries: Any,
    *,
    train_labels: Any = None,
    k: int = 10,
    same_label: SameLabel = True,
    only_label: int | None = None,
    relative: bool = False,
    magnitudes: ArrayLike | None = None,
    level: float = 0.05,
    examples: Examples | None = None,
    progress: bool | None = False,
) -> Explanations:
    """Return, for each query, the training examples that support its prediction and those that oppose it.

    Args:
        influence: of a classifier, with its training data.
        queries: tensors, a tuple (x, y), a dict, a Dataset or a DataLoader; labels are not needed.
        train_labels: the label of every training instance, in the order of the data; None: those of the data.
        k: examples of each kind.
        same_label: only training examples of the predicted label, as in the paper; False: of all labels; "supporting":
            of the predicted label where they support it, of any label where they oppose it. That one holds all scores
            of the queries in memory.
        only_label: only training examples of this class; None: by `same_label`.
        relative: divide each example's scores by its magnitude (see `row_magnitudes`), so that a few examples that act
            strongly on everything do not top every explanation. Significance is that of the scores as they were. This
            too holds all scores of the queries.
        magnitudes: those of `row_magnitudes`, where many calls share them; None: they are computed.
        level: false discovery rate of the significant examples.
        examples: the training rows with their names; None: results have positions and class numbers. Where their
            labels are numbers, examples of all labels support the prediction if they raise it and oppose it if they
            lower it, and `influence` has to measure it: `Influence(measure=turnover.applications.prediction)`.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: k, labels or magnitudes do not fit, or the model has no classes.

    Example:
        >>> import turnover
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(40)):
        ...     _ = net(x)  # training goes here
        >>> first, *others = explain(turnover.Influence(net, train=data, estimator="tod"), torch.randn(3, 4), k=2)
        >>> len(others), first.label, {one.label for one in first.supporting} <= {first.predicted}
        (2, None, True)
    """
    k = checked_count(k, "k")
    if same_label not in (True, False, "supporting"):
        raise ApplicationError(f"same_label must be True, False or 'supporting', got {same_label!r}.")
    if examples is not None and examples.scale is not None:
        return _explain_numbers(influence, queries, examples, examples.scale, k=k, level=level, magnitudes=magnitudes)
    known = train_instances(influence, train_labels, examples, needed=same_label is not False or only_label is not None)
    predicted = predictions(influence, queries)
    if predicted.one_output:
        raise ApplicationError(
            "the model has one output, so there is no predicted label to explain. Give it one output per class; for a "
            "regression ask influence.top(queries)."
        )
    relative = relative or magnitudes is not None
    if only_label is not None:
        same_label = False
    if relative or same_label == "supporting":
        scores = influence.pairwise(queries, at_label="predicted", progress=progress)
        sides = [True, False] if same_label == "supporting" else [bool(same_label)]
        each = [_of_label(scores, known, predicted.predicted if same else only_label) for same in sides]
        scale = checked_magnitudes(influence, magnitudes, len(known)) if relative else None
        tops = [relative_top(one, scale, k, level) if scale is not None else _marked(one.top(k), level) for one in each]
    else:
        label = "predicted" if same_label else only_label
        top = influence.top(queries, k=k, labels=known.labels, label=label, at_label="predicted", progress=progress)
        tops = [_marked(top, level)]
    supporting, opposing = _sides(known, tops[0], tops[-1])
    top = tops[0][0]
    names = top.queries or tuple(range(len(predicted.probs)))
    items = tuple(_explanation(place, name, supporting, opposing, predicted) for place, name in enumerate(names))
    return _explanations(items, top, same_label=same_label, relative=relative, level=level)


def _explain_numbers(
    influence: Influence,
    queries: Any,
    examples: Examples,
    scale: NumberScale,
    *,
    k: int,
    level: float,
    magnitudes: ArrayLike | None,
) -> Explanations:
    """Return the training examples that raise or lower each predicted number."""
    # What a prediction is, no target changes; one has to be there all the same.
    asked = (queries, torch.zeros(len(queries))) if isinstance(queries, Tensor) else queries
    known, predicted = train_instances(influence, None, examples, needed=False), number_predictions(influence, asked)
    if magnitudes is None:
        top = _marked(influence.top(asked, k=k, progress=False), level)
    else:
        scores = influence.pairwise(asked, progress=False)
        top = relative_top(scores, checked_magnitudes(influence, magnitudes, len(known)), k, level)
    supporting, opposing = _sides(known, top, top)
    given = predicted.labels if asked is queries else None
    numbers, labels = scale.restored(predicted.numbers), None if given is None else scale.restored(given)
    names = top[0].queries or tuple(range(len(numbers)))
    items = tuple(
        Explanation(
            query=name,
            predicted=float(numbers[place]),
            probability=None,
            label=None if labels is None else float(labels[place]),
            supporting=supporting.of(place),
            opposing=opposing.of(place),
        )
        for place, name in enumerate(names)
    )
    explained = _explanations(items, top[0], same_label=False, relative=magnitudes is not None, level=level)
    return replace(explained, numeric=True)


def _sides(known: TrainInstances, first: tuple[Top, Marks], last: tuple[Top, Marks]) -> tuple["_Side", "_Side"]:
    """Return supporting examples, of one list, and opposing ones, of another or the same."""
    (top, (marks, _)), (other, (_, other_marks)) = first, last
    supporting = _Side(1, known, top.helpful_mask_ids, top.helpful_scores, top.helpful_stderr, top.helpful_p, marks)
    opposing = _Side(
        -1, known, other.harmful_mask_ids, other.harmful_scores, other.harmful_stderr, other.harmful_p, other_marks
    )
    return supporting, opposing


def _explanations(
    items: tuple[Explanation, ...], top: Top, *, same_label: SameLabel, relative: bool, level: float
) -> Explanations:
    return Explanations(
        items=items,
        same_label=same_label,
        relative=relative,
        level=level,
        unit=top.unit,
        standardized=top.standardized,
        method=top.method,
        noise_from=noise_from(top),
        replicas=top.replicas,
        path=top.path,
    )


def explain_examples(
    influence: Influence, queries: Queries, examples: Examples, *, same_label: SameLabel, **options: Any
) -> Explanations:
    """Return explanations with rows, names and what each query has in common with the examples behind it.

    Args:
        influence: of a classifier that was trained on the training rows of `examples`.
        queries: predictions to explain.
        examples: rows of the data.
        same_label: as for `explain`; groups have no label of their own, so that there it is always False.
        **options: of `explain`.
    """
    same_label = False if examples.groups else same_label
    explained = explain(influence, queries.inputs, examples=examples, same_label=same_label, **options)
    described = zip(explained, queries.values, queries.names, queries.rows, strict=True)
    return replace(explained, items=tuple(_described(*one, examples) for one in described))


@dataclass(frozen=True)
class _Side:
    """Supporting (sign 1) or opposing (−1) examples of all queries, [queries, k] each."""

    sign: int
    known: TrainInstances
    ids: NDArray[np.int64]
    scores: NDArray[np.float32]
    stderr: NDArray[np.float32] | None
    p: NDArray[np.float32] | None
    marked: NDArray[np.bool_]

    def of(self, query: int) -> tuple[InfluentialExample, ...]:
        """Return the examples that do act this way; the list of a query with few of them may end with others."""
        return tuple(
            InfluentialExample(
                **self.known.instance(position),
                score=float(self.scores[query, place]),
                stderr=entry(self.stderr, (query, place)),
                p_value=entry(self.p, (query, place)),
                significant=bool(self.marked[query, place]),
            )
            for place, position in enumerate(self.known.positions(self.ids[query]))
            if position >= 0 and self.sign * self.scores[query, place] > 0
        )


def _explanation(
    place: int, query: int | str, supporting: _Side, opposing: _Side, predicted: Predictions
) -> Explanation:
    number, labels = int(predicted.predicted[place]), predicted.labels
    names = supporting.known.examples.label_names if supporting.known.examples is not None else None
    label = None if labels is None or (names and labels[place] < 0) else int(labels[place])
    return Explanation(
        query=query,
        predicted=names[number] if names else number,
        probability=float(predicted.probs[place, number]),
        label=names[label] if names and label is not None else label,
        supporting=supporting.of(place),
        opposing=opposing.of(place),
    )


def _described(one: Explanation, value: Any, name: str, row: int | None, examples: Examples) -> Explanation:
    """Return an explanation with what its query has in common with the examples."""
    spans: set[tuple[int, int]] = set()
    sides: list[tuple[InfluentialExample, ...]] = []
    for side in (one.supporting, one.opposing):
        common = [examples.in_common(value, example.row) for example in side]
        spans.update(span for each in common for span in each.query_spans)
        sides.append(
            tuple(
                replace(example, shared_spans=each.example_spans, near_columns=each.columns)
                for example, each in zip(side, common, strict=True)
            )
        )
    # A number as it was given: what is restored from a standardized float32 has lost digits.
    label = examples.label(row) if row is not None and examples.numeric and one.label is not None else one.label
    common = {"supporting": sides[0], "opposing": sides[1], "shared_spans": tuple(sorted(spans))}
    return replace(one, name=name, row=row, label=label, **common)


def _marked(top: Top, level: float) -> tuple[Top, Marks]:
    """Return lists, and which entries of both [queries, k] are significant; none where noise is not known."""
    none = np.zeros(top.helpful_mask_ids.shape, bool)
    return top, top.significant(level) if top.knows_noise else (none, none)


def _of_label(scores: Scores, known: TrainInstances, label: NDArray[np.int64] | int | None) -> Scores:
    """Return scores in which examples of other labels, one for all queries or one per query, do not count."""
    if label is None or known.labels is None:
        return scores
    return with_values(scores, np.where(known.labels[:, None] == label, scores.values, np.float32(np.nan)))
