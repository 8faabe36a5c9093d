"""Influence functions of the layers that scores are fitted on: a second opinion beside turn-over dropout.

With the kernel K of the training instances' gradients and its products k with a query's, the influence function of
these layers is (K + μ)⁻¹ k; μ is the mean eigenvalue. The instances are seen twice: by the half that never learned
them, whose gradient says what a row had to teach, and by the full network, whose gradient says what it still would. A
query's gradient is scaled to length one in each model, so that only its direction counts: how far it moves, scores say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from turnover.batches import Batch
from turnover.influence.paths.forward import Pass
from turnover.influence.train import TrainRows

from .features import Outer
from .features_stream import FeatureStream
from .ridge import Ridge
from .ridge_basis import Basis, find_basis


@dataclass(frozen=True)
class Views:
    """The training instances as features, in one view of the network or in two.

    Attributes:
        streams: their features, of the view that scores are fitted on first.
        bases: the directions in which each is shrunk.
    """

    streams: tuple[FeatureStream, ...]
    bases: tuple[Basis, ...]


def find_views(works: Sequence[Pass], train: TrainRows, ridge: Ridge, memory: int) -> Views:
    """Return the views that a denoising needs: one for the fit, another where gradients count too."""
    both = ridge.gradients > 0 and ridge.features is None
    wanted = [ridge, replace(ridge, view="full" if ridge.view == "flip" else "flip")] if both else [ridge]
    streams = tuple(FeatureStream(works, train, one) for one in wanted)
    bases = tuple(find_basis(stream, one, memory) for stream, one in zip(streams, wanted, strict=True))
    return Views(streams, bases)


def influence_coordinates(views: Views, queries: Sequence[Batch]) -> list[np.ndarray]:
    """Return influence functions in the basis of each view, [k, members, queries].

    The root mean square over all instances of their mean over members is one for every query.
    """
    outers = views.streams[0].of_queries(queries)
    return [_in_basis(basis, outers, views.streams[0].members) for basis in views.bases]


def _in_basis(basis: Basis, outers: Sequence[Outer], members: int) -> np.ndarray:
    each = len(outers) // members
    asked = np.stack([basis.asked(slot, outer) for slot, outer in enumerate(outers)], 1)
    by_member = members * asked.reshape(len(asked), members, each, -1).sum(2)
    damped = basis.spectrum / (basis.spectrum + basis.spectrum.sum() / basis.count)
    found = damped[:, None, None] * by_member
    size = root_mean_square(found.mean(1), basis.count)
    return found / np.where(size > 0, size, np.inf)


def root_mean_square(coordinates: np.ndarray, count: int) -> np.ndarray:
    """Return the root mean square [queries] over instances of scores with these coordinates [k, queries]."""
    return np.sqrt(np.square(coordinates).sum(0) / count)
