"""Methods of captum: TracInCP (Pruthi et al. 2020), Arnoldi influence functions (Schioppa et al. 2022), similarity."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError
from turnover.training import TrainingRecipe

from .package_method import PackageMethod, State, tensors_of


class _Captum(PackageMethod):
    package = distribution = "captum"

    def _options(self) -> dict[str, Any]:
        # TracIn weighs checkpoints by the learning rate: that with which the optimizer starts.
        rate = float(self._recipe.optimizer(self._model.parameters()).param_groups[0]["lr"])

        def load(model: nn.Module, state: State) -> float:
            model.load_state_dict(state)
            model.eval()
            return rate

        return {"checkpoints_load_func": load, "loss_fn": _SummedLoss(self), "batch_size": self._at_once}

    def _answers(self, queries: TrainingRecipe | None) -> np.ndarray:
        method = self._method()
        answer = method.self_influence() if queries is None else method.influence(tensors_of(queries)).T
        return np.asarray(answer.detach().float())

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        return self._answers(queries)

    def _own(self) -> np.ndarray:
        return self._answers(None)

    @abstractmethod
    def _method(self) -> Any:
        """Return captum's object, with the training rows and checkpoints."""


class _SummedLoss(nn.Module):
    """The sum of the rows' losses, and the attribute by which captum knows that it is one."""

    reduction = "sum"

    def __init__(self, method: PackageMethod) -> None:
        super().__init__()
        self._losses = method._losses

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._losses(outputs, targets).sum()


class CaptumTracIn(_Captum):
    """TracInCP of captum over the given checkpoints of one training.

    Args:
        recipe: rows, loss and model.
        weights: checkpoints of one training.
        seed: not used.
        fast: its TracInCPFast: gradients of the last layer only.
    """

    title = "TracInCP"

    def __init__(self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, fast: bool = False) -> None:
        super().__init__(recipe, weights, seed=seed)
        self._fast = fast

    def _method(self) -> Any:
        from captum.influence import TracInCP, TracInCPFast

        checkpoints: Any = list(self.weights)  # captum's types say paths, its text says anything that `load` can load
        if self._fast:
            return TracInCPFast(self._model, _leaves(self._model)[-1][1], self._rows, checkpoints, **self._options())
        return TracInCP(self._model, self._rows, checkpoints, **self._options(), sample_wise_grads_per_batch=True)


class CaptumArnoldi(_Captum):
    """Influence functions of captum by Arnoldi iteration, with its defaults; the last of the weights count."""

    title = "Arnoldi influence functions"

    def _method(self) -> Any:
        from captum.influence._core.arnoldi_influence_function import ArnoldiInfluenceFunction  # not offered above

        final: Any = self.weights[-1]  # its types say a path
        how = self._options()
        return ArnoldiInfluenceFunction(
            self._model, self._rows, final, **how, sample_wise_grads_per_batch=True, seed=self._seed
        )


class CaptumSimilarity(PackageMethod):
    """Cosine similarity of the last hidden layer by captum, which knows no labels and has no self-influence."""

    package = distribution = "captum"
    title = "cosine similarity"
    has_self_influence = False

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        from captum.influence import SimilarityInfluence

        names = [name for name, _ in _leaves(self._model)]
        if len(names) < 2:
            raise BaselineError("similarity needs a hidden layer, and this model has none. Use another method.")
        count, (hidden, last) = len(self._rows), names[-2:]
        # In one batch: it asks a last, smaller one for as many rows as the others have. Of two layers: with one it
        # fails (captum 0.9.0).
        method = SimilarityInfluence(self._model, [hidden, last], self._rows, self.scratch, batch_size=count)
        order, values = method.influence(tensors_of(queries)[0], top_k=count)[hidden]
        return torch.zeros_like(values).scatter(1, order, values).T.detach().numpy()


def _leaves(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the modules without children, in order."""
    return [(name, part) for name, part in model.named_modules() if not list(part.children())]
