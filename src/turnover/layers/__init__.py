"""The dropout layer, and which instances and view are active in a forward pass.

Owns: applying masks to activations, the active instances, the mask recipe of a wrapped model. Must not know: how sites
are chosen, data sets, scores, files.

Offers: `instances` and `TurnOverDropout` to users; to the package the recipe of a model (`Recipe`, `Learned`), its live
masks (`Masking`, `Site`, `masking_of`), views as factors, replicated modules, and the one walker over nested tensors.

| file | idea |
| --- | --- |
| `recipe.py` | what determines all masks of a model, as JSON and as the uint8 tensor in the state dict |
| `masking.py` | the live state that a model's sites share; one site |
| `instances.py` | ids in any form; which ids and view are active; every site must run |
| `views.py` | the three views, and mask words to factors |
| `dropout.py` | one site's forward pass: `TurnOverDropout`, the hook for other modules, compiled graphs, checkpoints |
| `_batch_dim.py` | finding the batch dimension of a site |
| `processes.py` | a model that several processes train: a whole copy of its shards, the same masks in all |
| `root.py` | hooks and recipe tensor of the wrapped root |
| `expansion.py` | where rows are expanded to all replicas |
| `replicas.py` | a module with weights per replica; outputs one replica after the other, or averaged |
| `modes.py` | masks for whole networks: on gradients alone, or on the difference from the start |
| `devices.py` | where a model lives, and where work goes that nobody gave a device for |
| `tensors.py` | every tensor of nested inputs or outputs; the bytes of a tensor |
"""

from .devices import PREFERRED, device_of, preferred_device, widest_float
from .dropout import DIMS, MaskedOutput, ShownMask, TurnOverDropout, checkpoint_contexts
from .expansion import Expansion
from .instances import (
    Instances,
    active_instances,
    as_ids,
    eval_mode,
    instances,
    no_instances,
)
from .masking import SHOWN_MASK, Masking, Site
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
from .root import attach, detach, find_root, masking_of, remove_hooks
from .tensors import map_tensors, tensor_bytes, tensors_in
from .views import KEEP, VIEWS, View, factors_by_table, scales

__all__ = [
    "DIMS",
    "KEEP",
    "PREFERRED",
    "RECIPE_KEY",
    "SHOWN_MASK",
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
    "ShownMask",
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
