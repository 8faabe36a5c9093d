"""The memory of chunks stays with the process from one to the next."""

from functools import cache

import torch


@cache
def keep_freed_memory() -> None:
    """Let this process keep the memory of a chunk for the next one, where it would be handed back and asked for again.

    The C library of Linux does so with blocks that are smaller than the largest that was ever freed, up to 32 MiB
    (mallopt(3), M_MMAP_THRESHOLD). So one is freed here, which nobody wrote to.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)
