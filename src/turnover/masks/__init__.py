"""Mask bits: pure functions of (seed, site, instance id, unit), in integer arithmetic only.

Owns: which unit is kept for which instance. The bits are a file format (docs/format.md): every
model ever trained depends on them. Must not know: modules, views, scales, files.
"""

from .codebook import Codebook
from .counter import Counter
from .packing import pack, unpack
from .source import MaskSource, Stream, source_from, source_named
from .volatile import Volatile

__all__ = [
    "Codebook",
    "Counter",
    "MaskSource",
    "Stream",
    "Volatile",
    "pack",
    "source_from",
    "source_named",
    "unpack",
]
