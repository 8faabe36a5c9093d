"""Mislabel detection: do the most suspicious rows have wrong labels?"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.scores import Scores

from .statistics import AnyScores, Floats, average_ranks, matrix_of


@dataclass(frozen=True)
class MislabelDetection:
    """How well a suspicion finds wrong labels; rows that are equally suspicious count as drawn at random.

    Attributes:
        auc: chance that a wrong row is more suspicious than a right one; 0.5 for a random suspicion.
        found: share of all wrong rows among the most suspicious `share` of the rows.
        share: of the rows that are looked at.
        precision: [rows]; share of wrong rows among the 1, 2, 3, ... most suspicious.
        wrong: number of wrong rows.
        rows: number of rows.
    """

    auc: float
    found: float
    share: float
    precision: Floats
    wrong: int
    rows: int

    @property
    def recall(self) -> Floats:
        """Return the share of the wrong rows among the 1, 2, 3, ... most suspicious."""
        return self.precision * np.arange(1, self.rows + 1) / self.wrong


def suspicion_of(scores: Scores, *, by: Literal["mean", "self"]) -> Scores:
    """Return scores that are larger for more suspicious rows.

    A row with a wrong label harms others, so that its mean influence on clean queries is low; and it is memorized, so
    that its self-influence is high.

    Args:
        scores: [rows]: mean influence or self-influence; [rows, queries] are averaged for "mean".
        by: which of the two they are.

    Example:
        >>> suspicion_of(Scores([0.5, -2.0], ids=[7, 8]), by="mean").values
        array([-0.5,  2. ], dtype=float32)
    """
    if by not in ("mean", "self"):
        raise ScoresError(f"`by` must be 'mean' (low is suspicious) or 'self' (high is suspicious), got {by!r}.")
    if by == "self" and scores.values.ndim != 1:
        raise ScoresError(f"self-influence has shape {list(scores.values.shape)}. Give one score per row.")
    values = scores.values if scores.values.ndim == 1 else scores.mean().values
    return Scores(
        values if by == "self" else -values,
        ids=scores.ids,
        mask_ids=scores.mask_ids,
        unit="suspicion",
        path=f"{scores.path}; suspicion by {by}".removeprefix("; "),
        provenance=scores.provenance,
    )


def mislabel_detection(
    suspicion: AnyScores, is_wrong: ArrayLike, *, share: float = 0.1, ids: ArrayLike | None = None
) -> MislabelDetection:
    """Return how well a suspicion finds the rows whose labels are wrong.

    Args:
        suspicion: [rows], larger for more suspicious rows; `suspicion_of` makes it of scores.
        is_wrong: bool [rows].
        share: of the rows to look at.
        ids: instance id of every row of `is_wrong`; None: row numbers.

    Raises:
        ScoresError: shapes or ids do not fit, or no row or every row is wrong.

    Example:
        >>> detection = mislabel_detection([0.9, 0.1, 0.8, 0.2], [True, False, True, False], share=0.5)
        >>> detection.auc, detection.found
        (1.0, 1.0)
    """
    wrong = np.asarray(is_wrong)
    if wrong.ndim != 1 or wrong.dtype != np.bool_:
        raise ScoresError(f"is_wrong is {wrong.dtype} of shape {list(wrong.shape)}. Give a bool for each row.")
    values = matrix_of(suspicion, ids=ids, name="suspicion")
    if values.shape != (len(wrong), 1):
        raise ScoresError(f"suspicion is {list(values.shape)} for {len(wrong)} rows. Give one number per row.")
    if wrong.all() or not wrong.any():
        raise ScoresError(f"{int(wrong.sum())} of {len(wrong)} rows are wrong. Both kinds are needed to tell apart.")
    if not 0 < share <= 1:
        raise ScoresError(f"`share` must be within (0, 1], such as 0.1, got {share}.")
    hits = _expected_hits(values[:, 0], wrong)
    looked_at = max(1, round(share * len(wrong)))
    return MislabelDetection(
        auc=_auc(values[:, 0], wrong),
        found=float(hits[looked_at - 1] / wrong.sum()),
        share=share,
        precision=hits / np.arange(1, len(wrong) + 1),
        wrong=int(wrong.sum()),
        rows=len(wrong),
    )


def _auc(values: Floats, wrong: np.ndarray) -> float:
    positive, negative = int(wrong.sum()), int((~wrong).sum())
    ranks = average_ranks(values)[wrong].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def _expected_hits(values: Floats, wrong: np.ndarray) -> Floats:
    """Return the number of wrong rows among the 1, 2, ... most suspicious, expected over the order of equals."""
    _, group, sizes = np.unique(-values, return_inverse=True, return_counts=True)
    rate = np.bincount(group, weights=wrong) / sizes
    return np.cumsum(np.repeat(rate, sizes))
