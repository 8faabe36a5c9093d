"""Estimators: how scores are made of raw scores, of gradients, or of both; corrections of what masks alone do.

Owns: the original estimator, its denoised form (ridge regression of scores on gradient features of the training rows),
influence functions with K-FAC curvature, their combination; the linear control variate; the mask-bias correction of
held-out predictions. An `Estimator` holds options and is fitted once; for a question it gives blocks of queries
(`ScoreBlock`, see `influence/blocks.py`). Must not know: questions, stores or the engine.

| file | one idea |
|---|---|
| `original.py` | what an estimator is; `Original`: raw scores |
| `choice.py` | the estimator that a user names; "auto" |
| `_ridge_options.py` | the options of ridge regression, and how the strength of the penalty is chosen |
| `_features.py` | gradients of training rows and queries at Linear layers, read batch after batch |
| `_basis.py` | features of fixed length, kept or computed again, and the eigenvectors of their kernel |
| `ridge.py` | `Ridge`: blocks of denoised scores with their null and standard errors |
| `curvature/` | `Curvature`: influence functions with K-FAC curvature on calibrated outputs |
| `control.py` | `LinearControl`: what a score owes to its mask alone, to first order |
| `mask_bias.py` | `MaskBias`: what a mask does to any output, by reference examples |
"""

from .choice import EstimatorOption, as_estimator, check_renamed
from .control import LinearControl
from .curvature import Curvature
from .mask_bias import MaskBias, check_references
from .original import QUERIES_PER_BLOCK, Estimate, Estimator, Fit, KeepsRows, Original, OwnScores, TokenScores
from .ridge import Ridge

__all__ = [
    "QUERIES_PER_BLOCK",
    "Curvature",
    "Estimate",
    "Estimator",
    "EstimatorOption",
    "Fit",
    "KeepsRows",
    "LinearControl",
    "MaskBias",
    "Original",
    "OwnScores",
    "Ridge",
    "TokenScores",
    "as_estimator",
    "check_references",
    "check_renamed",
]
