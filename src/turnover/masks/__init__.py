"""Mask bits: pure functions of (seed, site, instance id, unit), in integer arithmetic only.

Owns: which unit is kept for which instance. The bits are a file format (docs/format.md): every
model ever trained depends on them. Offers: the three sources, by name too; words of a mask as bits;
keep rates as masks really have them. Must not know: modules, views, scales, files.

| file | idea |
| --- | --- |
| `bits.py` | 32 bits to a word; keep rates in units of 2**-24 |
| `_hashing.py` | the integer mixer, keys from SHA-256, ids as two words, words of any keep rate |
| `source.py` | what a mask source is |
| `counter.py`, `volatile.py`, `codebook.py` | the sources, one file each |
| `registry.py` | sources by the names in recipes; a new source is listed here |
"""

from .bits import WORD_BITS, check_keep, rounded_keep, unpack, words_for
from .codebook import Codebook
from .counter import Counter, joint_words
from .registry import source_from, source_named
from .source import MaskSource, Stream
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
    "rounded_keep",
    "source_from",
    "source_named",
    "unpack",
    "words_for",
]
