"""The dropout layer, and which instances and view are active in a forward pass.

Owns: applying masks to activations, the active instances, the mask recipe of a wrapped model. Must not know: how sites
are chosen, data sets, scores, files.

Offers: `instances` and `TurnOverDropout` to users; to the package the recipe of a model (`Recipe`, `Learned`), its live
masks (`Masking`, `Site`, `masking_of`), views as factors, replicated modules, and the one walker over nested tensors.

| file | idea |
| --- | --- |
| `tensors.py` | every tensor of nested inputs or outputs; the bytes of a tensor; devices |
| `recipe.py` | what determines all masks of a model, as JSON and as the uint8 tensor in the state dict |
| `processes.py` | a model that several processes train: a whole copy of its shards, the same masks in all |
| `masking.py` | the live state that a model's sites share; one site; where rows are expanded to replicas |
| `instances.py` | views as factors; ids in any form; which are active; hooks of the wrapped root; every site must run |
| `dropout.py` | one site's forward pass: `TurnOverDropout`, hooks on other modules, compiled graphs, batch dimension |
| `replicas.py` | a module with weights per replica; outputs one replica after the other, or averaged |
| `modes.py` | masks for whole networks: on gradients alone, or on the difference from the start |
"""

from .dropout import DIMS, MaskedOutput, TurnOverDropout, checkpoint_contexts
from .instances import (
    KEEP,
    VIEWS,
    Instances,
    View,
    active_instances,
    as_ids,
    attach,
    detach,
    eval_mode,
    factors_by_table,
    instances,
    no_instances,
    remove_hooks,
    scales,
)
from .masking import Expansion, Masking, Site, find_root, masking_of
from .modes import ModeHook, drop_start, start_state
from .processes import (
    check_same_recipe,
    exchange_values,
    groups_of,
    is_flattened,
    is_sharded,
    whole_model,
    whole_tensor,
)
from .recipe import RECIPE_KEY, AdapterRecipe, Dim, Learned, Mode, Place, Recipe, SiteRecipe, from_tensor, to_tensor
from .replicas import TARGET_NAMES, Replicated, attach_replicas, detach_replicas, replicas_of
from .tensors import PREFERRED, device_of, map_tensors, preferred_device, tensor_bytes, tensors_in, widest_float

__all__ = [
    "DIMS",
    "KEEP",
    "PREFERRED",
    "RECIPE_KEY",
    "TARGET_NAMES",
    "VIEWS",
    "AdapterRecipe",
    "Dim",
    "Expansion",
    "Instances",
    "Learned",
    "MaskedOutput",
    "Masking",
    "Mode",
    "ModeHook",
    "Place",
    "Recipe",
    "Replicated",
    "Site",
    "SiteRecipe",
    "TurnOverDropout",
    "View",
    "active_instances",
    "as_ids",
    "attach",
    "attach_replicas",
    "check_same_recipe",
    "checkpoint_contexts",
    "detach",
    "detach_replicas",
    "device_of",
    "drop_start",
    "eval_mode",
    "exchange_values",
    "factors_by_table",
    "find_root",
    "from_tensor",
    "groups_of",
    "instances",
    "is_flattened",
    "is_sharded",
    "map_tensors",
    "masking_of",
    "no_instances",
    "preferred_device",
    "remove_hooks",
    "replicas_of",
    "scales",
    "start_state",
    "tensor_bytes",
    "tensors_in",
    "to_tensor",
    "whole_model",
    "whole_tensor",
    "widest_float",
]
