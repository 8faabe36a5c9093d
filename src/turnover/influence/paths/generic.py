"""The generic scorer: any model, chunk by chunk, with chunks as large as the memory allows."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from turnover.batches import Batch
from turnover.influence.options import null_ids

from .forward import Pass, base_goodness, chunk, scores_of
from .peak import PeakMemory

MOST_IDS = 2048
_SMALL, _LARGE = 4, 12


def fit_chunk(work: Pass, query: Batch, memory: int) -> int:
    """Return how many instances fit into the memory, measured on two small chunks of the largest query."""
    return ids_that_fit(lambda ids: _peak(work, query, ids), memory)


def ids_that_fit(peak: Callable[[Tensor], int], memory: int) -> int:
    """Return how many instances fit into the memory, by the peak in bytes of two small chunks."""
    small, large = (peak(null_ids(count)) for count in (_SMALL, _LARGE))
    per_id = max(1, (large - small) // (_LARGE - _SMALL))
    fixed = max(0, small - _SMALL * per_id)
    return int(max(1, min(MOST_IDS, (memory - fixed) // per_id)))


def _peak(work: Pass, query: Batch, ids: Tensor) -> int:
    base = base_goodness(work, query)
    with PeakMemory() as measured, chunk(work, ids) as now:
        scores_of(work, query, base, now)
    return measured.peak


class GenericScorer:
    """Scores of any instances on a fixed list of queries, by forward passes."""

    def __init__(self, work: Pass, queries: Sequence[Batch], ids_per_chunk: int) -> None:
        """Compute what every chunk of a query shares."""
        self._work, self._queries = work, queries
        self._bases = [base_goodness(work, query) for query in queries]
        self.ids_per_chunk = ids_per_chunk
        self.path = work.path

    @torch.no_grad()  # here too: an executor may call it in a thread of its own, where gradients are on
    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        result = torch.empty((len(ids), len(self._queries)))
        for start in range(0, len(ids), self.ids_per_chunk):
            part = ids[start : start + self.ids_per_chunk]
            # Masks are made once a chunk and serve all queries.
            with chunk(self._work, part) as now:
                for place, (query, base) in enumerate(zip(self._queries, self._bases, strict=True)):
                    result[start : start + len(part), place] = scores_of(self._work, query, base, now).cpu()
        return result
