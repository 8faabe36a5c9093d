"""Mask bits: pure functions of (seed, site, instance id, unit), in integer arithmetic only.

Owns: which unit is kept for which instance. The bits are a file format (docs/format.md): every
model ever trained depends on them. Must not know: modules, views, scales, files.
"""

from .codebook import Codebook
from .counter import Counter
from .keep_rate import check_keep, rounded_keep
from .packing import WORD_BITS, pack, unpack, words_for
from .source import MaskSource, Stream, joint_words, source_from, source_named
from .volatile import Volatile

__all__ = [
    "WORD_BITS",
    "Codebook",
    "Counter",
    "MaskSource",
    "Stream",
    "Volatile",
    "check_keep",
    "joint_words",
    "pack",
    "rounded_keep",
    "source_from",
    "source_named",
    "unpack",
    "words_for",
]
