"""Paths to raw scores: from one model, queries and ids to scores [ids, queries].

Owns: chunks of instances, forward passes of queries under them, and which path is right and fastest for a model. Offers
`Forward` (how one model's rows are computed), `Routes` (which path each model takes) and what estimators need of them.
Must not know: ensembles, nulls, offsets, estimators or files.

| file | one idea |
|---|---|
| `forward.py` | `Forward` and `Chunk`: one query under the masks of many instances, broadcast or expanded |
| `_packed.py` | layers over tokens with their weights packed once |
| `_sites.py` | which module takes a site's output; the first product that both views share |
| `_last_layer.py` | all pairs as one matrix product, or looked up byte by byte |
| `trials.py` | whether a faster path gives what the plainest gives |
| `needs.py` | what chunks need, counted on small ones: memory and work |
| `routes.py` | `Routes`: the path of each model, and how many instances a chunk holds |
"""

from .forward import Chunk, Forward, with_predicted_target
from .needs import ids_that_fit
from .routes import Route, Routes, Scorer
from .trials import broadcast_or_expanded

__all__ = [
    "Chunk",
    "Forward",
    "Route",
    "Routes",
    "Scorer",
    "broadcast_or_expanded",
    "ids_that_fit",
    "with_predicted_target",
]
