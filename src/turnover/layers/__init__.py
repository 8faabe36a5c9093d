"""The dropout layer, and which instances and view are active in a forward pass.

Owns: applying masks to activations, the active instances, the mask recipe of a wrapped model. Must not know: how sites
are chosen, data sets, scores, files.
"""

from .as_ids import as_ids
from .checkpointing import checkpoint_contexts
from .dropout import DIMS, MaskedOutput, TurnOverDropout
from .growth import Growth
from .instances import Hidden, Instances, active_instances, instances
from .masking import Masking, Site
from .modes import MODE_HOOKS, drop_start, put_mode, start_state
from .recipe import RECIPE_KEY, AdapterRecipe, Dim, Learned, Mode, Place, Recipe, SiteRecipe, to_tensor
from .replicas import attach_replicas, detach_replicas, replicas_of
from .replicated import Replicated
from .root import attach, detach, find_root, masking_of, remove_hooks
from .scale import factors_by_table, scales
from .tensors import map_tensors, tensors_in
from .views import KEEP, VIEWS, View

__all__ = [
    "DIMS",
    "KEEP",
    "MODE_HOOKS",
    "RECIPE_KEY",
    "VIEWS",
    "AdapterRecipe",
    "Dim",
    "Growth",
    "Hidden",
    "Instances",
    "Learned",
    "MaskedOutput",
    "Masking",
    "Mode",
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
    "checkpoint_contexts",
    "detach",
    "detach_replicas",
    "drop_start",
    "factors_by_table",
    "find_root",
    "instances",
    "map_tensors",
    "masking_of",
    "put_mode",
    "remove_hooks",
    "replicas_of",
    "scales",
    "start_state",
    "tensors_in",
    "to_tensor",
]
