"""DataLoaders whose batches carry ids, and what is known about ids without reading rows.

The user's collate_fn sees its rows as ever.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, Subset

from turnover.errors import DataSetError, DuplicateIdError, InstanceIdError
from turnover.ids import Name, instance_id_of

from ._content import reject_several_workers
from ._roots import is_hugging_face, leaves
from .columns import Column, names_of
from .datasets import Carrier, InstanceIdDataset, InstanceIdIterable
from .forms import INSTANCE_ID, NumberedRow, attach


def loader_with_ids(loader: Any, column: Column | None) -> Any:
    """Return a DataLoader with all settings of the given one whose batches carry ids."""
    if hasattr(loader, "base_dataloader"):
        raise DataSetError(
            f"a {type(loader).__name__} only stands in for another loader. "
            "Give ids to the DataLoader first, then prepare it."
        )
    data: Any = loader.dataset
    if carries_ids(data) and not _is_own(column):
        if column is not None:
            raise InstanceIdError(
                f"the data set of this loader already carries ids, so {column} has no use. "
                "Give ids once, to the data set or to the loader."
            )
        return loader
    batched = loader.batch_sampler is not None
    kind = InstanceIdDataset
    if isinstance(data, IterableDataset):
        kind = InstanceIdIterable
        if column is None:
            reject_several_workers(loader.num_workers)
    # A copy keeps subclasses and settings that are not known here. DataLoader.__setattr__ rejects
    # another data set, lest it have another length; this one has the same.
    clone = copy.copy(loader)
    clone.__dict__.update(
        dataset=kind(data, column, NumberedRow, whole_batches=not batched),
        collate_fn=_CollateWithIds(loader.collate_fn, batched, _is_own(column)),
        _iterator=None,
    )
    return clone


@dataclass(frozen=True)
class _CollateWithIds:
    """Hides the ids from the user's collate_fn and attaches them to what it returns."""

    collate_fn: Callable[[Any], Any]
    batched: bool  # whether it gets a list of rows (automatic batching) or one row
    replace: bool = False  # the user's own column is named "instance_id" and is overwritten

    def __call__(self, fetched: Any) -> Any:
        """Return the collated batch with its ids."""
        if not self.batched:
            row, number = fetched
            return attach(self.collate_fn(row), number, replace=self.replace)
        rows = [row for row, _ in fetched]
        ids = [number for _, number in fetched]
        given = list(rows)
        batch = self.collate_fn(rows)
        _reject_moved_rows(given, rows, ids)
        return attach(batch, torch.tensor(ids, dtype=torch.int64), replace=self.replace)


def _reject_moved_rows(given: list[Any], left: list[Any], ids: list[int]) -> None:
    """Raise where it shows that the collate_fn drops or reorders rows: ids could not follow."""
    for row, number in zip(given, ids, strict=True):
        if row is None:
            raise DataSetError(
                f"the row with id {number} is None, and a collate_fn that drops it would shift the "
                "ids of the others. Leave such rows out of the data set."
            )
    known = {id(row) for row in given}
    if len(left) != len(given) or any(
        now is not before and id(now) in known for now, before in zip(left, given, strict=True)
    ):
        raise DataSetError(
            "collate_fn reorders or drops rows of its list, and the ids cannot follow. Give ids to "
            "the data set, so that they are part of the rows: "
            "DataLoader(with_instance_ids(dataset), collate_fn=...)."
        )


def carries_ids(data: Any) -> bool:
    """Return whether all rows of a data set or batches of a loader carry ids; raise if they do not fit together."""
    parts = list(leaves(cast(Any, data).dataset if isinstance(data, DataLoader) else data))
    having = [isinstance(part, Carrier) or _has_id_column(part) for part in parts]
    if any(having) and not all(having):
        raise InstanceIdError(
            "some parts of the concatenated data set carry ids and others do not. "
            "Concatenate first, then give ids to the whole."
        )
    counted = [part for part in parts if isinstance(part, Carrier) and part.counts_rows]
    if len({part.numbering for part in counted}) > 1:
        raise DuplicateIdError(
            "the parts of the concatenated data set were given ids one by one, so different rows share "
            "an id: each part counts from 0. Concatenate first, then give ids to the whole."
        )
    return all(having)


def _has_id_column(data: Any) -> bool:
    return is_hugging_face(data) and INSTANCE_ID in data.column_names


def _is_own(column: Column | None) -> bool:
    return column is not None and column.name == INSTANCE_ID


def ids_of(data: Any) -> Tensor | None:
    """Return the ids of all rows in order, or None where only reading them would tell."""
    if isinstance(data, DataLoader):
        loader = cast(Any, data)
        everything = isinstance(loader.sampler, RandomSampler | SequentialSampler)
        return ids_of(loader.dataset) if everything else None
    if isinstance(data, Subset):
        subset = cast(Any, data)
        below = ids_of(subset.dataset)
        return None if below is None else below[torch.as_tensor(list(subset.indices))]
    if _has_id_column(data):
        return torch.tensor(list(data[INSTANCE_ID]), dtype=torch.int64)
    if isinstance(data, InstanceIdDataset) and data.counts_rows:
        return torch.tensor(data.numbers(), dtype=torch.int64)
    return None


def names_in(data: Any) -> Callable[[Sequence[Name]], list[Name]] | None:
    """Return what puts the user's strings in place of ids that are their hashes; None: the data has no strings.

    A data set with ids knows its strings. A Hugging Face data set has them in a column, also one that is not shown:
    that whose hashes the ids are.
    """
    lookups: list[Callable[[Sequence[Name]], list[Name]]] = []
    for part in leaves(cast(Any, data).dataset if isinstance(data, DataLoader) else data):
        if isinstance(part, Carrier) and not part.counts_rows:
            lookups.append(part.named)
        elif _has_id_column(part) and len(part) and (names := _strings_in(part)):
            lookups.append(lambda ids, names=names: [names.get(cast(int, number), number) for number in ids])
    if not lookups:
        return None

    def named(ids: Sequence[Name]) -> list[Name]:
        for lookup in lookups:
            ids = lookup(ids)
        return list(ids)

    return named


def _strings_in(data: Any) -> dict[int, str]:
    """Return the strings behind the ids of a Hugging Face data set."""
    every = data.with_format(None)
    first: dict[str, Any] = every[0]
    for name, value in first.items():
        if isinstance(value, str) and instance_id_of(value) == first[INSTANCE_ID]:
            return names_of(every[name][:])
    return {}
