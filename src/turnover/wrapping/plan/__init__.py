"""The dry run of `wrap`: which sites there would be, what would leak and what is wrong.

Owns: the order in which adapters, sites, replicas and masks are planned, and the plan as data and text. Offers: `plan`
to users, `make_plan` to `wrap`. Must not know: how masks act in a forward pass, files.

| file | idea |
| --- | --- |
| `make.py` | `plan`; what the code of a model tells |
| `example.py` | what a forward pass and gradients on an example show |
| `plan.py` | `Plan` as data and as text; how much signal to expect |
"""

from .make import make_plan, plan
from .plan import ExpectedSignal, Plan, expected_signal

__all__ = ["ExpectedSignal", "Plan", "expected_signal", "make_plan", "plan"]
