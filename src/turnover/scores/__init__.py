"""Result types: what the engine and the baselines make, and everything above them reads.

Owns: scores, lists of the most helpful and harmful instances, out-of-sample predictions; their order, significance,
tables, text and files. Offers: the three results, tokens of scores, how the engine finishes a store of scores, and the
statistics that findings are judged by. Must not know: models, masks, how a score is computed.

| file | idea |
| --- | --- |
| `scores.py`, `top.py`, `out_of_sample.py` | the three results |
| `significance.py` | p-values from null ids; intervals from replicas; significance (FDR); how much is noise |
| `_about.py` | what results say about themselves: unit, provenance, names of queries |
| `_arrays.py` | arrays: checked, read-only, read in blocks; tokens of rows; rows as people see them |
| `_lists.py` | lists as text and HTML; figures |
| `_files.py` | the format of results on disk |
"""

from ._arrays import TokenScores, load_pandas
from .out_of_sample import OutOfSample
from .scores import Scores, finish_store
from .significance import checked_level, discoveries, normal_tail, student_limit, student_tail
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
    "student_tail",
]
