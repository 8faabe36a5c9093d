"""Kinds of issues for cleanlab's Datalab: likely label errors and harmful rows, each registered by its name."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from cleanlab.datalab.datalab import Datalab
from cleanlab.datalab.internal.issue_manager import IssueManager
from cleanlab.datalab.internal.issue_manager_factory import register

from turnover.errors import ScoresError
from turnover.scores import OutOfSample, Scores, normal_tail

_TINY = 1e-30


class _Issues(IssueManager):
    """Takes what was found of every row of a Datalab; importing this file makes the kinds known to it."""

    issue_name = "turnover"

    def _keep(self, is_issue: np.ndarray, score: np.ndarray, info: dict[str, Any]) -> None:
        """Keep what Datalab asks for; a score in [0, 1] is low where the issue is severe."""
        name, rows = type(self).issue_name, len(self.datalab.data)
        if len(score) != rows:
            raise ScoresError(
                f"{len(score)} scores for the {rows} rows of the Datalab. Give one per row, in its order."
            )
        if not np.isfinite(score).all():
            raise ScoresError(f"{np.sum(~np.isfinite(score))} scores are not finite, and Datalab cannot rank them.")
        self.issues = pd.DataFrame({f"is_{name}_issue": is_issue, self.issue_score_key: np.clip(score, 0, 1)})
        self.summary = self.make_summary(score=float(np.clip(score, 0, 1).mean()))
        self.info = info


@register
class LikelyLabelErrorIssues(_Issues):
    """Rows whose label disagrees with their held-out prediction: "likely_label_error" of a Datalab.

    The score is the held-out probability of the given label, as in `OutOfSample.label_quality`.

    Args:
        datalab: given by cleanlab.
        out_of_sample: `Influence.out_of_sample()` or `out_of_sample_` of an estimator, of all rows in their order.

    Example:
        lab.find_issues(issue_types={"likely_label_error": {"out_of_sample": influence.out_of_sample()}})
    """

    issue_name: ClassVar[str] = "likely_label_error"
    description: ClassVar[str] = "The label disagrees with the held-out prediction, that of the flipped subnetwork."
    verbosity_levels: ClassVar[dict[int, list[str]]] = {0: [], 1: ["held_out_label"], 2: [], 3: []}

    def __init__(self, datalab: Datalab, out_of_sample: OutOfSample | None = None, **_: Any) -> None:
        super().__init__(datalab)
        if out_of_sample is None:
            raise ScoresError(
                "likely_label_error needs held-out predictions: "
                'issue_types={"likely_label_error": {"out_of_sample": influence.out_of_sample()}}.'
            )
        self._predictions = out_of_sample

    def find_issues(self, **_: Any) -> None:
        """Compare given labels with held-out predictions."""
        quality, predicted = self._predictions.label_quality, self._predictions.probs.argmax(1)
        given = self._predictions.labels
        names = self.datalab.class_names  # in the order of class numbers
        held_out = [names[number] if number < len(names) else number for number in predicted.tolist()]
        self._keep(predicted != given, quality, {"held_out_label": held_out})


@register
class HarmfulIssues(_Issues):
    """Rows that significantly raise the mean loss of a validation set: "harmful" of a Datalab.

    The score is near 0 for harmful rows and near 1 for helpful ones: the one-sided p-value of the row's mean influence
    being below 0 where there are null ids, else the share above 0 of a normal distribution with its standard error.

    Args:
        datalab: given by cleanlab.
        scores: `Influence.mean(validation)` of all rows in their order, of which noise is known (several replicas, or
            null ids).
        level: expected share of chance among the marked rows.

    Example:
        lab.find_issues(issue_types={"harmful": {"scores": influence.mean(validation)}})
    """

    issue_name: ClassVar[str] = "harmful"
    description: ClassVar[str] = "Training on the row raises the loss of validation rows, beyond what noise explains."
    verbosity_levels: ClassVar[dict[int, list[str]]] = {0: [], 1: ["mean_influence"], 2: [], 3: []}

    def __init__(self, datalab: Datalab, scores: Scores | None = None, level: float = 0.05, **_: Any) -> None:
        super().__init__(datalab)
        if scores is None or scores.values.ndim != 1:
            raise ScoresError(
                'harmful needs one score per row: issue_types={"harmful": {"scores": influence.mean(validation)}}.'
            )
        self._scores, self._level = scores, level

    def find_issues(self, **_: Any) -> None:
        """Mark the rows whose mean influence is significantly below 0."""
        scores, values = self._scores, self._scores.values
        harmful = scores.significant(self._level) & (values < 0)
        if scores.null is None and scores.stderr is not None:
            two_sided = normal_tail(values / np.maximum(scores.stderr, _TINY))
        else:
            two_sided = scores.p_values()
        one_sided = np.where(values < 0, two_sided / 2, 1 - two_sided / 2)
        self._keep(harmful, one_sided, {"mean_influence": values})
