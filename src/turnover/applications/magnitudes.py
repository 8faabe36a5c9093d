"""How strongly each training row acts at all, so that explanations can be relative to it."""

import numpy as np
from numpy.typing import NDArray

import turnover
from turnover.errors import ApplicationError
from turnover.scores import Scores

from .train_instances import TrainInstances


def row_magnitudes(influence: turnover.Influence, self_influence: Scores | None = None) -> NDArray[np.float32]:
    """Return the magnitude of every training instance, in the order of `influence.train_ids`.

    It is the root of the row's influence on itself. To first order a row's influence on a query is the product of two
    gradients, and its influence on itself the square of its own: divided by the root, what is left is how well the two
    go together (the relative influence of Barshan, Brunet and Dziugaite 2020). Outliers and wrong labels, whose
    gradient is large whatever the query, lose their advantage. Self-influence is the one score whose signal is far
    above its noise, and it takes one pass over the data however many queries are explained. Below the noise of
    never-trained ids it cannot be told from 0; there, the noise takes its place.

    Args:
        influence: with its training data.
        self_influence: that of the training data, where it is known already; None: it is computed.

    Example:
        >>> x, y = torch.randn(20, 4), torch.randint(2, (20,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(20)):
        ...     _ = net(x)  # training goes here
        >>> row_magnitudes(turnover.Influence(net, train=data)).shape
        (20,)
    """
    own = influence.self_influence(progress=False) if self_influence is None else self_influence
    known = TrainInstances(influence.train_ids, None)
    places = known.places(own.ids)
    if (places < 0).any() or len(np.unique(places)) < len(known):
        raise ApplicationError("self_influence is not that of the training data. Give influence.self_influence().")
    # Rows of one group share an id; the group's magnitude is that of its mean row.
    values = np.nan_to_num(own.values.astype(np.float64), nan=0.0)
    mean = np.bincount(places, values) / np.bincount(places)
    spread = own.null_spread
    floor = float(np.max(spread)) if spread is not None else float(np.median(np.abs(mean)))
    return np.sqrt(np.maximum(mean, max(floor, 1e-12))).astype(np.float32)
