"""Estimators: how scores are made of raw scores, of gradients, or of both; corrections of what masks alone do.

Owns: the original estimator, influence functions with K-FAC curvature, the mask-bias correction of held-out
predictions. An `Estimator` holds options and is fitted once; for a question it gives blocks of queries
(`ScoreBlock`, see `influence/blocks.py`). Must not know: questions, stores or the engine.

| file | one idea |
|---|---|
| `original.py` | what an estimator is; `Original`: raw scores |
| `choice.py` | the estimator that a user names; "auto" |
| `curvature/` | `Curvature`: influence functions with K-FAC curvature on calibrated outputs |
| `mask_bias.py` | `MaskBias`: what a mask does to any output, by reference examples |
"""

from .choice import EstimatorOption, as_estimator
from .curvature import Curvature
from .mask_bias import MaskBias, check_references
from .original import QUERIES_PER_BLOCK, Estimate, Estimator, KeepsRows, Original, OwnScores, TokenScores

__all__ = [
    "QUERIES_PER_BLOCK",
    "Curvature",
    "Estimate",
    "Estimator",
    "EstimatorOption",
    "KeepsRows",
    "MaskBias",
    "Original",
    "OwnScores",
    "TokenScores",
    "as_estimator",
    "check_references",
]
