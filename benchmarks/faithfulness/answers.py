"""What a method says of a task, and how well that finds wrong labels."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from turnover.evaluation import mislabel_detection

from .trainings import Trained

SHARE = 0.1


@dataclass(frozen=True)
class Answers:
    """What a method says of a task.

    Attributes:
        pairs: [rows, validation rows], positive where a row helps; None: it cannot say.
        own: [rows] each, larger for rows with more suspicious labels, without any validation row; "self":
            self-influence, "unseen": from predictions by models that did not learn the row.
        trained: trainings that it needed.
        own_seconds: of the processor, for what is said of the rows themselves; None: not measured apart.
    """

    pairs: np.ndarray | None
    own: Mapping[str, np.ndarray]
    trained: tuple[Trained, ...]
    own_seconds: float | None = None


def detection(answers: Answers, wrong: np.ndarray) -> dict[str, float]:
    """Return how well wrong labels are found: AUC and share of them among the worst 10 % of the rows.

    Args:
        answers: of a method.
        wrong: bool [rows].
    """
    suspicions = dict(answers.own)
    if answers.pairs is not None:
        suspicions["mean"] = -answers.pairs.mean(1)
    found: dict[str, float] = {}
    for name, suspicion in suspicions.items():
        detected = mislabel_detection(np.asarray(suspicion), wrong, share=SHARE)
        found |= {f"{name}_auc": detected.auc, f"{name}_found": detected.found}
    return found
