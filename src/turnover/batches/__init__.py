"""Instance ids in data sets, batches and loaders.

Owns: which number a training row carries, from the data set to the batch, and the rules for ids
that users bring along. Must not know: models, masks, views or scores.

A row's id is its row number in the *root* data set, so that it survives shuffling, subsetting and
concatenation, or a value of the user's own column. Ids run from 0 to `FIRST_RESERVED_ID` - 1.

| file | one idea |
|---|---|
| `give.py` | `with_instance_ids`: which of the kinds below serves the data |
| `carrier.py`, `dataset.py`, `iterable.py` | data sets with ids: what they share, map-style, iterable |
| `roots.py`, `arrow_rows.py` | from a row of a subset down to its root; Hugging Face tables |
| `columns.py` | the user's own ids and groups: values, hashed strings, duplicates |
| `order.py`, `content.py` | streams that are counted must keep their order; digests of rows |
| `known.py` | what is known of ids without reading rows |
| `loader.py` | DataLoaders: all settings kept, `collate_fn` sees its rows without ids |
| `hugging_face.py` | Hugging Face data sets get a column |
| `batch.py` | `Batch`: inputs, target and ids of some rows, from data in any form; the default loss |
| `batches.py`, `forms.py` | ids attached to rows and batches and taken off; the forms these have |
"""

from .batch import IGNORED, Batch, Loss, batches_of, default_loss, logits_of, mean_over_tokens, open_batch, row_of
from .batches import INSTANCE_ID, attach, split_ids
from .columns import FIRST_RESERVED_ID, instance_id_of, names_of, null_ids
from .dataset import InstanceIdDataset
from .give import with_instance_ids
from .iterable import InstanceIdIterable
from .known import carries_ids, ids_of

__all__ = [
    "FIRST_RESERVED_ID",
    "IGNORED",
    "INSTANCE_ID",
    "Batch",
    "InstanceIdDataset",
    "InstanceIdIterable",
    "Loss",
    "attach",
    "batches_of",
    "carries_ids",
    "default_loss",
    "ids_of",
    "instance_id_of",
    "logits_of",
    "mean_over_tokens",
    "names_of",
    "null_ids",
    "open_batch",
    "row_of",
    "split_ids",
    "with_instance_ids",
]
