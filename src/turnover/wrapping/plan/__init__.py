"""The dry run of `wrap`: which sites there would be, what would leak and what is wrong.

Owns: the order in which adapters, sites, replicas and masks are planned, and the plan as data and text. Offers: `plan`
and its result. Must not know: how masks act in a forward pass, files.

| file | idea |
| --- | --- |
| `dry_run.py` | `plan`; what the code of a model tells |
| `_example.py` | what a forward pass and gradients on an example show |
| `result.py` | `Plan` as data and as text; how much signal to expect |
"""

from .dry_run import plan
from .result import ExpectedSignal, Plan, expected_signal

__all__ = ["ExpectedSignal", "Plan", "expected_signal", "plan"]
