"""The temperature of a network's outputs, found on its training rows, and what is differentiated at that temperature.

A network that was trained with masks is overconfident in full view, and one that was trained for long is so on its
training rows: their residuals vanish, and with them their gradients. At the temperature at which the training rows are
predicted best, and somewhat above it, residuals say again what the network knows.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from turnover.batches import IGNORED, default_loss
from turnover.errors import InfluenceError
from turnover.influence.measures import Measure

_WARMER = 1.25
_LOWEST, _HIGHEST, _STEPS = 1 / 16, 16.0, 33
_CLASSES_AT_ONCE, _DRAWN_CLASSES = 32, 8
FisherPart = Literal["whole", "leading", "rest"]
TEMPERATURES = torch.from_numpy(np.geomspace(_LOWEST, _HIGHEST, _STEPS)).float()


def is_classification(outputs: Tensor, targets: Any) -> bool:
    """Tell whether outputs are class scores: integer targets, one for every list of two classes or more.

    One number for two classes is not: what it means, only the given loss knows.
    """
    integers = isinstance(targets, Tensor) and not targets.is_floating_point()
    return integers and outputs.dim() == targets.dim() + 1 and outputs.shape[-1] > 1


def losses_by_temperature(outputs: Tensor, targets: Any) -> Tensor:
    """Return the summed cross-entropy of rows [2, temperatures + 1]: with their labels, and with all classes alike.

    The last number of each is how many rows counted. NaN: outputs are not classes.
    """
    if not is_classification(outputs, targets):
        return torch.full((2, len(TEMPERATURES) + 1), torch.nan)
    scores, labels = outputs.flatten(0, -2), targets.flatten().long()
    scores, labels = scores[labels != IGNORED], labels[labels != IGNORED]
    sums = []
    for value in TEMPERATURES:
        logs = functional.log_softmax(scores / float(value), -1)
        sums.append(torch.stack([-logs.gather(1, labels[:, None]).sum(), -logs.mean(1).sum()]))
    return torch.cat([torch.stack(sums, 1), torch.full((2, 1), float(len(labels)), device=outputs.device)], 1).cpu()


def best_temperature(sums: Tensor, classes: int) -> float | None:
    """Return the temperature with the lowest loss, between those that were tried; None: it lies at their end.

    Of outputs that are not classes it is 1. Labels are smoothed as by Platt (1999), as if every class had one row more:
    otherwise a network that predicts every training row correctly would be the better the colder it is.
    """
    if bool(sums[0, -1].isnan()):
        return 1.0
    rows = float(sums[0, -1])
    smoothing = 1 / (rows / classes + 2)
    losses = (1 - smoothing) * sums[0, :-1] + smoothing * sums[1, :-1]
    place = int(losses.argmin())
    if place in (0, len(losses) - 1) or not bool(losses.isfinite().all()):
        return None
    before, here, after = losses[place - 1 : place + 2].tolist()
    bend = before - 2 * here + after
    step = float((TEMPERATURES[1] / TEMPERATURES[0]).log())
    shift = 0.5 * (before - after) / bend if bend > 0 else 0.0
    return float(TEMPERATURES[place]) * float(np.exp(shift * step)) * _WARMER


@dataclass(frozen=True)
class Objectives:
    """What is differentiated: the loss of training rows, what gives their Fisher matrix, the measure of queries."""

    measure: Measure
    temperature: float = 1.0

    def rows(self, outputs: Tensor, targets: Any) -> Tensor:
        """Return the training loss of every row."""
        try:
            losses = (self.measure.loss or default_loss(targets))(self._cooled(outputs, targets), targets)
        except Exception as error:
            raise InfluenceError(
                f"curvature needs the loss of training rows, and it failed there ({error}). Give train= rows with "
                "labels, and loss=lambda outputs, targets: ..., which returns one value per row."
            ) from error
        return losses.flatten(1).mean(1) if losses.dim() > 1 else losses

    def fisher(self, outputs: Tensor, targets: Any, generator: torch.Generator, part: FisherPart = "whole") -> Tensor:
        """Return a function of every row whose gradient g has, on average, the Fisher matrix of the row as g gᵀ.

        The Fisher matrix is the mean of squared gradients over labels as the network itself predicts them. A label that
        is drawn gives it on average, but a network that is certain hardly ever draws another label than its own. So
        the gradients of all classes (of many classes, some) are added up, each by the root of its probability and
        with a random sign: products of different classes cancel on average, and no class is missed. Where two
        backward passes are made, and classes are few, one takes the leading direction of these gradients, in which
        most of them lie, as it is, and the other the rest with random signs: the mean of both squares is the Fisher
        matrix again. Where the form of targets is not known, it is the gradient at the given ones (the empirical
        Fisher matrix).
        """
        if is_classification(outputs, targets):
            return (outputs * self._signed_gradient(outputs.detach(), targets, generator, part)).flatten(1).sum(1)
        if isinstance(targets, Tensor) and targets.is_floating_point() and targets.numel() == outputs.numel():
            noise = torch.randn(targets.shape, generator=generator).to(targets)
            return self.rows(outputs, outputs.detach().reshape(targets.shape).to(targets) + noise)
        return self.rows(outputs, targets)

    def _signed_gradient(
        self, outputs: Tensor, targets: Tensor, generator: torch.Generator, part: FisherPart
    ) -> Tensor:
        probs = self._cooled(outputs, targets).softmax(-1).flatten(0, -2).cpu()
        count, classes = probs.shape
        if classes > _CLASSES_AT_ONCE:  # drawn by the roots of their probabilities, so that unlikely ones come up
            proposals = probs.sqrt() / probs.sqrt().sum(1, keepdim=True)
            labels = torch.multinomial(proposals, _DRAWN_CLASSES, replacement=True, generator=generator)
            weights = (probs.gather(1, labels) / (_DRAWN_CLASSES * proposals.gather(1, labels))).sqrt()
            part = "whole"
        else:
            labels, weights = torch.arange(classes).expand(count, classes), probs.sqrt()
        signs = 2.0 * torch.randint(2, weights.shape, generator=generator) - 1
        by_label = (
            weight.view(*targets.shape, 1).to(outputs) * self._gradient_at(label, outputs, targets)
            for label, weight in zip(labels.T, (signs * weights).T, strict=True)
        )
        if part == "whole":
            return sum(by_label, torch.zeros_like(outputs))
        signed = torch.stack(list(by_label), -2)
        # Signs only turn the directions; their sum over labels is the same random one as above.
        direction = torch.linalg.eigh(signed @ signed.transpose(-1, -2)).eigenvectors[..., -1:]
        leading = (direction * signed).sum(-2)
        return 2**0.5 * (leading if part == "leading" else signed.sum(-2) - direction.sum(-2) * leading)

    def _gradient_at(self, label: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the gradient of the loss at outputs if every row had one of these labels."""
        leaf = outputs.clone().requires_grad_(True)
        placed = label.view(targets.shape).to(targets)
        with torch.enable_grad():
            loss = self.rows(leaf, torch.where(targets == IGNORED, targets, placed)).sum()
        return torch.autograd.grad(loss, leaf)[0]

    def queries(self, outputs: Tensor, targets: Any) -> Tensor:
        return -self.measure.values(self._cooled(outputs, targets), targets)

    def _cooled(self, outputs: Tensor, targets: Any) -> Tensor:
        return outputs / self.temperature if is_classification(outputs, targets) else outputs
