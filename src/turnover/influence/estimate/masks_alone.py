"""What a mask says by itself, measured on other rows and taken off what is said of the row that it belongs to.

Two halves of a network differ whatever they are shown, and a row's mask is the same in every epoch, so that labels are
learned from masks too: the units that a row keeps come to speak for its label, and its flipped part, which has all the
others, against it. Shown other rows, a flipped part says the same of them: the mean of what it says, beside what other
masks say of the same rows, is what its mask says.
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
from turnover.influence.paths.chunk import Chunk
from turnover.influence.paths.forward import Pass, grown_or_repeated, outputs_of
from turnover.influence.paths.generic import ids_that_fit
from turnover.influence.paths.peak import PeakMemory
from turnover.influence.progress import Progress
from turnover.influence.train import TrainRows

_MOST_AT_ONCE = 512
_BESIDE = 256  # masks that each is compared with


def check_references(references: Any) -> int:
    """Return the number of references, or raise."""
    whole = isinstance(references, int | np.integer) and not isinstance(references, bool)
    if not whole or references < 0 or references == 1:
        raise InfluenceError(
            f"references={references!r} is no number of rows. Give 0, as in the paper, or 2 or more: references=32."
        )
    return int(references)


@dataclass(frozen=True)
class MasksAlone:
    """Tells what masks say by themselves.

    Attributes:
        works: one a network.
        references: single rows that are shown to the flipped parts of others, with their ids.
        beside: ids of the masks that each is compared with; always the same, whichever rows are asked about.
        memory: for the ids that are computed at once, in bytes.
        progress: show a bar; None: on a terminal.
    """

    works: Sequence[Pass]
    references: Sequence[Batch]
    beside: Tensor
    memory: int
    progress: bool | None

    @classmethod
    def of(
        cls, works: Sequence[Pass], rows: TrainRows, count: int, *, memory: int, progress: bool | None
    ) -> "MasksAlone":
        """Return one with rows and masks that are spread evenly over the data.

        Raises:
            InfluenceError: the rows can be read only once, or there are fewer than two.
        """
        if rows.once:
            raise InfluenceError(
                f"references={count} reads the rows twice, and an iterator gives them once. Give a Dataset, a "
                "DataLoader or tensors."
            )
        found = _spread(rows, count)
        if len(found) < 2:
            raise InfluenceError(
                f"references={count} needs two rows or more, and the data has {len(found)}. Give train= with more, or "
                "leave references at 0."
            )
        ids = rows.ids
        return cls(works, found, ids[_evenly(len(ids), _BESIDE)], memory, progress)

    def check(self, outputs: Tensor) -> None:
        """Raise where outputs [networks, rows, ...] are something else than one vector a row."""
        if outputs.dim() != 3:
            raise InfluenceError(
                f"references={len(self.references)} needs one vector of outputs a row, and the model gives "
                f"{list(outputs.shape[2:]) or 'one number'} for each. Leave references at 0."
            )

    def taken_off(self, outputs: Tensor, ids: Tensor, *, classes: bool) -> Tensor:
        """Return outputs of flipped parts without what their masks say.

        Args:
            outputs: [networks, rows, outputs].
            ids: [rows], on the CPU.
            classes: outputs are class scores, of which only differences count.
        """
        known, place = np.unique(ids.numpy(), return_inverse=True)
        found = outputs.clone()
        with Progress(len(self.works) * len(known), self.progress, "masks") as bar:
            for network, work in enumerate(self.works):
                effect = self._effect(work, torch.from_numpy(known), bar, classes=classes)
                found[network] -= effect[torch.from_numpy(place)].float()
        return found

    def _effect(self, work: Pass, ids: Tensor, bar: Progress, *, classes: bool) -> Tensor:
        """Return what the masks of ids say by themselves in one network, [ids, outputs].

        The mean over a few references is partly what these rows are. As much of it counts as is not explained by how
        far the references differ.
        """
        there = [one.to(work.member.device) for one in self.references]
        # All sites are flipped, whatever `sites` asks for, as for the rows themselves.
        work = grown_or_repeated(replace(work, sites=None), there[:1])
        said_by = partial(_said, work, there, at_once=_at_once(work, there[0], self.memory), classes=classes)
        beside = torch.cat([said for _, said in said_by(self.beside)], 1)
        usable = beside.isfinite().all(2).all(1)  # of a row on which the network fails nothing can be learned
        center = beside.mean(1, keepdim=True)  # what masks say of a row on average is the row's
        beside = (beside - center)[usable]
        if len(beside) < 2:
            return torch.zeros(len(ids), beside.shape[-1], dtype=torch.float64)
        power, noise = beside.mean(0).square().mean(), beside.var(0).mean() / len(beside)
        share = ((power - noise) / power).clamp(0, 1) if power > 0 else power
        shown = torch.stack([_id_of(one) for one in self.references])
        found = []
        for some, said in said_by(ids):
            others = (usable[:, None] & (shown[:, None] != some[None])).double()[
                ..., None
            ]  # no row is its own reference
            off = torch.where(others > 0, said - center, 0.0)
            found.append(share * off.sum(0) / others.sum(0).clamp(min=1))
            bar.add(len(some))
        return torch.cat(found)


def _at_once(work: Pass, one: Batch, memory: int) -> int:
    """Return how many ids are computed at once."""

    def peak(ids: Tensor) -> int:
        now = Chunk(ids, ("flip",))
        with PeakMemory() as measured, now:
            outputs_of(work, one, now)
        return measured.peak

    return min(_MOST_AT_ONCE, ids_that_fit(peak, memory))


def _said(
    work: Pass, references: Sequence[Batch], ids: Tensor, *, at_once: int, classes: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield some ids and what their flipped parts say of all references, [references, ids, outputs] in float64."""
    for some in ids.split(at_once):
        now = Chunk(some, ("flip",))
        with now:  # masks are made once for all references
            said = torch.stack([outputs_of(work, one, now).float() for one in references]).cpu().double()
        if classes and said.shape[-1] > 1:
            said = said - said.mean(-1, keepdim=True)
        yield some, said


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
    return [kept[where] for where in _evenly(len(kept), count)]


def _evenly(length: int, count: int) -> list[int]:
    return np.linspace(0, max(length - 1, 0), min(count, length)).astype(int).tolist()


def _id_of(one: Batch) -> Tensor:
    if one.ids is None:
        raise InfluenceError("the data has no instance ids. Give turnover.with_instance_ids(dataset).")
    return one.ids[0].cpu()
