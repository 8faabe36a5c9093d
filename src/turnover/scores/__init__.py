"""Result types: what the engine and the baselines make, and everything above them reads.

Owns: scores, lists of the most helpful and harmful instances, out-of-sample predictions; their order, significance,
tables, text and files. Offers: the three results, tokens of scores, how the engine finishes a store of scores, and the
statistics that findings are judged by. Must not know: models, masks, how a score is computed.

| file | idea |
| --- | --- |
| `scores.py`, `top.py`, `out_of_sample.py` | the three results |
| `tokens.py` | self-influence token by token |
| `significance.py` | p-values from null ids; intervals from replicas; significance (FDR); how much is noise |
| `_content.py`, `_judged.py` | what scores hold, without what they can do; several as one; judged by noise |
| `_about.py`, `_arrays.py` | what results say about themselves; arrays: checked, read-only, read in blocks |
| `_ranking.py` | the order of scores; its head and tail as lists that can be merged |
| `_formats.py` | pandas, xarray, text |
| `_shown_lists.py`, `_plots.py` | lists as text and HTML; figures |
| `_views.py` | what results have in common: ids, and rows as people see them |
| `_store.py` | the format of results on disk |
"""

from ._formats import load_pandas
from ._store import finish_store
from .out_of_sample import OutOfSample
from .scores import Scores
from .significance import checked_level, discoveries, normal_tail, student_limit, student_tail
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
    "student_tail",
]
