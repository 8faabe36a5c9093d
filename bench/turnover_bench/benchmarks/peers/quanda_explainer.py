"""Turn-over dropout as an explainer of quanda, so that its metrics and benchmarks run on it."""

from typing import Any, ClassVar

import torch
from quanda.explainers import Explainer  # pyright: ignore[reportMissingImports] - it needs its own environment
from torch import Tensor, nn

from turnover.batches import with_instance_ids
from turnover.influence import Influence
from turnover.layers import find_root


class QuandaExplainer(Explainer):
    """An explainer of quanda that asks an `Influence`.

    Rows of a model with masks were trained under their numbers in the data set, as
    `turnover.with_instance_ids(train_dataset)` gives them.

    Args:
        model: a trained model, with masks or without.
        train_dataset: of rows (inputs, target).
        task: a classification.
        checkpoints: paths to weights, of which the last is loaded; None: as the model is.
        checkpoints_load_func: as for all explainers of quanda.
        options: those of `Influence`, such as `estimator`.
    """

    accepted_tasks: ClassVar[list[Any]] = ["image_classification", "text_classification"]

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Any,
        task: Any = "image_classification",
        checkpoints: Any = None,
        checkpoints_load_func: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(model, train_dataset, task, checkpoints, checkpoints_load_func)
        if self.checkpoints:
            self.load_last_checkpoint()
        # Of the data set itself: the numbers of its rows are those of the training.
        rows = train_dataset if find_root(model) is None else with_instance_ids(train_dataset)
        self._influence = Influence(model, train=rows, **options)

    def explain(self, test_data: Tensor, targets: Any) -> Tensor:
        """Return scores [test rows, training rows], positive where a row helps."""
        labels = torch.as_tensor(targets, device=test_data.device)
        return self._influence.pairwise((test_data, labels), progress=False).to_torch().T

    def self_influence(self, batch_size: int = 32) -> Tensor:
        return self._influence.self_influence(progress=False).to_torch()
