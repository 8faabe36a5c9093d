"""What a mask says by itself, measured on other rows and taken off what is said of the row that it belongs to.

A row's mask is the same in every epoch, so that a network learns the row's label from the mask too: the units that the
row keeps come to speak for its label, whatever they are shown, and the units that it drops, all that its flipped part
has, against it. A flipped part doubts its own row's label more than it should. Shown other rows, it says the same of
them: the mean of what it says of them, beside the mean of all other masks, is what its mask says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InfluenceError

from .chunk import Chunk
from .forward import Pass, grown_or_repeated, outputs_of
from .progress import Progress
from .queries import Batch
from .train import TrainRows

_IDS_AT_ONCE = 256


def check_references(references: Any) -> int:
    """Return the number of references, or raise."""
    if type(references) is not int or references < 0 or references == 1:
        raise InfluenceError(
            f"references={references!r} is no number of rows. Give 0, as in the paper, or 2 or more: references=32."
        )
    return references


def reference_rows(rows: TrainRows, count: int) -> list[Batch]:
    """Return rows spread evenly over the data, each as a batch; all of them where there are no more."""
    length = rows.length
    if length is None:
        length = sum(batch.rows for batch in rows.batches())
    wanted = np.linspace(0, max(length - 1, 0), min(count, length)).astype(int)
    found: list[Batch] = []
    start = 0
    for batch in rows.batches():
        found += [batch.row(int(place) - start) for place in wanted if start <= place < start + batch.rows]
        start += batch.rows
    return found


@dataclass(frozen=True)
class MasksAlone:
    """Tells what masks say by themselves.

    Attributes:
        works: one a network.
        references: single rows that are shown to the flipped parts of all others; two or more.
        progress: show a bar; None: on a terminal.
    """

    works: Sequence[Pass]
    references: Sequence[Batch]
    progress: bool | None

    def taken_off(self, outputs: Tensor, ids: Tensor, *, classes: bool) -> Tensor:
        """Return outputs of flipped parts without what their masks say.

        The mean over a few references is partly what these rows are. As much is taken off as is not explained by how
        far the references differ, network by network.

        Args:
            outputs: [networks, rows, outputs].
            ids: [rows], on the CPU.
            classes: outputs are class scores, of which only differences count.

        Raises:
            InfluenceError: the model gives something else than one vector a row.
        """
        if outputs.dim() != 3:
            raise InfluenceError(
                f"references={len(self.references)} needs one vector of outputs a row, and the model gives "
                f"{list(outputs.shape[2:]) or 'one number'} for each. Leave references at 0."
            )
        known, place = np.unique(ids.numpy(), return_inverse=True)
        found = outputs.clone()
        with Progress(len(self.works) * len(self.references), self.progress, "references") as bar:
            for network, work in enumerate(self.works):
                effect = _effect(work, self.references, torch.from_numpy(known), bar, classes=classes)
                if effect is not None:
                    found[network] -= effect[torch.from_numpy(place)]
        return found


def _effect(work: Pass, references: Sequence[Batch], ids: Tensor, bar: Progress, *, classes: bool) -> Tensor | None:
    """Return what the masks of ids say by themselves in one network, [ids, outputs]; None: it cannot be told."""
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for said in _said_of(work, references, ids):
        bar.add(1)
        if not said.isfinite().all():  # of a row on which the network fails nothing can be learned
            continue
        centred = said - said.mean(-1, keepdim=True) if classes and said.shape[-1] > 1 else said
        centred = centred - centred.mean(0)  # what all masks say of this row is the row's
        count, total, squares = count + 1, total + centred, squares + centred.square()
    if count < 2:  # nothing tells the masks from the one row
        return None
    mean = total / count
    noise = ((squares - count * mean.square()) / (count - 1)).mean() / count
    power = mean.square().mean()
    share = ((power - noise) / power).clamp(0, 1) if power > 0 else power
    return (share * mean).float()


def _said_of(work: Pass, references: Sequence[Batch], ids: Tensor) -> Iterator[Tensor]:
    """Yield for every reference what the flipped parts of ids say of it, [ids, outputs] in float64."""
    there = [one.to(work.member.device) for one in references]
    # All sites are flipped, whatever `sites` asks for, as for the rows themselves.
    work = grown_or_repeated(replace(work, sites=None), there[:1])
    for one in there:
        parts = []
        for some in ids.split(_IDS_AT_ONCE):
            now = Chunk(some, ("flip",))
            with now:
                parts.append(outputs_of(work, one, now).float().cpu().double())
        yield torch.cat(parts)
