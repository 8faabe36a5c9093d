"""The dropout layer, and which instances and view are active in a forward pass.

Owns: applying masks to activations, the active instances, the mask recipe of a wrapped model. Must not know: how sites
are chosen, data sets, scores, files.
"""

from .checkpointing import checkpoint_contexts
from .dropout import MaskedOutput, TurnOverDropout
from .instances import Instances, View, instances
from .masking import Masking, Site
from .recipe import RECIPE_KEY, Dim, Recipe, SiteRecipe

__all__ = [
    "RECIPE_KEY",
    "Dim",
    "Instances",
    "MaskedOutput",
    "Masking",
    "Recipe",
    "Site",
    "SiteRecipe",
    "TurnOverDropout",
    "View",
    "checkpoint_contexts",
    "instances",
]
