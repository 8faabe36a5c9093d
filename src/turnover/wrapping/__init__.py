"""Wrapping any model: choose sites, plan, build, take apart, save, and audit for leaks.

Owns: where masks go and what leaks. Must not know: how scores are computed, or which library trains the model.
"""

from .adapters import Adapters
from .audit import audit
from .audit_report import AuditReport
from .build import unwrap, wrap
from .leaks import Leak
from .plan import Plan, SitePlan, plan
from .saved import load, save
from .zero_flow import ZeroFlow

__all__ = [
    "Adapters",
    "AuditReport",
    "Leak",
    "Plan",
    "SitePlan",
    "ZeroFlow",
    "audit",
    "load",
    "plan",
    "save",
    "unwrap",
    "wrap",
]
