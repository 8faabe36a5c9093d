"""Instance ids in data sets and loaders, and the one batch type.

Owns: which number a training row carries, from the data set to the batch; the rules for ids that users bring along; a
batch taken apart into inputs, target and ids, once for everybody. Offers: `with_instance_ids`, `Batch`, `open_batch`
and `batches_of`, the default loss. Must not know: models, masks, views or scores.

A row's id is its row number in the *root* data set, so that it survives shuffling, subsetting and
concatenation, or a value of the user's own column. Ids run from 0 to `FIRST_RESERVED_ID` - 1.

| file | one idea |
|---|---|
| `give.py` | `with_instance_ids`: which kind serves the data; Hugging Face data sets get a column |
| `datasets.py` | data sets with ids, map-style and iterable |
| `loaders.py` | DataLoaders: all settings kept, `collate_fn` sees its rows without ids; what is known without reading |
| `_roots.py` | from a row of a subset, a concatenation or an Arrow table down to its root |
| `columns.py` | the user's own ids and groups: values, hashed strings, duplicates; null ids |
| `_content.py` | digests of rows; streams that are counted must keep their order |
| `forms.py` | the forms of rows and batches; ids attached to each and taken off |
| `batch.py` | `Batch`: inputs, target and ids of some rows, which key or item is the target; the default loss |
"""

from turnover.ids import FIRST_RESERVED_ID, instance_id_of

from .batch import IGNORED, Batch, Loss, batches_of, default_loss, logits_of, mean_over_tokens, open_batch
from .columns import names_of, null_ids
from .datasets import InstanceIdDataset, InstanceIdIterable
from .forms import INSTANCE_ID, attach, split_ids
from .give import with_instance_ids
from .loaders import carries_ids, ids_of, names_in

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
    "names_in",
    "names_of",
    "null_ids",
    "open_batch",
    "split_ids",
    "with_instance_ids",
]
