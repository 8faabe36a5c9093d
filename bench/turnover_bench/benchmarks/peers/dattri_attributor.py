"""Turn-over dropout as an attributor of dattri, so that its metrics and benchmarks run on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from dattri.algorithm.base import BaseAttributor
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler

from turnover.batches import carries_ids, with_instance_ids
from turnover.errors import InfluenceError
from turnover.influence import Influence
from turnover.layers import find_root


class DattriAttributor(BaseAttributor):
    """An attributor of dattri that asks an `Influence`.

    Loaders are those that dattri's own attributors take: not shuffled, rows (inputs, target). Rows of a model with
    masks were trained under their numbers in the data set, as `turnover.with_instance_ids(dataset)` gives them, or
    carry ids of their own.

    Args:
        model: a trained model, with masks or without, or several.
        options: those of `Influence`, such as `loss` and `estimator`.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        >>> rows = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.arange(20) % 2)
        >>> train, test = DataLoader(rows, batch_size=8), DataLoader(rows, batch_size=3, sampler=range(6))
        >>> estimator = turnover.influence.Curvature(temperature=1)  # of an untrained model; else leave it out
        >>> attributor = DattriAttributor(net, estimator=estimator)
        >>> attributor.cache(train)
        >>> attributor.attribute(train, test).shape
        torch.Size([20, 6])
    """

    def __init__(self, model: nn.Module | Sequence[nn.Module], **options: Any) -> None:
        self._model, self._options = model, options
        self._dataset: Any = None
        self._influence: Influence | None = None

    def cache(self, full_train_dataloader: DataLoader[Any]) -> None:
        """Take the training rows; what the estimator fits on them is fitted at the first question."""
        self._dataset = full_train_dataloader.dataset
        models = [self._model] if isinstance(self._model, nn.Module) else self._model
        numbered = find_root(models[0]) is None or carries_ids(self._dataset)
        rows = self._dataset if numbered else with_instance_ids(self._dataset)
        self._influence = Influence(self._model, train=rows, **self._options)

    def attribute(self, train_dataloader: DataLoader[Any], test_dataloader: DataLoader[Any]) -> Tensor:
        """Return scores [training rows, test rows], positive where a row helps.

        Args:
            train_dataloader: over the data set that was cached, or some of its rows by a sampler.
            test_dataloader: of queries.
        """
        influence, ids = self._asked(train_dataloader)
        return influence.pairwise(test_dataloader, ids=ids, progress=False).to_torch()

    def self_attribute(self, train_dataloader: DataLoader[Any]) -> Tensor:
        """Return the self-influence of the rows of a loader; arguments as for `attribute`."""
        influence, ids = self._asked(train_dataloader)
        scores = influence.self_influence(progress=False)
        return scores.to_torch()[torch.from_numpy(np.searchsorted(scores.ids, ids))]

    def _asked(self, loader: DataLoader[Any]) -> tuple[Influence, np.ndarray]:
        """Return who is asked, and the ids of a loader's rows in their order."""
        if self._influence is None:
            raise InfluenceError("no training rows are known yet. Call cache(full_train_dataloader) first.")
        if loader.dataset is not self._dataset:
            raise InfluenceError(
                "the loader of training rows is of another data set than the one that was cached. Give a loader over "
                "the same data set; for some of its rows, with a sampler."
            )
        if isinstance(loader.sampler, RandomSampler):
            raise InfluenceError(
                "the loader of training rows is shuffled, so that scores have no order. Give one without."
            )
        ids = self._influence.train_ids
        if len(ids) != len(self._dataset):
            raise InfluenceError(
                f"{len(self._dataset)} rows share {len(ids)} ids, and dattri asks about rows. Give each row its own id."
            )
        return self._influence, ids[np.fromiter(loader.sampler, np.int64)]
