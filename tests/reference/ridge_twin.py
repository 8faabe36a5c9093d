"""Ridge denoising by its definition: whole gradients row by row, one linear system per query and strength."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import turnover

STRENGTHS = 121


def twin_gradients(
    model: nn.Module, weight: str, rows: Sequence[tuple[Any, Any]], loss: Callable[[Tensor, Any], Tensor], view: str
) -> np.ndarray:
    """Return the gradients of a weight [rows, size], row number i being seen as instance i."""
    parameter = dict(model.named_parameters())[weight]
    gradients = []
    for place, (x, y) in enumerate(rows):
        with turnover.instances([place], view=view):
            (gradient,) = torch.autograd.grad(loss(model(x), y), parameter)
        gradients.append(gradient.flatten().double().numpy())
    return np.stack(gradients)


def twin_kernel(
    models: Sequence[nn.Module],
    weight: str,
    rows: Sequence[tuple[Any, Any]],
    loss: Callable[[Tensor, Any], Tensor],
    view: str = "full",
) -> np.ndarray:
    """Return the mean over models of the inner products of the gradients of a weight, [rows, rows]."""
    gradients = [twin_gradients(model, weight, rows, loss, view) for model in models]
    return np.mean([one @ one.T for one in gradients], axis=0)


def twin_influence_functions(
    models: Sequence[nn.Module],
    weight: str,
    rows: Sequence[tuple[Any, Any]],
    query: tuple[Any, Any],
    loss: Callable[[Tensor, Any], Tensor],
    view: str,
) -> np.ndarray:
    """Return influence functions [models, rows] of one weight on a query, of which the mean has the mean square one.

    The kernel is the mean over models, the damping its mean eigenvalue. The query is seen by the full network, and its
    gradient is divided by the length of the gradient with respect to the outputs.
    """
    kernel = twin_kernel(models, weight, rows, loss, view)
    damped = kernel + np.trace(kernel) / len(kernel) * np.eye(len(kernel))
    found = []
    for model in models:
        outputs = model(query[0])
        parameter = dict(model.named_parameters())[weight]
        gradient, error = torch.autograd.grad(loss(outputs, query[1]), [parameter, outputs])
        asked = (gradient / error.norm()).flatten().double().numpy()
        found.append(np.linalg.solve(damped, twin_gradients(model, weight, rows, loss, view) @ asked))
    return np.stack(found) / np.sqrt(np.square(np.mean(found, axis=0)).mean())


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
