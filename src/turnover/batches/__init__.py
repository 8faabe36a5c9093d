"""Instance ids in data sets and loaders, and the one batch type.

Owns: which number a training row carries, from the data set to the batch; the rules for ids that users bring along; a
batch taken apart into inputs, target and ids, once for everybody; losses of rows. Must not know: models, masks, views
or scores.

A row's id is its row number in the *root* data set, so that it survives shuffling, subsetting and
concatenation, or a value of the user's own column. Ids run from 0 to `FIRST_RESERVED_ID` - 1.

| file | one idea |
|---|---|
| `batch.py` | `Batch`: inputs, target and ids of some rows, from data in any form; outputs and losses of rows |
| `datasets.py` | `with_instance_ids`: data sets, Hugging Face columns and loaders with ids; ids known without reading |
| `columns.py` | the user's own ids and groups: values, hashed strings, duplicates; null ids |
| `_roots.py` | from a row of a subset, a concatenation or an Arrow table down to its root |
| `rows.py` | the forms of rows and batches: ids attached to each and taken off, digests of their content |
| `token_rows.py` | sequences and documents of a language model as rows |
"""

from turnover.ids import FIRST_RESERVED_ID, instance_id_of

from .batch import IGNORED, Batch, Loss, batches_of, default_loss, logits_of, mean_over_tokens, open_batch, per_row
from .columns import names_of, null_ids
from .datasets import InstanceIdDataset, InstanceIdIterable, carries_ids, ids_of, names_in, with_instance_ids
from .rows import INSTANCE_ID, attach, split_ids
from .token_rows import Documents, Sequences, padded

__all__ = [
    "FIRST_RESERVED_ID",
    "IGNORED",
    "INSTANCE_ID",
    "Batch",
    "Documents",
    "InstanceIdDataset",
    "InstanceIdIterable",
    "Loss",
    "Sequences",
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
    "padded",
    "per_row",
    "split_ids",
    "with_instance_ids",
]
