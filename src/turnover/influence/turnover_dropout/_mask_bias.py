"""Mask-bias correction: what a mask does to any output, measured on reference examples and subtracted.

Two subnetworks differ whatever their input is, and a row's mask is the same in every epoch, so that labels are learned
from masks too: the units that a row keeps come to favor its label, and its flipped subnetwork, which has all the
others, disfavors it. It does so for other rows as well: the mean output of a flipped subnetwork for reference examples,
beside that of other masks for the same examples, is the bias of its mask.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.batches import Batch
from turnover.errors import InfluenceError
from turnover.influence._rows import TrainRows
from turnover.progress import progress_bar

from ._subnetworks import Chunk, Subnetworks

_MOST_AT_ONCE = 512
_COMPARED = 256  # masks that each is compared with


@dataclass(frozen=True)
class MaskBias:
    """Corrects outputs of flipped subnetworks for the bias of their masks."""

    networks: Sequence[Subnetworks]  # one per network
    references: Sequence[Batch]  # single rows that the flipped subnetworks of others predict, with their ids
    compared: Tensor  # ids of the masks that each is compared with; always the same, whichever rows are corrected
    memory: int
    progress: bool | None

    @classmethod
    def of(
        cls, networks: Sequence[Subnetworks], rows: TrainRows, count: int, *, memory: int, progress: bool | None
    ) -> "MaskBias":
        """Return one with references and masks that are spread evenly over the data, which must be readable twice."""
        if not rows.can_be_read_again:
            raise InfluenceError(
                f"references={count} reads the rows twice, and an iterator gives them once. Give a Dataset, a "
                "DataLoader or tensors."
            )
        references = _spread(rows, count)
        if len(references) < 2:
            raise InfluenceError(
                f"references={count} needs two rows or more, and the data has {len(references)}. Give train= with "
                "more, or leave references at 0."
            )
        return cls(networks, references, rows.ids[_evenly(len(rows.ids), _COMPARED)], memory, progress)

    def check(self, outputs: Tensor) -> None:
        """Raise where outputs [networks, rows, ...] are something else than one vector per row."""
        if outputs.dim() != 3:
            raise InfluenceError(
                f"references={len(self.references)} needs one vector of outputs per row, and the model gives "
                f"{list(outputs.shape[2:]) or 'one number'} for each. Leave references at 0."
            )

    def corrected(self, outputs: Tensor, ids: Tensor, *, classes: bool) -> Tensor:
        """Return outputs [networks, rows, outputs] of flipped subnetworks without the bias of the masks of ids [rows].

        With `classes`, outputs are class scores, of which only differences count.
        """
        unique, place = np.unique(ids.numpy(), return_inverse=True)
        corrected = outputs.clone()
        with progress_bar(len(self.networks) * len(unique), self.progress, "masks") as bar:
            for network, subnetworks in enumerate(self.networks):
                bias = self._bias(subnetworks, torch.from_numpy(unique), bar, classes=classes)
                corrected[network] -= bias[torch.from_numpy(place)].float()
        return corrected

    def _bias(self, subnetworks: Subnetworks, ids: Tensor, bar: Any, *, classes: bool) -> Tensor:
        """Return the bias of the masks of ids in one network, [ids, outputs].

        The mean over a few references is partly what these rows are. As much of it counts as is not explained by how
        far the references differ.
        """
        device = subnetworks.member.device
        references = [row.to(device) for row in self.references]
        subnetworks = replace(subnetworks, broadcast=subnetworks.broadcasts(references[:1]))
        outputs_of = partial(
            _outputs,
            subnetworks,
            references,
            at_once=_at_once(subnetworks, references[0], self.memory),
            classes=classes,
        )
        compared = torch.cat([outputs for _, outputs in outputs_of(self.compared)], 1)
        usable = compared.isfinite().all(2).all(1)  # of a row on which the network fails nothing can be learned
        center = compared.mean(1, keepdim=True)  # the mean over masks is the row's own
        compared = (compared - center)[usable]
        if len(compared) < 2:
            return torch.zeros(len(ids), compared.shape[-1], dtype=torch.float64)
        power, noise = compared.mean(0).square().mean(), compared.var(0).mean() / len(compared)
        share = ((power - noise) / power).clamp(0, 1) if power > 0 else power
        reference_ids = torch.stack([_id_of(row) for row in self.references])
        biases = []
        for part, outputs in outputs_of(ids):
            # No row is its own reference.
            counted = (usable[:, None] & (reference_ids[:, None] != part[None])).double()[..., None]
            differences = torch.where(counted > 0, outputs - center, 0.0)
            biases.append(share * differences.sum(0) / counted.sum(0).clamp(min=1))
            bar.update(len(part))
        return torch.cat(biases)


def check_references(references: Any) -> int:
    """Return the number of references, or raise."""
    integer = isinstance(references, int | np.integer) and not isinstance(references, bool)
    if not integer or references < 0 or references == 1:
        raise InfluenceError(
            f"references must be 0, as in the paper, or an integer >= 2, got {references!r}. Give references=32."
        )
    return int(references)


def _at_once(subnetworks: Subnetworks, row: Batch, memory: int) -> int:
    """Return how many ids are computed at once."""

    def compute(ids: Tensor) -> None:
        chunk = Chunk(ids, ("flip",))
        with chunk:
            subnetworks.outputs(row, chunk)

    return min(_MOST_AT_ONCE, subnetworks.ids_per_chunk(memory, compute))


def _outputs(
    subnetworks: Subnetworks, references: Sequence[Batch], ids: Tensor, *, at_once: int, classes: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield some ids and their flipped subnetworks' outputs for all references, [references, ids, outputs]."""
    for part in ids.split(at_once):
        chunk = Chunk(part, ("flip",))
        with chunk:  # masks are made once for all references
            outputs = torch.stack([subnetworks.outputs(row, chunk).float() for row in references]).cpu().double()
        if classes and outputs.shape[-1] > 1:
            outputs = outputs - outputs.mean(-1, keepdim=True)
        yield part, outputs


def _spread(rows: TrainRows, count: int) -> list[Batch]:
    """Return so many rows, spread evenly over data of any length, in one pass; all of them where there are no more."""
    kept: list[Batch] = []
    stride, place = 1, 0
    for batch in rows.batches():
        for row in range(batch.rows):
            if place % stride == 0:
                kept.append(batch.row(row))
            place += 1
            if len(kept) > 2 * count:  # every second one is enough
                kept, stride = kept[::2], 2 * stride
    return [kept[place] for place in _evenly(len(kept), count)]


def _evenly(length: int, count: int) -> list[int]:
    return np.linspace(0, max(length - 1, 0), min(count, length)).astype(int).tolist()


def _id_of(row: Batch) -> Tensor:
    if row.ids is None:
        raise InfluenceError("the data has no instance ids. Give turnover.with_instance_ids(dataset).")
    return row.ids[0].cpu()
