"""Instance ids for activation checkpointing."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from .apply import mask_words
from .instances import Recomputation, active_instances


def checkpoint_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the contexts that carry the active instances into a checkpoint's recomputation.

    Example:
        >>> import torch, turnover
        >>> from torch.utils.checkpoint import checkpoint
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> net = turnover.wrap(net, at=["1"])
        >>> contexts = turnover.checkpoint_contexts
        >>> with turnover.instances(range(3)):
        ...     out = checkpoint(net, torch.zeros(3, 4), use_reentrant=False, context_fn=contexts)
        >>> out.sum().backward()
    """
    if torch.compiler.is_compiling():
        # A compiled backward pass knows no contexts, but it can keep the mask words of the forward pass.
        return create_selective_checkpoint_contexts([mask_words._opoverload])
    return nullcontext(), Recomputation(active_instances())
