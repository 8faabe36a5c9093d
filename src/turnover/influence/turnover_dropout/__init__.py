"""The original estimator: the loss of a row's flipped subnetwork minus that of its kept one.

Owns: members under the masks of many instances, the paths to raw scores, null ids; self-influence and held-out
predictions of rows. Offers: `TurnOver`, the options. Must not know: gradients.

| file | one idea |
|---|---|
| `estimator.py` | `TurnOver`; which path a member takes; blocks of queries with their null |
| `_subnetworks.py` | one query under the masks of many instances in one pass: broadcast or expanded |
| `_last_layer.py` | all pairs as one matrix product, or looked up byte by byte |
| `own_rows.py` | self-influence; held-out predictions; whether ids are those of the training |
| `_mask_bias.py` | what a mask does to any output, by reference examples |
"""

from .estimator import TurnOver
from .own_rows import held_out_predictions, warn_of_weak_signal

__all__ = ["TurnOver", "held_out_predictions", "warn_of_weak_signal"]
