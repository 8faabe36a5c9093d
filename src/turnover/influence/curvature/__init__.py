"""Influence functions with K-FAC curvature of all layers, in the full view of every member.

Owns: the gradients of rows and queries at layers, the curvature and its inverse, the temperature of outputs, and
scores made of them. Offers: `Curvature`, the options, which is fitted on the training rows. Must not know: masks.

| file | one idea |
|---|---|
| `estimator.py` | `Curvature`, fitted in two passes over the training rows, or as an earlier run kept it |
| `_passes.py` | what a segment of the training rows adds to temperatures, curvature and scores: tasks of an executor |
| `_gradients.py` | what each layer sees of rows: inputs and gradients; which parameters are covered |
| `_kronecker.py` | curvature of one layer, its damped inverse, products of gradients with it |
| `_calibration.py` | the temperature of outputs; what is differentiated |
"""

from .estimator import Curvature

__all__ = ["Curvature"]
