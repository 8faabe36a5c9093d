"""What people came for: explain predictions, cleanse data, find label errors and what was memorized, ask about groups.

Owns: every finding, computed once, as a small frozen result whose `as_dict` is its one JSON schema. Offers: functions
that take an `Influence`, data and plain arrays, and `find_all` for all findings about a trained network with its
`Examples`. Must not know: run folders, terminals, pages, servers.

| file | one idea |
| --- | --- |
| `results.py` | plain JSON by one serializer, tables, significance and checks that all findings share |
| `labels.py` | given labels, classes or numbers, beside held-out predictions; P(wrong) by these and by residuals |
| `wrong_labels.py` | P(wrong) of each label: one interface to all sources, and the one by the record of a training |
| `training_record.py` | what one training says of its rows: full view by epoch, heads on the untrained network |
| `examples.py` | rows that findings speak of, their names, and what two of them have in common |
| `predictions.py` | predictions of the full network, and the most confident errors |
| `explain.py` | supporting and opposing examples of a prediction; relative scores |
| `memorized.py` | self-influence of training rows, and likely label errors among them |
| `near_duplicates.py` | rows that are nearly the same |
| `cleanse.py` | rows that harm a validation set, and how many to drop |
| `retraining_check.py` | retraining without them |
| `groups.py` | influence of annotators and sources; predictions without one |
| `findings.py` | all findings about a trained network, with noise and leaks |
"""

from turnover.storage import as_plain as plain

from .cleanse import Cleansing, HarmfulExample, HarmfulExamples, cleanse, drop_amount
from .examples import Examples, SharedTokens, Span, Tokenizer, shared_tokens
from .explain import (
    Explanation,
    Explanations,
    InfluentialExample,
    Queries,
    explain,
    explain_examples,
    row_magnitudes,
)
from .findings import (
    Errors,
    Findings,
    ScoredExamples,
    ScoreNoise,
    Trust,
    examine_memorized,
    find_all,
    find_errors,
    find_label_errors,
    leak_audit,
    row_queries,
)
from .groups import GroupScore, GroupScores, WithoutGroup, groups, without_group
from .labels import (
    LIKELY_ERROR,
    ClassLabels,
    ClassSummary,
    Confusion,
    HeldOutLabels,
    Labels,
    NumberFit,
    NumberLabels,
    RecordedLabels,
    Residuals,
    WrongLabels,
)
from .memorized import LabelErrors, Memorized, MemorizedExample, MemorizedExamples, memorized
from .near_duplicates import (
    DuplicateGroup,
    Duplicates,
    NearDuplicates,
    example_duplicates,
    find_near_duplicates,
    near_duplicates,
)
from .predictions import Predictions, chance_p_value, prediction, predictions
from .results import Histogram, NoiseFrom, Result
from .retraining_check import ARMS, RetrainingCheck, check_by_retraining
from .training_record import TrainingRecord, ridge_heads
from .wrong_labels import FEWEST_VALIDATION, RowRecord, wrong_labels

__all__ = [
    "ARMS",
    "FEWEST_VALIDATION",
    "LIKELY_ERROR",
    "ClassLabels",
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
    "HeldOutLabels",
    "Histogram",
    "InfluentialExample",
    "LabelErrors",
    "Labels",
    "Memorized",
    "MemorizedExample",
    "MemorizedExamples",
    "NearDuplicates",
    "NoiseFrom",
    "NumberFit",
    "NumberLabels",
    "Predictions",
    "Queries",
    "RecordedLabels",
    "Residuals",
    "Result",
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
    "without_group",
    "wrong_labels",
]
