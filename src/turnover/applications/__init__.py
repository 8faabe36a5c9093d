"""What people came for: explain predictions, cleanse data, find what was memorized, ask about groups.

Owns: functions that take an `Influence`, data and plain arrays and return small frozen results (`as_dict`, `table`).
Must not know: run folders, terminals, servers, or which task the data come from.

| file | one idea |
|---|---|
| `explain.py`, `explanations.py` | the rows behind a prediction; the results |
| `magnitudes.py` | how strongly each row acts at all |
| `shared_tokens.py` | what a query and an example have in common, to be marked |
| `cleanse.py`, `drop_amount.py` | rows that harm a validation set; how many of them to drop |
| `proof.py` | retraining without them |
| `memorized.py`, `label_margins.py` | self-influence and doubtful labels; the order of these |
| `unseen.py` | what the part that never saw a row says of it |
| `near_duplicates.py`, `near_texts.py`, `near_features.py`, `components.py` | rows that are nearly the same |
| `colored_text.py` | tokens colored by a number, for pages and terminals |
| `groups.py`, `without_group.py` | influence of annotators and sources; predictions without one |
| `predictions.py` | what the whole network says, and where it is wrong |
| `train_instances.py`, `plain_data.py` | ids, labels and places of training instances; results as JSON and tables |
"""

from .cleanse import Cleansing, HarmfulRow, cleanse
from .colored_text import TINTS, ColoredText, colored_text
from .drop_amount import drop_amount
from .explain import explain
from .explanations import Explanation, Explanations, Reason
from .groups import GroupScore, GroupScores, groups
from .label_margins import doubtful_first, label_margins
from .magnitudes import row_magnitudes
from .memorized import Memorized, MemorizedRow, memorized
from .near_duplicates import Duplicates, near_duplicates
from .plain_data import plain
from .predictions import Predictions, predictions
from .proof import ARMS, Proof, prove
from .shared_tokens import SharedTokens, Span, Tokenizer, shared_tokens
from .without_group import WithoutGroup, without_group

__all__ = [
    "ARMS",
    "TINTS",
    "Cleansing",
    "ColoredText",
    "Duplicates",
    "Explanation",
    "Explanations",
    "GroupScore",
    "GroupScores",
    "HarmfulRow",
    "Memorized",
    "MemorizedRow",
    "Predictions",
    "Proof",
    "Reason",
    "SharedTokens",
    "Span",
    "Tokenizer",
    "WithoutGroup",
    "cleanse",
    "colored_text",
    "doubtful_first",
    "drop_amount",
    "explain",
    "groups",
    "label_margins",
    "memorized",
    "near_duplicates",
    "plain",
    "predictions",
    "prove",
    "row_magnitudes",
    "shared_tokens",
    "without_group",
]
