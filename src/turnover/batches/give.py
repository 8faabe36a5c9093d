"""`with_instance_ids`: ids for anything that holds examples."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from turnover.errors import DataSetError, InstanceIdError

from .arrow_rows import is_hugging_face, is_hugging_face_stream, is_splits
from .batches import INSTANCE_ID, attach
from .carrier import Carrier
from .columns import choose_column
from .dataset import InstanceIdDataset
from .hugging_face import give_splits, give_stream, give_table
from .iterable import InstanceIdIterable
from .loader import loader_with_ids
from .roots import leaves


def with_instance_ids(data: Any, *, id: str | int | None = None, groups: str | int | None = None) -> Any:
    """Return the same data with a stable instance id on every row.

    `(x, y)` becomes `(x, y, id)`, a dict gets the key "instance_id", a namedtuple a last field and
    a dataclass an attribute of that name; a bare row becomes `(row, id)`. A DataLoader keeps all
    its settings, and its batches get an int64 tensor of ids in the same way.

    The id is the row number in the root data set: it survives shuffling, `Subset`, `random_split`,
    `ConcatDataset` and the `select` and `shuffle` of Hugging Face, whether ids are given before or
    after. A data set class of your own that wraps another is a root of its own. Rows of an iterable are
    counted from 0: one that changes its order, or gives every process another part, needs `id`. No id
    from 2**62 on is given out.

    Args:
        data: a map-style or iterable data set, a list or tensor of rows, a `DataLoader`, or a
            Hugging Face data set (also streaming, also a dict of splits).
        id: your own column with one id for every row: a key, a field or the position in a tuple.
            Integers are used as they are; strings are hashed to 62 bits and `.names` of the result
            maps back. Two different rows with one id are an error when the second is read.
        groups: your own column whose equal values make one instance: an annotator, a source.

    Returns:
        A data set or loader of the kind given, with what was given as `.dataset`; for Hugging Face
        the data set with a new column (`turnover.batches.names_of` maps its strings back).

    Raises:
        DataSetError: the data cannot be numbered as they are, such as a generator.
        InstanceIdError: an id is unusable, missing or reserved, or there are ids already.

    Example:
        >>> from torch.utils.data import Subset
        >>> rows = [("a", 0), ("b", 1), ("c", 0)]
        >>> with_instance_ids(Subset(rows, [2, 0]))[0]
        ('c', 0, 2)
    """
    column = choose_column(id, groups)
    if isinstance(data, DataLoader):
        return loader_with_ids(data, column)
    if is_splits(data):
        return give_splits(data, column)
    if is_hugging_face_stream(data):
        return give_stream(data, column)
    if is_hugging_face(data):
        return give_table(data, column)
    if any(isinstance(leaf, Carrier) for leaf in leaves(data)):
        raise InstanceIdError(
            "the data set already carries instance ids: with_instance_ids was called on it, or on "
            "what it is made of. Use it as it is, or give ids to the original data (.dataset)."
        )
    own = column is not None and column.name == INSTANCE_ID
    return _kind_of(data)(data, column, partial(attach, replace=True) if own else attach)


def _kind_of(data: Any) -> type[InstanceIdDataset] | type[InstanceIdIterable]:
    """Return the class that serves this data set, or raise and say what to give instead."""
    name = type(data).__name__
    if isinstance(data, IterableDataset):
        return InstanceIdIterable
    if isinstance(data, Iterator):
        raise DataSetError(
            f"a {name} can be iterated only once, and training reads its data many times. "
            "Give something that starts anew, such as a list or an IterableDataset."
        )
    if isinstance(data, str | bytes | Mapping | set | frozenset) or hasattr(data, "iloc"):
        raise DataSetError(f"a {name} has no numbered rows. {_instead_of(data)}")
    if isinstance(data, Dataset) or (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return InstanceIdDataset
    if isinstance(data, Iterable):
        return InstanceIdIterable
    raise DataSetError(
        f"a {name} holds no rows. Give a data set (with __len__ and __getitem__), an iterable that "
        "can be read again, a DataLoader or a Hugging Face data set."
    )


def _instead_of(data: Any) -> str:
    if hasattr(data, "iloc"):
        return "Give its rows: frame.to_dict('records')."
    if isinstance(data, Mapping):
        return "Give each of its data sets by itself, or a list of rows."
    if isinstance(data, set | frozenset):
        return "Its order changes from run to run: give sorted(data)."
    return "Give a data set or a list of rows."
