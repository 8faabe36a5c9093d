"""What people came for: explain predictions, cleanse data, find label errors and what was memorized, ask about groups.

Owns: every finding, computed once, as a small frozen result whose `as_dict` is its one JSON schema. Offers: functions
that take an `Influence`, data and plain arrays, and `find_all` for all findings about a trained model with its
`Examples`. Must not know: run folders, terminals, pages, servers.

| file | one idea |
| --- | --- |
| `examples.py` | rows that findings speak of, their names, and what two of them have in common |
| `predictions.py` | predictions of the full network, and the most confident errors |
| `explain.py` | supporting and opposing examples of a prediction |
| `relative.py` | scores relative to the magnitudes of training rows |
| `shared_tokens.py` | words that two texts share |
| `training_record.py` | what one training says of its rows: full view by epoch, heads on the untrained network |
| `wrong_labels.py`, `_noise.py` | how probably each label is wrong, from that record; labels as a mixture |
| `residuals.py` | labels that are numbers: their scale, their distance from held-out predictions |
| `label_errors.py` | held-out predictions against given labels: order and confidence of label errors |
| `memorized.py` | self-influence of training rows |
| `near_duplicates.py`, `_similarity.py` | rows that are nearly the same; how they are found |
| `cleanse.py` | rows that harm a validation set, and how many to drop |
| `retraining_check.py` | retraining without them |
| `groups.py` | influence of annotators and sources; predictions without one |
| `trust.py` | noise, histograms and leaks |
| `findings.py` | all findings about a classifier or a regression |
| `_results.py` | JSON, tables, significance and checks that all of them share |
"""

from ._results import NoiseFrom, plain
from .cleanse import Cleansing, HarmfulExample, HarmfulExamples, cleanse, drop_amount
from .examples import Examples
from .explain import (
    Explanation,
    Explanations,
    InfluentialExample,
    Queries,
    explain,
    explain_examples,
)
from .findings import (
    ClassSummary,
    Confusion,
    Errors,
    Findings,
    ScoredExamples,
    examine_memorized,
    find_all,
    find_errors,
    find_label_errors,
    row_queries,
    unseen_predictions,
)
from .groups import GroupScore, GroupScores, WithoutGroup, groups, without_group
from .label_errors import LabelError, LabelErrors, label_error_order, label_margins
from .memorized import Memorized, MemorizedExample, MemorizedExamples, memorized
from .near_duplicates import (
    DuplicateGroup,
    Duplicates,
    NearDuplicates,
    example_duplicates,
    find_near_duplicates,
    near_duplicates,
)
from .predictions import Predictions, chance_p_value, prediction, predictions
from .relative import row_magnitudes
from .residuals import LIKELY_ERROR, NumberFit, NumberScale, Residuals
from .retraining_check import ARMS, RetrainingCheck, check_by_retraining
from .shared_tokens import SharedTokens, Span, Tokenizer, shared_tokens
from .training_record import RowRecord, TrainingRecord, ridge_heads
from .trust import Histogram, ScoreNoise, Trust, leak_audit
from .wrong_labels import FEWEST_VALIDATION, WrongLabels, wrong_labels

__all__ = [
    "ARMS",
    "FEWEST_VALIDATION",
    "LIKELY_ERROR",
    "ClassSummary",
    "Cleansing",
    "Confusion",
    "DuplicateGroup",
    "Duplicates",
    "Errors",
    "Examples",
    "Explanation",
    "Explanations",
    "Findings",
    "GroupScore",
    "GroupScores",
    "HarmfulExample",
    "HarmfulExamples",
    "Histogram",
    "InfluentialExample",
    "LabelError",
    "LabelErrors",
    "Memorized",
    "MemorizedExample",
    "MemorizedExamples",
    "NearDuplicates",
    "NoiseFrom",
    "NumberFit",
    "NumberScale",
    "Predictions",
    "Queries",
    "Residuals",
    "RetrainingCheck",
    "RowRecord",
    "ScoreNoise",
    "ScoredExamples",
    "SharedTokens",
    "Span",
    "Tokenizer",
    "TrainingRecord",
    "Trust",
    "WithoutGroup",
    "WrongLabels",
    "chance_p_value",
    "check_by_retraining",
    "cleanse",
    "drop_amount",
    "examine_memorized",
    "example_duplicates",
    "explain",
    "explain_examples",
    "find_all",
    "find_errors",
    "find_label_errors",
    "find_near_duplicates",
    "groups",
    "label_error_order",
    "label_margins",
    "leak_audit",
    "memorized",
    "near_duplicates",
    "plain",
    "prediction",
    "predictions",
    "ridge_heads",
    "row_magnitudes",
    "row_queries",
    "shared_tokens",
    "unseen_predictions",
    "without_group",
    "wrong_labels",
]
