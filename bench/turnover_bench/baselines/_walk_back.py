"""From the end of a recorded training back to its beginning: the derivative of query losses by the weight of each row.

With g the gradient of a batch's mean loss plus weight decay, a step of SGD with momentum m is

    b' = m b + (1 - dampening) g            θ' = θ - lr d,   d = b'   (nesterov: g + m b'; no momentum: g)

and with u, v the derivatives of a query's loss by θ' and b', walking back over it gives

    V = v - lr [∂d/∂b'] u                   all that the query's loss feels of b'
    G = (1 - dampening) V - lr [∂d/∂g] u    and of g
    u ← u + H G + weight_decay G            v ← m V,   H the Hessian of the batch's mean loss
    score of row i += -<G, g_i> / |batch|

A row that is left out has weight 0 instead of 1, so its score is minus the derivative. Without momentum G = -lr u, and
this is the algorithm of Hara et al. The divisor is that of the full batch: the place of a row stays empty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from turnover.errors import BaselineError
from turnover.training import TrainingRecipe, seed_step

from ._sgd_recording import Recording, build_checked, place_parameters, trained_parameters
from .row_gradients import RowLosses, vector_products


@dataclass(frozen=True)
class _Factors:
    """A step as a linear map, one number per parameter: b' = keep·b + take·g, d = direct·g + through·b'."""

    lr: Tensor
    decay: Tensor
    keep: Tensor
    take: Tensor
    direct: Tensor
    through: Tensor


def walk_back(
    recipe: TrainingRecipe,
    recording: Recording,
    starts: Tensor,
    *,
    first: int,
    on_step: Callable[[int], Any] = lambda queries: None,
) -> Tensor:
    """Return scores of all rows, float64 [rows, queries], by walking from the last step to the step `first`.

    It starts from the gradients of the queries' losses at the trained parameters, [queries, parameters].
    """
    model = build_checked(recipe, recording.seed)
    parameters, groups = trained_parameters(recipe, model)
    sizes = torch.tensor([parameter.numel() for parameter in parameters])
    group_of = torch.tensor(groups).repeat_interleave(sizes)
    scores = torch.zeros(len(recipe), len(starts), dtype=torch.float64)
    by_theta, by_velocity = starts, torch.zeros_like(starts)
    batched = True
    with torch.random.fork_rng(devices=[]), sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        for step in range(len(recording.batches) - 1, first - 1, -1):
            batch = recording.batches[step]
            place_parameters(parameters, recording.before(step))
            factors = _factors(recording.settings, step, group_of, starts)
            all_velocity = by_velocity - factors.lr * factors.through * by_theta
            by_gradient = factors.take * all_velocity - factors.lr * factors.direct * by_theta
            seed_step(recording.seed, step)
            losses = recipe.losses(model, batch)
            dots, curved, batched = _products(losses, parameters, by_gradient, batched)
            by_theta = by_theta + curved + factors.decay * by_gradient
            by_velocity = factors.keep * all_velocity
            scores.index_add_(0, batch, -dots.T.cpu().double() / len(batch))
            if not bool(by_theta.isfinite().all()):
                raise BaselineError(
                    f"walking back, the derivatives are no longer finite at step {step} of {len(recording.batches)}. "
                    "Lower the learning rate, or walk back fewer epochs: last_epochs=1."
                )
            on_step(len(starts))
    return scores


def query_gradients(recipe: TrainingRecipe, recording: Recording, queries: TrainingRecipe, rows: Tensor) -> Tensor:
    """Return gradients of the losses of some rows of `queries` at the trained parameters, [rows, parameters]."""
    model = build_checked(recipe, recording.seed).eval()
    parameters, _ = trained_parameters(recipe, model)
    place_parameters(parameters, recording.before(len(recording.batches)))
    changed = {id(parameter) for parameter in parameters}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in changed]
    return RowLosses(queries, model, names).stacked(rows)


def _products(
    losses: Tensor, parameters: list[nn.Parameter], vectors: Tensor, batched: bool
) -> tuple[Tensor, Tensor, bool]:
    """Return <vector, g_i> for the rows of a batch, the batch's Hessian times the vectors, and whether all at once.

    Both come from one backward pass: the gradient of Σ weight_i loss_i, times a vector, is linear in the weights, so
    its derivative by them are the products with each row's own gradient.
    """
    weights = torch.full_like(losses, 1 / len(losses)).requires_grad_()
    gradients = torch.autograd.grad(weights @ losses, parameters, create_graph=True, allow_unused=True)
    parts = vectors.split([parameter.numel() for parameter in parameters], 1)
    used = [
        (gradient, part.view(len(vectors), *gradient.shape))
        for gradient, part in zip(gradients, parts, strict=True)
        if gradient is not None
    ]
    (dots, *curved), batched = vector_products(
        [gradient for gradient, _ in used], [weights, *parameters], [part for _, part in used], batched=batched
    )
    return dots, torch.cat([part.flatten(1) for part in curved], 1), batched


def _factors(settings: np.ndarray, step: int, group_of: Tensor, like: Tensor) -> _Factors:
    """Return a step's factors for every parameter."""
    lr, momentum, dampening, decay, nesterov = settings[step].T
    moves = momentum != 0
    # torch's first velocity is the gradient itself, whatever the dampening.
    begins = moves & ~(settings[:step, :, 1] != 0).any(0)
    by_group = [
        lr,
        decay,
        np.where(moves, momentum, 1.0),
        np.where(moves, np.where(begins, 1.0, 1 - dampening), 0.0),
        np.where(moves, nesterov, 1.0),
        np.where(moves, np.where(nesterov != 0, momentum, 1.0), 0.0),
    ]
    values = [torch.as_tensor(value).to(like) for value in by_group]
    if len(lr) > 1:
        values = [value[group_of.to(value.device)] for value in values]
    return _Factors(*values)
