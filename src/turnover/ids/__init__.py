"""Instance ids in data sets, batches and loaders.

Owns: which number a training row carries, from the data set to the batch, and the rules for ids
that users bring along. Must not know: models, masks, views or scores.

A row's id is its row number in the *root* data set, so that it survives shuffling, subsetting and
concatenation, or a value of the user's own column. Ids run from 0 to `FIRST_RESERVED_ID` - 1.
"""

from .batches import INSTANCE_ID, split_ids
from .columns import FIRST_RESERVED_ID, instance_id_of, names_of
from .dataset import InstanceIdDataset
from .give import with_instance_ids
from .iterable import InstanceIdIterable

__all__ = [
    "FIRST_RESERVED_ID",
    "INSTANCE_ID",
    "InstanceIdDataset",
    "InstanceIdIterable",
    "instance_id_of",
    "names_of",
    "split_ids",
    "with_instance_ids",
]
