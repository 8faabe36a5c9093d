"""Products of vectors with the Hessian of a mean loss, by differentiating twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from turnover.errors import BaselineError

from .progress_bar import progress_bar
from .row_gradients import RowLosses, no_vmap_warnings

_ROWS_AT_ONCE = 256
_VECTORS_AT_ONCE = 32
_UNIT = "Hessian products"


class Hessian:
    """The Hessian of the mean loss of all rows, plus `shift` times the identity.

    Args:
        losses: the rows and the parameters.
        shift: what is added to the diagonal: L2 penalty and damping.
    """

    def __init__(self, losses: RowLosses, shift: float) -> None:
        self.losses = losses
        self.shift = shift
        self.rows = torch.arange(len(losses.recipe))
        self.size = losses.size
        self.like = losses.like
        self._batched = True
        self._bar = progress_bar(False, unit=_UNIT)

    @contextmanager
    def shown(self, progress: bool | None) -> Iterator[None]:
        """Count the products on a bar; None: on a terminal only."""
        with progress_bar(progress, unit=_UNIT) as self._bar:
            yield

    def times(self, vectors: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the products [k, parameters] with vectors [k, parameters]; `rows`: of the mean loss of these only."""
        rows = self.rows if rows is None else rows
        total = torch.zeros_like(vectors)
        for part in rows.split(_ROWS_AT_ONCE):
            found = self._of_sum(vectors, part)
            if not bool(found.isfinite().all()):
                raise BaselineError(
                    f"Hessian products are not finite on rows {int(part[0])} to {int(part[-1])}: the loss has no "
                    "finite second derivative there (NaN weights, log or sqrt of zero). Check these rows and the "
                    "trained model, or choose parameters=."
                )
            total += found
        self._bar.update(len(vectors))
        return total / len(rows) + self.shift * vectors

    def _of_sum(self, vectors: Tensor, rows: Tensor) -> Tensor:
        """Return products with the Hessian of the rows' summed loss; the first derivative serves all vectors."""
        leaves = [value.requires_grad_() for value in self.losses.parameters().values()]
        named = dict(zip(self.losses.names, leaves, strict=True))
        loss = self.losses.losses(named, rows).sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
        # A parameter in which the loss is linear has a first derivative without a history.
        curved = [place for place, one in enumerate(first) if one.requires_grad]
        if not curved:
            return torch.zeros_like(vectors)
        outputs = [first[place] for place in curved]
        products: list[Tensor] = []
        for part in vectors.split(_VECTORS_AT_ONCE):
            given = self.losses.split(part)
            products.append(self._second(outputs, leaves, [given[place] for place in curved], len(part)))
        return torch.cat(products)

    def _second(self, outputs: list[Tensor], leaves: list[Tensor], given: list[Tensor], count: int) -> Tensor:
        if self._batched:
            try:
                with no_vmap_warnings():
                    found = torch.autograd.grad(
                        outputs, leaves, given, retain_graph=True, allow_unused=True, is_grads_batched=True
                    )
                return _flat(found, leaves, count)
            except RuntimeError:  # an operator without a rule for vmap
                self._batched = False
        rows = [
            _flat(
                [
                    None if one is None else one[None]
                    for one in torch.autograd.grad(
                        outputs, leaves, [vector[place] for vector in given], retain_graph=True, allow_unused=True
                    )
                ],
                leaves,
                1,
            )
            for place in range(count)
        ]
        return torch.cat(rows)


def _flat(found: "tuple[Tensor | None, ...] | list[Tensor | None]", leaves: list[Tensor], count: int) -> Tensor:
    """Return products [count, parameters]; None: the parameter plays no part."""
    return torch.cat(
        [
            leaf.new_zeros(count, leaf.numel()) if one is None else one.reshape(count, -1)
            for one, leaf in zip(found, leaves, strict=True)
        ],
        dim=1,
    ).detach()
