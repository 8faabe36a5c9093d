"""Wrapping any model: choose sites, plan, build, take apart, save, and audit for leaks.

Owns: where masks go and what leaks. Offers: `wrap`, `unwrap`, `plan`, `audit`, `recalibrate`, `save` and `load`, with
their options and results; each replica of a model alone; masks at fewer sites. Must not know: how scores are computed,
or which library trains the model.

From the bottom up; each imports only from what is above it in this table:

| file | idea |
| --- | --- |
| `_modules.py` | what a module is: called, width, kind; exchanging one |
| `_flow.py` | what a traced forward pass shows: what flows into what, does zero stay zero |
| `_leaks.py` | causes of leaks and their cures; which leaks to expect |
| `_sites.py` | from `at` to sites |
| `_modes.py` | sites of the modes "backward" and "mixout" |
| `adapters/` | bottleneck adapters in a frozen transformer |
| `_replicas.py` | which modules each replica has for itself, and putting them in |
| `build.py` | the masks of a recipe into a model and out again |
| `audit.py` | leaks measured by gradients, and their report by cause |
| `plan/` | the dry run |
| `tensor_file.py` | named tensors in a small safetensors file |
| `model_card.py` | the masks of a model as a section of its README.md |
| `wrap.py` | `wrap`, `unwrap`, each replica, fewer sites |
| `recalibrate.py` | statistics of BatchNorm re-estimated in full view |
| `saved.py` | `save` and `load` |
"""

from .adapters import Adapters
from .audit import MOST_ROWS, AuditReport, audit
from .build import wrapped_root
from .model_card import write_card
from .plan import ExpectedSignal, Plan, expected_signal, plan
from .recalibrate import has_batch_statistics, recalibrate
from .saved import RECIPE_FILE, load, masks_beside, save
from .tensor_file import read_tensors, write_tensors
from .wrap import only_at, replica_models, top_sites, unwrap, wrap

__all__ = [
    "MOST_ROWS",
    "RECIPE_FILE",
    "Adapters",
    "AuditReport",
    "ExpectedSignal",
    "Plan",
    "audit",
    "expected_signal",
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
    "write_tensors",
]
