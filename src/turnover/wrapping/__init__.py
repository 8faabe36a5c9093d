"""Wrapping any model: choose sites, plan, build, take apart, save, and audit for leaks.

Owns: where masks go and what leaks. Offers: `wrap`, `unwrap`, `plan`, `audit`, `recalibrate`, `save` and `load`, with
their options and results; each replica of a model alone; masks at fewer sites. Must not know: how scores are computed,
or which library trains the model.

From the bottom up; each imports only from what is above it in this table:

| file | idea |
| --- | --- |
| `_code.py` | what the code tells: kinds of modules; traced once, what flows into what, does zero stay zero |
| `_sites.py` | from `at` to sites; every module that learns, in the modes "backward" and "mixout" |
| `adapters.py` | bottleneck adapters in a frozen transformer |
| `_replicas.py` | which modules each replica has for itself, and putting them in |
| `build.py` | the masks of a recipe into a model and out again; each replica alone; fewer sites |
| `audit.py` | causes of leaks and their cures; leaks expected, and measured by gradients |
| `wrap.py` | the dry run, `plan`, and doing it, `wrap` |
| `recalibrate.py` | statistics of BatchNorm re-estimated in full view |
| `saved.py` | `save` and `load`, and the model card |
"""

from .adapters import Adapters
from .audit import MOST_ROWS, AuditReport, Leak, audit
from .build import only_at, replica_models, top_sites, unwrap, wrapped_root
from .recalibrate import has_batch_statistics, recalibrate
from .saved import RECIPE_FILE, load, masks_beside, read_tensors, save, write_card
from .wrap import Plan, plan, wrap

__all__ = [
    "MOST_ROWS",
    "RECIPE_FILE",
    "Adapters",
    "AuditReport",
    "Leak",
    "Plan",
    "audit",
    "has_batch_statistics",
    "load",
    "masks_beside",
    "only_at",
    "plan",
    "read_tensors",
    "recalibrate",
    "replica_models",
    "save",
    "top_sites",
    "unwrap",
    "wrap",
    "wrapped_root",
    "write_card",
]
