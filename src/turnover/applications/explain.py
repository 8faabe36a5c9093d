"""Explain a prediction: the training examples that support it, and those that oppose it (§4.3).

An example supports a prediction where it lowers the loss at the predicted label, whether that label is right or not.
Relative scores are divided by the magnitude of each training row (Barshan, Brunet and Dziugaite 2020).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import ApplicationError
from turnover.influence import Influence
from turnover.scores import Scores, Top

from .examples import Examples, Instance, TrainInstances
from .labels import ClassLabels
from .predictions import number_predictions, predictions
from .results import Noise, NoiseFrom, Result, checked_count, noise_from, table_of

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
        significant: after correction for all examples that it was chosen from; never where noise is not known.
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
        standardized: scores are in units of the usual effect of a training example on the loss of each prediction.
        noise_from: what their significance is judged by; None: it is not known, and nothing is marked.
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
        return len(self.items)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.items)

    def __getitem__(self, place: int) -> Explanation:
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
            (one.query, one.predicted, one.probability, one.label, side, place, example)
            for one in self.items
            for side in ("supporting", "opposing")
            for place, example in enumerate(getattr(one, side))
        ]
        names = "query", "predicted", "probability", "query_label", "side", "place"
        before = {name: [line[at] for line in entries] for at, name in enumerate(names)}
        return table_of([example for *_, example in entries], InfluentialExample, before)


@dataclass(frozen=True)
class Queries:
    """Predictions to explain, with what people see of them, and their row numbers in the data (None: new)."""

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
    relative, numeric = relative or magnitudes is not None, examples is not None and examples.labels.numeric
    same_label = False if numeric or only_label is not None else same_label
    known = TrainInstances.of(
        influence, train_labels, examples, needed=same_label is not False or only_label is not None
    )
    asked, predicted, about = (_numbers if numeric else _classes)(influence, queries, examples)
    options: dict[str, Any] = {"progress": progress} if numeric else {"progress": progress, "at_label": "predicted"}
    if relative or same_label == "supporting":
        scores = influence.pairwise(asked, **options)
        scale = _checked_magnitudes(influence, magnitudes) if relative else None
        labels = [predicted if same_label else only_label, only_label][: 2 if same_label == "supporting" else 1]
        lists = [_Lists.of_scores(_of_label(scores, known, label), scale, k, level) for label in labels]
    else:
        if not numeric:
            options |= {"labels": known.labels, "label": "predicted" if same_label else only_label}
        lists = [_Lists.of_top(influence.top(asked, k=k, **options), level)]
    top = lists[0].top
    items = tuple(
        Explanation(
            query=name,
            **about[place],
            supporting=lists[0].examples_of(known, place, "helpful"),
            opposing=lists[-1].examples_of(known, place, "harmful"),
        )
        for place, name in enumerate(top.queries or range(len(about)))
    )
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
        numeric=numeric,
    )


_About = list[dict[str, Any]]


def _classes(influence: Influence, queries: Any, examples: Examples | None) -> tuple[Any, NDArray[np.int64], _About]:
    """Return what is asked, the predicted class of each query, and what an explanation says of each."""
    said = predictions(influence, queries)
    if said.one_output:
        raise ApplicationError(
            "the model has one output, so there is no predicted label to explain. Give it one output per class; for a "
            "regression ask influence.top(queries)."
        )
    labels = ClassLabels(np.empty(0, np.int64)) if examples is None else examples.labels
    given = np.full(len(said.probs), -1) if said.labels is None else said.labels
    about = [
        {"predicted": labels.name(int(best)), "probability": float(probs[best]), "label": labels.name(int(label))}
        for best, probs, label in zip(said.predicted, said.probs, given, strict=True)
    ]
    return queries, said.predicted, about


def _numbers(influence: Influence, queries: Any, examples: Any) -> tuple[Any, None, _About]:
    # What a prediction is, no target changes; one has to be there all the same.
    asked = (queries, torch.zeros(len(queries))) if isinstance(queries, Tensor) else queries
    predicted, given = number_predictions(influence, asked)
    numbers = examples.labels.restored(predicted).tolist()
    known = given is not None and asked is queries
    labels = examples.labels.restored(given).tolist() if known else [None] * len(numbers)
    pairs = zip(numbers, labels, strict=True)
    return asked, None, [{"predicted": number, "probability": None, "label": label} for number, label in pairs]


def explain_examples(
    influence: Influence, queries: Queries, examples: Examples, *, same_label: SameLabel, **options: Any
) -> Explanations:
    """Return explanations with rows, names and what each query has in common with the examples behind it.

    Groups have no label of their own: there `same_label` is always False. Other options are those of `explain`.
    """
    same_label = False if examples.groups else same_label
    explained = explain(influence, queries.inputs, examples=examples, same_label=same_label, **options)
    items = []
    for one, value, name, row in zip(explained, queries.values, queries.names, queries.rows, strict=True):
        spans: set[tuple[int, int]] = set()
        sides: dict[str, tuple[InfluentialExample, ...]] = {}
        for side in ("supporting", "opposing"):
            described = []
            for example in getattr(one, side):
                ours, theirs, columns = examples.in_common(value, example.row)
                spans.update(ours)
                described.append(replace(example, shared_spans=tuple(theirs), near_columns=tuple(columns)))
            sides[side] = tuple(described)
        # As it was given: a number that is restored from a standardized float32 has lost digits.
        label = one.label if row is None or one.label is None else examples.label(row)
        items.append(replace(one, name=name, row=row, label=label, shared_spans=tuple(sorted(spans)), **sides))
    return replace(explained, items=tuple(items))


@dataclass(frozen=True)
class _Lists:
    """The lists of all queries, and which of their entries [queries, k] are significant."""

    top: Top
    helpful: NDArray[np.bool_]
    harmful: NDArray[np.bool_]

    @classmethod
    def of_top(cls, top: Top, level: float) -> "_Lists":
        none = np.zeros(top.helpful_mask_ids.shape, bool)
        return cls(top, *(top.significant(level) if top.knows_noise else (none, none)))

    @classmethod
    def of_scores(cls, scores: Scores, scale: NDArray[np.float32] | None, k: int, level: float) -> "_Lists":
        """Return the lists by all scores; divided by a scale, with marks and p-values of the scores as they were."""
        if scale is None:
            return cls.of_top(scores.top(k), level)
        noise = Noise.of(scores, level)
        marked, p = noise.significant, noise.p_values
        own = np.broadcast_to(scale[:, None], scores.shape)
        top = _with_values(scores, scores.values / own, own).top(k)
        rows, queries = TrainInstances(scores.mask_ids, None), np.arange(len(top.counts))[:, None]
        places = [rows.positions(ids) for ids in (top.helpful_mask_ids, top.harmful_mask_ids)]
        marks = [(place >= 0) & marked[place, queries] for place in places]
        top = replace(top, path=f"{scores.path}; relative to each row's magnitude")
        if p is not None:
            helpful_p, harmful_p = (np.where(place < 0, np.nan, p[place, queries]) for place in places)
            top = replace(top, helpful_p=helpful_p, harmful_p=harmful_p)
        return cls(top, *marks)

    def examples_of(
        self, known: TrainInstances, query: int, side: Literal["helpful", "harmful"]
    ) -> tuple[InfluentialExample, ...]:
        ids, scores, stderr, p = (getattr(self.top, f"{side}_{what}") for what in ("mask_ids", "scores", "stderr", "p"))
        noise, sign = Noise(stderr, p, getattr(self, side)), 1 if side == "helpful" else -1
        return tuple(
            InfluentialExample(**known.instance(position), score=float(scores[query, at]), **noise.at((query, at)))
            for at, position in enumerate(known.positions(ids[query]))
            if position >= 0 and sign * scores[query, at] > 0
        )


def _of_label(scores: Scores, known: TrainInstances, label: NDArray[np.int64] | int | None) -> Scores:
    if label is None or known.labels is None:
        return scores
    return _with_values(scores, np.where(known.labels[:, None] == label, scores.values, np.float32(np.nan)))


def _with_values(scores: Scores, values: NDArray[np.float32], scale: NDArray[np.float32] | None = None) -> Scores:
    stderr = scores.stderr
    names = ("ids", "mask_ids", "queries", "unit", "path", "replicas", "provenance", "standardized")
    return Scores(
        values,
        stderr=stderr if stderr is None or scale is None else stderr / scale,
        null=scores.null if scale is None else None,
        **{name: getattr(scores, name) for name in names},
    )


def row_magnitudes(influence: Influence, self_influence: Scores | None = None) -> NDArray[np.float32]:
    """Return the magnitude of every training instance, in the order of `influence.train_ids`.

    It is the root of the row's influence on itself. To first order a row's influence on a query is the product of two
    gradients, and its influence on itself the square of its own: divided by the root, what is left is how well the two
    go together (the relative influence of Barshan, Brunet and Dziugaite 2020). Outliers and wrong labels, whose
    gradient is large whatever the query, lose their advantage. Self-influence is the one score whose signal is far
    above its noise, and it takes one pass over the data however many queries are explained. Below the noise of null
    ids it cannot be told from 0; there, the noise takes its place.

    Args:
        influence: with its training data.
        self_influence: that of the training data, where it is known already; None: it is computed.

    Example:
        >>> import turnover
        >>> from turnover.training import TrainingRecipe
        >>> x, y = torch.randn(20, 4), torch.randint(2, (20,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> trained = TrainingRecipe(lambda: turnover.wrap(net, at=["1"]), x, y, epochs=40).fit()
        >>> row_magnitudes(turnover.Influence(trained, train=data, estimator="tod")).shape
        (20,)
    """
    own = influence.self_influence(progress=False) if self_influence is None else self_influence
    known = TrainInstances(influence.mask_ids(), None)
    positions = known.positions(own.mask_ids)
    if (positions < 0).any() or len(np.unique(positions)) < len(known):
        raise ApplicationError("self_influence is not that of the training data. Give influence.self_influence().")
    # Rows of one group share an id; the group's magnitude is that of its mean row.
    values = np.nan_to_num(own.values.astype(np.float64), nan=0.0)
    mean = np.bincount(positions, values) / np.bincount(positions)
    spread = own.null_spread
    floor = float(np.max(spread)) if spread is not None else float(np.median(np.abs(mean)))
    return np.sqrt(np.maximum(mean, max(floor, 1e-12))).astype(np.float32)


def _checked_magnitudes(influence: Influence, given: ArrayLike | None) -> NDArray[np.float32]:
    if given is None:
        return row_magnitudes(influence)
    scale, count = np.asarray(given, np.float32), len(influence.mask_ids())
    if scale.shape != (count,) or not bool((scale > 0).all()):
        raise ApplicationError(
            f"magnitudes must be {count} numbers above 0, one per instance, got shape {list(scale.shape)}. Give "
            "those of row_magnitudes(influence)."
        )
    return scale
