"""Lists of training rows: doubtful labels, harmful and memorized rows, near-duplicates, groups."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from turnover.applications import Duplicates, doubtful_first, label_margins
from turnover.errors import ScoresError
from turnover.runs import SPLITS
from turnover.scores import OutOfSample, Scores

from .data_rows import DoubtfulLabel, DuplicateGroup, GroupInfluence, HarmfulRow, MemorizedRow
from .shown_rows import ShownRows

if TYPE_CHECKING:
    from turnover.runs import Run

MOST_DOUBTFUL = 500
MOST = 200
MOST_DUPLICATES = 100
MOST_ASKED = 500
_MOST_OF_A_GROUP = 4


@dataclass(frozen=True)
class Standing:
    """Which scores stand out from noise.

    Attributes:
        marked: bool, one a score; None: noise is not known.
        p_values: one a score; None: not known.
    """

    marked: np.ndarray | None
    p_values: np.ndarray | None

    def out(self, place: int) -> bool:
        """Tell whether one score stands out."""
        return self.marked is not None and bool(self.marked[place])

    def p_value(self, place: int) -> float | None:
        """Return the p-value of one score."""
        return None if self.p_values is None else float(self.p_values[place])

    def count(self, which: np.ndarray) -> int:
        """Return how many of some scores stand out."""
        return 0 if self.marked is None else int((self.marked & which).sum())


def standing(scores: Scores, level: float) -> Standing:
    """Return which scores stand out; with one or two replicas and without never-trained ids that is not known."""
    try:
        return Standing(scores.significant(level), scores.p_values())
    except ScoresError:
        return Standing(None, None)


def firmly_doubted(unseen: OutOfSample) -> np.ndarray:
    """Tell whose label is firmly doubted by the part of the network that never saw the row, bool [rows].

    Firmly: the other label is at least as probable as it is, on average, to rows that have it. This is the threshold of
    confident learning (Northcutt, Jiang and Chuang 2021), which takes into account that a network may be sure of one
    class and unsure of another.

    Example:
        >>> firmly_doubted(OutOfSample([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]], ids=[7, 8, 9], labels=[0, 1, 1]))
        array([False,  True, False])
    """
    labels, probs = unseen.labels, unseen.probs
    assert labels is not None  # a run keeps them
    counts = np.bincount(labels, minlength=probs.shape[1])
    own = probs[np.arange(len(labels)), labels].astype(np.float64)
    usual = np.where(counts > 0, np.bincount(labels, own, probs.shape[1]) / np.maximum(counts, 1), 2.0)
    said = probs.argmax(1)
    return (said != labels) & (probs[np.arange(len(labels)), said] >= usual[said])


def disbelieved_unseen(run: "Run", unseen: np.ndarray, *, most: int = MOST_ASKED) -> tuple[int, int]:
    """Return how many unseen rows the network's parts were asked about, and how many labels they do not believe.

    Each row is asked of the part that some training row never trained, as training rows are asked of theirs. So the
    share that is not believed is what this part's own errors, and wrong labels where there are any, amount to.

    Args:
        run: whose network it is.
        unseen: numbers of validation and test rows.
        most: at most so many of them, spread evenly.
    """
    rows = unseen[np.linspace(0, len(unseen) - 1, min(most, len(unseen))).astype(int)]
    if not len(rows):
        return 0, 0
    trained = run.ids[run.places("train")]
    ids = torch.from_numpy(trained[np.linspace(0, len(trained) - 1, len(rows)).astype(int)])
    said = run.held_out((run.x[rows], run.y[rows], ids)).probs.argmax(1)
    return len(rows), int((said != run.rows.labels[rows]).sum())


def doubtful_of(
    run: "Run", doubted: np.ndarray, duplicates: Duplicates, shown: ShownRows, *, most: int = MOST_DOUBTFUL
) -> tuple[DoubtfulLabel, ...]:
    """Return training rows whose label is not believed by the part that never saw them, the least believed first.

    Args:
        run: whose training rows they are.
        doubted: which are firmly doubted, one a training row.
        duplicates: near-duplicates among all rows.
        shown: told of every row that is named.
        most: at most so many.
    """
    unseen, places, own = run.out_of_sample, run.places("train"), run.self_influence.values
    labels = run.rows.labels[places]
    margins = np.nan_to_num(label_margins(unseen, labels), nan=np.inf)
    order = doubtful_first(unseen, labels)[:most]
    trained = set(places.tolist())
    found: list[DoubtfulLabel] = []
    for place in order[margins[order] < 0]:
        row, suggested = int(places[place]), int(unseen.probs[place].argmax())
        twins = tuple(twin for twin in duplicates.twins(row) if twin in trained)[:_MOST_OF_A_GROUP]
        for number in (row, *twins):
            shown(number)
        found.append(
            DoubtfulLabel(
                row=row,
                given=run.label_names[labels[place]],
                suggested=run.label_names[suggested],
                given_probability=float(unseen.probs[place, labels[place]]),
                suggested_probability=float(unseen.probs[place, suggested]),
                firm=bool(doubted[place]),
                self_influence=float(own[place]) if np.isfinite(own[place]) else None,
                duplicates=twins,
            )
        )
    return tuple(found)


def harmful_of(
    run: "Run", stands: Standing, doubted: np.ndarray, shown: ShownRows, *, most: int = MOST
) -> tuple[HarmfulRow, ...]:
    """Return the training rows that harm validation rows most; nothing where groups were trained."""
    if run.rows.groups:
        return ()
    mean, places = run.mean_influence, run.places("train")
    values = np.nan_to_num(mean.values, nan=np.inf)
    order = np.argsort(values, kind="stable")[:most]
    return tuple(
        HarmfulRow(
            row=shown(int(places[place])).row,
            score=float(values[place]),
            stderr=_stderr(mean, place),
            p_value=stands.p_value(place),
            stands_out=stands.out(place),
            doubtful=bool(doubted[place]),
        )
        for place in order[values[order] < 0]
    )


def memorized_of(run: "Run", doubted: np.ndarray, shown: ShownRows, *, most: int = MOST) -> tuple[MemorizedRow, ...]:
    """Return the training rows of the highest self-influence."""
    own, places, quality = run.self_influence, run.places("train"), run.out_of_sample.label_quality
    values = np.nan_to_num(own.values, nan=-np.inf)
    order = np.argsort(-values, kind="stable")[:most]
    return tuple(
        MemorizedRow(
            row=shown(int(places[place])).row,
            score=float(values[place]),
            stderr=_stderr(own, place),
            unseen_probability=float(quality[place]) if np.isfinite(quality[place]) else None,
            doubtful=bool(doubted[place]),
        )
        for place in order[values[order] > 0]
    )


def duplicate_groups(run: "Run", found: Duplicates) -> tuple[DuplicateGroup, ...]:
    """Return all groups of near-duplicates: first those whose labels disagree, then those on both sides of a split."""
    groups = [
        DuplicateGroup(
            rows=rows[:_MOST_OF_A_GROUP],
            size=len(rows),
            exact=exact,
            labels_agree=len(set(run.rows.labels[list(rows)].tolist())) == 1,
            splits_differ=_trained_and_tested({SPLITS[split] for split in run.splits[list(rows)]}),
        )
        for rows, exact in zip(found.groups, found.exact, strict=True)
    ]
    groups.sort(key=lambda group: (group.labels_agree, not group.splits_differ, -group.size, group.rows))
    return tuple(groups)


def groups_of(run: "Run", stands: Standing, doubted: np.ndarray, *, most: int = MOST) -> tuple[GroupInfluence, ...]:
    """Return annotators, sources or users by what they do to validation rows, the most harmful first."""
    if not run.rows.groups:
        return ()
    mean, places = run.mean_influence, run.places("train")
    ids = run.ids[places]
    names = {int(run.ids[row]): run.rows.groups[row] for row in places}
    order = np.argsort(np.nan_to_num(mean.values, nan=np.inf), kind="stable")[:most]
    return tuple(
        GroupInfluence(
            group=names[int(mean.ids[place])],
            rows=int((ids == mean.ids[place]).sum()),
            score=float(mean.values[place]),
            stderr=_stderr(mean, place),
            p_value=stands.p_value(place),
            stands_out=stands.out(place),
            doubtful=int(doubted[ids == mean.ids[place]].sum()),
        )
        for place in order
        if np.isfinite(mean.values[place])
    )


def _trained_and_tested(splits: set[str]) -> bool:
    return "train" in splits and bool(splits & {"validation", "test"})


def _stderr(scores: Scores, place: int) -> float | None:
    known = scores.stderr
    return None if known is None or not np.isfinite(known[place]) else float(known[place])
