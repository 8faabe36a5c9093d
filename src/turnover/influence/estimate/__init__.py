"""Estimators on top of raw scores, and corrections of what masks alone do.

Owns: ridge regression of scores on gradient features of the training rows, with influence functions beside it; the
linear control variate; the mask-bias correction of held-out predictions. An estimator takes a `RawBlock` of queries and
gives a `ScoreBlock` (see `influence/blocks.py`). Must not know: questions, stores or the engine.

| file | one idea |
|---|---|
| `ridge.py` | `Ridge`: the options, and how the strength of the penalty is chosen |
| `_features.py` | gradients of training rows and queries at Linear layers, read batch after batch |
| `_basis.py` | features of fixed length, kept or computed again, and the eigenvectors of their kernel |
| `denoise.py` | `Fit` and `Denoising`: blocks of denoised scores with their null and standard errors |
| `control.py` | `LinearControl`: what a score owes to its mask alone, to first order |
| `mask_bias.py` | `MaskBias`: what a mask does to any output, by reference examples |
"""

from .control import LinearControl
from .denoise import Denoising, Fit
from .mask_bias import MaskBias, check_references
from .ridge import Denoise, Ridge, as_ridge

__all__ = ["Denoise", "Denoising", "Fit", "LinearControl", "MaskBias", "Ridge", "as_ridge", "check_references"]
