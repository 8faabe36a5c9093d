"""Bottleneck adapters in a frozen transformer.

Owns: finding blocks and output layers in models of any library, planning adapters and putting them in. Offers: the
options (`Adapters`), their plan, and what other code must know of a model with adapters. Must not know: how masks are
put in, replicas, files.

| file | idea |
| --- | --- |
| `plan.py` | `Adapters`, as users ask for them; planning, and what stands against it |
| `find.py` | blocks and output layers of a transformer |
| `module.py` | the bottleneck as a module, and putting it in |
"""

from .find import find_blocks, output_layers
from .module import (
    NAME,
    Adapter,
    adapters_in,
    bottleneck_of,
    input_of,
    mask_input,
    put_adapters,
    site_width,
    take_input,
)
from .plan import AdapterPlan, Adapters, adapter_leaks, plan_adapters

__all__ = [
    "NAME",
    "Adapter",
    "AdapterPlan",
    "Adapters",
    "adapter_leaks",
    "adapters_in",
    "bottleneck_of",
    "find_blocks",
    "input_of",
    "mask_input",
    "output_layers",
    "plan_adapters",
    "put_adapters",
    "site_width",
    "take_input",
]
