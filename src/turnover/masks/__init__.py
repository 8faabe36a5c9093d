"""Mask bits: pure functions of (seed, site, instance id, unit), in integer arithmetic only.

Owns: which unit is kept for which instance. The bits are a file format (docs/format.md): every
model ever trained depends on them. Offers: the three sources, by name too; words of a mask as bits;
keep rates as masks really have them. Must not know: modules, views, scales, files.

| file | idea |
| --- | --- |
| `hashing.py` | 32 bits to a word, keep rates in units of 2**-24, the integer mixer, words of any keep rate |
| `sources.py` | what a mask source is, the three there are, and sources by the names in recipes |
"""

from .hashing import WORD_BITS, check_keep, rounded_keep, unpack, words_for
from .sources import Codebook, Counter, MaskSource, Stream, Volatile, joint_words, source_from, source_named

__all__ = [
    "WORD_BITS",
    "Codebook",
    "Counter",
    "MaskSource",
    "Stream",
    "Volatile",
    "check_keep",
    "joint_words",
    "rounded_keep",
    "source_from",
    "source_named",
    "unpack",
    "words_for",
]
