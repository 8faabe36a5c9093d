"""Captum's interface for the influence of training data, over an `Influence`."""

from typing import Any

import numpy as np
import torch
from captum.influence import DataInfluence
from captum.influence._utils.common import KMostInfluentialResults  # what its own methods return; not offered above
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.influence import Influence


class CaptumDataInfluence(DataInfluence):
    """An `Influence` where captum's `DataInfluence` is expected, with the calls of its `TracInCP`.

    Positive: the training row helps the query, captum's "proponent"; negative: its "opponent". Rows are numbered in the
    order of the training data that `Influence` was given.

    Args:
        influence: with `train`.

    Attributes:
        model: the first of the models.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        >>> x, y = torch.randn(20, 4), torch.arange(20) % 2
        >>> estimator = turnover.influence.Curvature(temperature=1)  # of an untrained model; else leave it out
        >>> influence = turnover.Influence(net, train=(x, y), estimator=estimator)
        >>> proponents = CaptumDataInfluence(influence).influence((x[:3], y[:3]), k=5)
        >>> proponents.indices.shape, proponents.influence_scores.shape
        (torch.Size([3, 5]), torch.Size([3, 5]))
    """

    def __init__(self, influence: Influence) -> None:
        super().__init__()
        self._influence = influence
        self._ids = influence.train_ids
        self.model = influence.models[0]

    def influence(  # pyright: ignore[reportIncompatibleMethodOverride] - as captum's own methods have it
        self,
        inputs: Any,
        k: int | None = None,
        proponents: bool = True,
        show_progress: bool = False,
        aggregate: bool = False,
    ) -> Tensor | KMostInfluentialResults:
        """Return scores [queries, training rows]; with `k`, the numbers and scores of the highest or lowest.

        Args:
            inputs: a tuple of tensors, the last of them labels, or a DataLoader of such.
            k: how many rows per query; None: the scores of all.
            proponents: the k highest scores; False: the k lowest.
            show_progress: show a bar.
            aggregate: sums over the queries, [1, training rows].

        Raises:
            InfluenceError: k is below 1 or above the number of training rows.
        """
        if k is not None and not 1 <= k <= len(self._ids):
            raise InfluenceError(f"`k` must be an integer from 1 to {len(self._ids)}, the training rows, got {k}.")
        if k is None or aggregate:
            scores = self._influence.pairwise(inputs, progress=show_progress).to_torch().T
            scores = scores.sum(0, keepdim=True) if aggregate else scores
            if k is None:
                return scores
            values, rows = scores.topk(k, largest=proponents)
            return KMostInfluentialResults(rows, values)
        top = self._influence.top(inputs, k=k, progress=show_progress)
        ids, scores = (top.helpful_ids, top.helpful_scores) if proponents else (top.harmful_ids, top.harmful_scores)
        order = np.argsort(self._ids, kind="stable")
        rows = order[np.searchsorted(self._ids, ids, sorter=order)]
        return KMostInfluentialResults(torch.from_numpy(rows), torch.from_numpy(np.array(scores)))

    def self_influence(self, inputs: Any = None, show_progress: bool = False) -> Tensor:
        """Return the self-influence of every training row.

        Args:
            inputs: training rows with their ids; None: all of `train`.
            show_progress: show a bar.
        """
        return self._influence.self_influence(inputs, progress=show_progress).to_torch()
