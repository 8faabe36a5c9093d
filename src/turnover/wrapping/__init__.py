"""Wrapping any model: choose sites, plan, build, take apart, save, and audit for leaks.

Owns: where masks go and what leaks. Must not know: how scores are computed, or which library trains the model.
"""

from .adapters.adapters import Adapters
from .adapters.file import read_tensors, write_tensors
from .adapters.top import only_at, top_sites
from .audit.audit import MOST_ROWS, audit
from .audit.leaks import Leak
from .audit.report import AuditReport
from .build import replica_models, unwrap, wrap, wrapped_root
from .plan.plan import Plan, SitePlan, plan
from .plan.signal import ExpectedSignal, expected_signal
from .plan.zero_flow import ZeroFlow
from .saved import load, save

__all__ = [
    "MOST_ROWS",
    "Adapters",
    "AuditReport",
    "ExpectedSignal",
    "Leak",
    "Plan",
    "SitePlan",
    "ZeroFlow",
    "audit",
    "expected_signal",
    "load",
    "only_at",
    "plan",
    "read_tensors",
    "replica_models",
    "save",
    "top_sites",
    "unwrap",
    "wrap",
    "wrapped_root",
    "write_tensors",
]
