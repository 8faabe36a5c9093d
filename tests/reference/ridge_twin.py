"""Ridge denoising by its definition: whole gradients row by row, one linear system a query and strength."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

STRENGTHS = 121


def twin_kernel(
    models: Sequence[nn.Module], weight: str, rows: Sequence[tuple[Any, Any]], loss: Callable[[Tensor, Any], Tensor]
) -> np.ndarray:
    """Return the mean over models of the inner products of the gradients of a weight, [rows, rows]."""
    kernel = np.zeros((len(rows), len(rows)))
    for model in models:
        parameter = dict(model.named_parameters())[weight]
        gradients = []
        for x, y in rows:
            (gradient,) = torch.autograd.grad(loss(model(x), y), parameter)
            gradients.append(gradient.flatten().double().numpy())
        kernel += np.stack(gradients) @ np.stack(gradients).T
    return kernel / len(models)


def twin_smoother(kernel: np.ndarray, scores: np.ndarray, how: str, noise: float) -> np.ndarray:
    """Return the matrix [rows, rows] that a criterion likes best for these scores [rows]."""
    rows, best = len(kernel), (np.inf, np.empty(0))
    total = np.trace(kernel)
    for strength in np.geomspace(1e-4 * total / rows, 10 * total, STRENGTHS):
        inverse = np.linalg.inv(kernel + strength * np.eye(rows))
        smoother = kernel @ inverse
        residual = float(np.square(scores - smoother @ scores).sum())
        if how == "gcv":
            cost = residual / (rows - np.trace(smoother)) ** 2
        elif how == "sure":
            cost = residual + 2 * noise**2 * np.trace(smoother)
        else:  # minus twice the log of the likelihood, at its best scale
            cost = rows * np.log(scores @ inverse @ scores) - np.linalg.slogdet(inverse)[1]
        if cost < best[0]:
            best = cost, smoother
    return best[1]
