"""Queries in any form, as a list of single rows ready for the model."""

from typing import Any

import torch

from turnover.batches import Batch, batches_of
from turnover.errors import InfluenceError


def single_queries(data: Any, *, targets: str | None, device: torch.device) -> list[Batch]:
    """Return every query as a batch of one on a device, or raise where there is none."""
    queries = [
        batch.row(index).to(device) for batch in batches_of(data, targets=targets) for index in range(batch.rows)
    ]
    if not queries:
        raise InfluenceError("there are no queries: the data is empty. Give at least one row.")
    return queries
