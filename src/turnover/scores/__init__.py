"""Result types: what the engine and the compared methods make, and everything above them reads.

Owns: scores, lists of the most helpful and harmful instances, out-of-sample predictions; their order, averages, tables
and files. Must not know: models, masks, how a score is computed.

| file | idea |
| --- | --- |
| `scores.py`, `top.py`, `out_of_sample.py` | the three results |
| `content.py` | what scores hold, without what they can do |
| `arrays.py`, `about.py`, `per_query.py` | what they hold, checked: arrays, unit and provenance, numbers of a query |
| `source.py`, `on_disk.py` | where numbers are read from: memory, or a folder, in part |
| `ranking.py`, `lists.py` | the order of scores; its head and tail as lists that can be merged |
| `averages.py`, `joining.py`, `lookup.py` | means over queries; several results as one; from ids to rows |
| `judged.py`, `noise.py` | how far scores can be trusted: p-values, marks, intervals; how much of them is noise |
| `null_tail.py`, `error_tail.py`, `tails.py` | p-values from never-trained ids; from standard errors; functions |
| `discoveries.py` | which of many p-values stand out, also when only the smallest are kept |
| `tables.py`, `labeled.py`, `extras.py` | pandas; xarray; how both are imported |
| `tokens.py` | self-influence token by token |
| `stored.py` | the format of scores in a folder |
| `text.py` | results as text |
"""

from .discoveries import checked_level, discoveries
from .extras import load_pandas
from .out_of_sample import OutOfSample
from .scores import Scores
from .stored import finish_store
from .tails import normal_tail, student_limit
from .tokens import TokenScores
from .top import Top

__all__ = [
    "OutOfSample",
    "Scores",
    "TokenScores",
    "Top",
    "checked_level",
    "discoveries",
    "finish_store",
    "load_pandas",
    "normal_tail",
    "student_limit",
]
