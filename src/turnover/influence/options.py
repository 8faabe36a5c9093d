"""How influence is computed: one frozen set of options, passed whole."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from turnover.batches import FIRST_RESERVED_ID
from turnover.errors import InfluenceError

from .estimate.ridge import Ridge

NULL_IDS = 1024
"""How many never-trained ids stand for pure noise."""
_DEFAULT_MEMORY = 256 * 2**20
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Options:
    """The options of `Influence`.

    Attributes:
        against: what the flipped network is compared with: the kept half, or the full network.
        center: subtract the mean score of never-trained ids, query by query.
        sites: flip only these sites; None: all.
        dtype: run the model under autocast in this type.
        memory: bytes that a chunk may take.
        compile: run the model through torch.compile.
        denoise: how scores are denoised; None: they are not.
        control: subtract what masks alone explain, to first order.
    """

    against: Literal["keep", "full"] = "keep"
    center: bool = True
    sites: tuple[str, ...] | None = None
    dtype: torch.dtype | None = None
    memory: int = _DEFAULT_MEMORY
    compile: bool = False
    denoise: Ridge | None = None
    control: Literal["linear"] | None = None

    def __post_init__(self) -> None:
        """Refuse what no option can be."""
        if self.against not in ("keep", "full"):
            raise InfluenceError(f"against={self.against!r} is unknown. Give 'keep' or 'full'.")
        if self.control not in (None, "linear"):
            raise InfluenceError(f"control={self.control!r} is unknown. Give 'linear' or None.")
        if self.dtype is not None and self.dtype not in _DTYPES:
            raise InfluenceError(f"dtype={self.dtype} is not supported. Give torch.bfloat16, torch.float16 or None.")
        if isinstance(self.memory, bool) or not isinstance(self.memory, int) or self.memory < 1:
            raise InfluenceError(f"memory={self.memory!r} is no number of bytes. Give an integer: memory=2**28.")

    def as_data(self) -> dict[str, Any]:
        """Return the options as JSON data, without those that change no score."""
        data: dict[str, Any] = {
            "against": self.against,
            "center": self.center,
            "sites": None if self.sites is None else list(self.sites),
            "dtype": None if self.dtype is None else str(self.dtype),
        }
        if self.denoise is not None:
            data["denoise"] = self.denoise.as_data()
        if self.control is not None:
            data["control"] = self.control
        return data


def memory_in_bytes(memory: int | None) -> int:
    """Return the limit, or the default."""
    return _DEFAULT_MEMORY if memory is None else memory


def null_ids(count: int) -> Tensor:
    """Return ids that no training ever saw."""
    return torch.arange(FIRST_RESERVED_ID, FIRST_RESERVED_ID + count)
