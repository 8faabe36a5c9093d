"""Time and memory of the kinds of masks, for the same ids and layers."""

import math
import time
from typing import Any

import torch

from turnover.evaluation import PeakResident
from turnover.masks import Stream, source_named

from .config import Config

KINDS = ("counter", "volatile", "codebook")
_BATCH = 32


def mask_kinds(config: Config) -> dict[str, Any]:
    """Return seconds for the masks of all ids in batches, in order and shuffled, and growth of memory, by kind."""
    found: dict[str, Any] = {kind: {"in_order": math.inf, "shuffled": math.inf} for kind in KINDS}
    orders = {"in_order": torch.arange(config.ids), "shuffled": torch.randperm(config.ids)}
    # First of all, for what was made once may be kept in memory, a codebook for example.
    for kind in KINDS:
        with PeakResident() as peak:
            _seconds(kind, orders["shuffled"], config.hidden)
        found[kind]["peak_bytes"] = peak.bytes
    # They take turns, so that what else the machine does falls on all of them.
    for _ in range(config.repeats):
        for kind in KINDS:
            for name, ids in orders.items():
                found[kind][name] = min(found[kind][name], _seconds(kind, ids, config.hidden))
    # Both layers of every row, a bit a unit: what masks would take if they were drawn once and kept.
    return {"kinds": found, "kept_bytes": 2 * config.hidden * config.ids // 8, "ids": config.ids, "batch": _BATCH}


def _seconds(kind: str, ids: torch.Tensor, width: int) -> float:
    source = source_named(kind, seed=0)
    streams = [Stream("first", width), Stream("second", width)]
    start = time.process_time()
    for batch in ids.split(_BATCH):
        source.words(batch, streams)
    return time.process_time() - start
