"""Explain predictions: the training rows that pushed a prediction where it is, and those that pushed against it (§4.3).

A row pushes toward a prediction where it lowers the loss at the predicted label, whether that label is right or not.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

import turnover
from turnover.errors import ApplicationError
from turnover.scores import Scores, Top, checked_level, discoveries

from .explanations import Explanation, Explanations, Reason
from .magnitudes import row_magnitudes
from .predictions import Predictions, predictions
from .train_instances import TrainInstances, checked_count, train_instances

SameLabel = bool | Literal["pushed"]


def explain(
    influence: turnover.Influence,
    queries: Any,
    *,
    train_labels: Any = None,
    k: int = 10,
    same_label: SameLabel = True,
    relative: bool = False,
    magnitudes: ArrayLike | None = None,
    level: float = 0.05,
    progress: bool | None = False,
) -> Explanations:
    """Return, for each query, the training rows that pushed its prediction there and those that pushed against it.

    Args:
        influence: of a classifier, with its training data.
        queries: tensors, a tuple (x, y), a dict, a Dataset or a DataLoader; labels are not needed.
        train_labels: the label of every training instance, in the order of the data; None: those of the data.
        k: rows of each kind.
        same_label: only training rows of the predicted label, as in the paper; False: rows of all labels; "pushed": of
            the predicted label where they pushed toward it, of any label where they pushed against it. That one holds
            all scores of the queries in memory.
        relative: divide each row's scores by its magnitude (see `row_magnitudes`), so that a few rows that act strongly
            on everything do not top every explanation. Which rows stand out is judged by the scores as they were. This
            too holds all scores of the queries.
        magnitudes: those of `row_magnitudes`, where many calls share them; None: they are computed.
        level: share of the rows that stand out which may be noise.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: k, labels or magnitudes do not fit, or the model has no classes.

    Example:
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(40)):
        ...     _ = net(x)  # training goes here
        >>> found = explain(turnover.Influence(net, train=data), torch.randn(3, 4), k=2)
        >>> len(found), found[0].given, {reason.label for reason in found[0].pushed} <= {found[0].predicted}
        (3, None, True)
    """
    k = checked_count(k, "k")
    if same_label not in (True, False, "pushed"):
        raise ApplicationError(f"same_label={same_label!r} is unknown. Give True, False or 'pushed'.")
    known = train_instances(influence, train_labels, needed=same_label is not False)
    said = predictions(influence, queries)
    if said.one_output:
        raise ApplicationError(
            "the model has one output, so there is no predicted label to explain. Give it one output a class; for a "
            "regression ask influence.top(queries)."
        )
    relative = relative or magnitudes is not None
    if relative or same_label == "pushed":
        scores = influence.pairwise(queries, at_label="predicted", progress=progress)
        each = [_of_label(scores, known, said, only) for only in _by_side(same_label)]
        scale = _checked_magnitudes(influence, magnitudes, len(known)) if relative else None
        tops = [
            _relative_top(one, scale, k, level) if scale is not None else _marked(one.top(k), level) for one in each
        ]
    else:
        label = "predicted" if same_label else None
        top = influence.top(queries, k=k, labels=known.labels, label=label, at_label="predicted", progress=progress)
        tops = [_marked(top, level)]
    (top, (marks, _)), (other, (_, other_marks)) = tops[0], tops[-1]
    sides = (
        _Side(1, known.places(top.helpful_ids), top.helpful_scores, top.helpful_stderr, top.helpful_p, marks),
        _Side(
            -1,
            known.places(other.harmful_ids),
            other.harmful_scores,
            other.harmful_stderr,
            other.harmful_p,
            other_marks,
        ),
    )
    names = top.queries or tuple(range(len(said.probs)))
    return Explanations(
        items=tuple(_explanation(place, name, sides, said, known) for place, name in enumerate(names)),
        same_label=same_label,
        relative=relative,
        level=level,
        unit=top.unit,
        replicas=top.replicas,
        path=top.path,
    )


@dataclass(frozen=True)
class _Side:
    """One list of all queries, [queries, k] each: rows that push one way (sign 1) or the other (−1)."""

    sign: int
    places: NDArray[np.int64]
    scores: NDArray[np.float32]
    stderr: NDArray[np.float32] | None
    p: NDArray[np.float32] | None
    marked: NDArray[np.bool_]

    def reasons(self, query: int, known: TrainInstances) -> tuple[Reason, ...]:
        """Return the entries that do push this way; the list of a query with few rows may end with others."""
        return tuple(
            Reason(
                id=int(known.ids[place]),
                position=int(place),
                label=known.label(place),
                score=float(self.scores[query, entry]),
                stderr=None if self.stderr is None else float(self.stderr[query, entry]),
                p_value=None if self.p is None else float(self.p[query, entry]),
                stands_out=bool(self.marked[query, entry]),
            )
            for entry, place in enumerate(self.places[query])
            if place >= 0 and self.sign * self.scores[query, entry] > 0
        )


def _explanation(
    place: int, name: int | str, sides: tuple[_Side, _Side], said: Predictions, known: TrainInstances
) -> Explanation:
    label = int(said.predicted[place])
    return Explanation(
        query=name,
        predicted=label,
        probability=float(said.probs[place, label]),
        given=None if said.given is None else int(said.given[place]),
        pushed=sides[0].reasons(place, known),
        against=sides[1].reasons(place, known),
    )


def _checked_magnitudes(influence: turnover.Influence, given: ArrayLike | None, count: int) -> NDArray[np.float32]:
    if given is None:
        return row_magnitudes(influence)
    scale = np.asarray(given, np.float32)
    if scale.shape != (count,) or not bool((scale > 0).all()):
        raise ApplicationError(
            f"magnitudes have shape {list(scale.shape)} for {count} training instances, or are not all above 0. Give "
            "those of row_magnitudes(influence)."
        )
    return scale


_Marks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def _by_side(same_label: SameLabel) -> list[bool]:
    """Tell whether only rows of the predicted label count: toward it and against it, once if both are alike."""
    return [True, False] if same_label == "pushed" else [bool(same_label)]


def _marked(top: Top, level: float) -> tuple[Top, _Marks]:
    """Return lists, and which entries of both [queries, k] stand out; none where noise is not known."""
    counts = top.distinguishable(level) if top.knows_noise else np.zeros((len(top.counts), 2), np.int64)
    places = np.arange(top.k)
    return top, (places < counts[:, :1], places < counts[:, 1:])


def _of_label(scores: Scores, known: TrainInstances, said: Predictions, same_label: bool) -> Scores:
    """Return scores in which rows of other labels than the predicted do not count."""
    if not same_label or known.labels is None:
        return scores
    return _changed(scores, np.where(known.labels[:, None] == said.predicted, scores.values, np.float32(np.nan)))


def _relative_top(scores: Scores, scale: NDArray[np.float32], k: int, level: float) -> tuple[Top, _Marks]:
    """Return the lists by relative scores, with p-values and marks of the scores as they were."""
    p = scores.p_values()
    marked = discoveries(p, checked_level(level))
    own = np.broadcast_to(scale[:, None], scores.shape)
    top = _changed(scores, scores.values / own, own).top(k)
    rows = TrainInstances(scores.ids, None)
    queries = np.arange(len(top.counts))[:, None]
    places = [rows.places(ids) for ids in (top.helpful_ids, top.harmful_ids)]
    helpful_p, harmful_p = (np.where(place < 0, np.nan, p[place, queries]) for place in places)
    helpful, harmful = ((place >= 0) & marked[place, queries] for place in places)
    path = f"{scores.path}; relative to each row's magnitude"
    return replace(top, helpful_p=helpful_p, harmful_p=harmful_p, path=path), (helpful, harmful)


def _changed(scores: Scores, values: NDArray[np.float32], scale: NDArray[np.float32] | None = None) -> Scores:
    """Return scores with other values; with a scale, standard errors are divided by it and never-trained ids let go."""
    stderr = scores.stderr
    return Scores(
        values,
        ids=scores.ids,
        queries=scores.queries,
        stderr=None if stderr is None else stderr if scale is None else stderr / scale,
        null=scores.null if scale is None else None,
        unit=scores.unit,
        path=scores.path,
        replicas=scores.replicas,
    )
