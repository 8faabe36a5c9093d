"""What a user gives, as estimators read it: queries, training rows and the instances that they are rows of."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, Subset

from turnover.batches import Batch, batches_of, ids_of, names_in
from turnover.errors import InfluenceError, TurnOverWarning
from turnover.ids import Name, Names, collision, instance_id_of, strings_in
from turnover.layers import as_ids, map_tensors, tensors_in

from .executors import Shared
from .fingerprint import fingerprint_of

_SHOWN = 5
_ROWS_AT_ONCE = 64
_CHANNELS = (1, 3, 4)
_SMALLEST = 8  # pixels of a side: what is smaller is some other array


@dataclass(frozen=True)
class Segment:
    """Some neighboring batches of the training data, the item of a task: rows to be read, or batches that were."""

    number: int
    first: int = 0
    last: int = 0
    batches: Iterable[Batch] | None = None


_keys = count()


class TrainRows:
    """Training data with ids; ids and labels are read once, when they are needed."""

    def __init__(self, data: Any, targets: str | None, *, numbered: bool = False) -> None:
        """Keep the data; nothing is read yet. With `numbered`, rows that carry no ids are numbered from 0."""
        self.data, self._targets, self._numbered = _in_order(data), targets, numbered
        self.shared = Shared(f"training rows {next(_keys)}", self.data)
        self._ids: Tensor | None = None
        self._row_ids = torch.zeros(0, dtype=torch.int64)
        self._names, self._by_id = Names(), dict[int, Name]()
        self._versions: list[int | None] | None = None

    @property
    def length(self) -> int | None:
        """Return the number of rows where it is known."""
        data = getattr(self.data, "dataset", self.data)
        if isinstance(data, Mapping | tuple) and data is self.data:  # tensors given by hand, as many rows in each
            return next((len(tensor) for tensor in tensors_in(data) if tensor.dim() > 0), None)
        try:
            return len(data)
        except TypeError:
            return None

    @property
    def can_be_read_again(self) -> bool:
        return not isinstance(self.data, Iterator)

    def batches(self, size: int = _ROWS_AT_ONCE) -> Iterator[Batch]:
        """Yield all rows in batches; of `size` rows unless the data has batches of its own."""
        with_ids = not self._numbered
        batches = batches_of(self.data, targets=self._targets, training_rows=with_ids, batch_size=size)
        for batch in batches if with_ids else _numbered(batches):
            if batch.names is not None and batch.ids is not None:
                self._keep_names(batch.ids, batch.names)
            yield batch

    def batches_with_ids(self) -> Iterator[tuple[Batch, Tensor]]:
        """Yield all rows in batches with their ids, or raise where they have none."""
        for batch in self.batches():
            if batch.ids is None:
                raise InfluenceError(
                    "the data has no instance ids, so it is not known which mask each row trained. "
                    "Give turnover.with_instance_ids(dataset), or a loader made of it."
                )
            yield batch, batch.ids

    def segments(self, size: int, rows: int, *, streamed: bool) -> Iterator[Segment]:
        """Yield all rows in segments of about so many, cut where batches of `size` rows end.

        With `streamed` they are read here, one after the other; else by who gets the segment, where the data allows
        that. The batches are the same.
        """
        length, step = self.length, self._rows_per_batch(size)
        if not streamed and step is not None and length is not None:
            per_segment = -(-rows // step) * step
            for number, first in enumerate(range(0, length, per_segment)):
                yield Segment(number, first, min(first + per_segment, length))
            return
        batches = self.batches(size)
        for number, first in enumerate(batches):
            waiting = _until(rows, first, batches)
            yield Segment(number, batches=waiting if streamed else list(waiting))

    def batches_of(self, segment: Segment, size: int) -> Iterator[Batch]:
        """Yield the batches of a segment."""
        if segment.batches is not None:
            return iter(segment.batches)
        with_ids = not self._numbered
        data = self.data
        rows = self._some(range(segment.first, segment.last), data.batch_size if isinstance(data, DataLoader) else size)
        batches = batches_of(rows, targets=self._targets, training_rows=with_ids, batch_size=size)
        return batches if with_ids else _numbered(batches, segment.first)

    def can_be_cut(self, size: int) -> bool:
        return self._rows_per_batch(size) == size

    def _rows_per_batch(self, size: int) -> int | None:
        """Return how many rows the batches have where each can be read without those before it; else None."""
        data = self.data
        if isinstance(data, DataLoader):
            plain = isinstance(data.sampler, SequentialSampler) and not isinstance(data.dataset, IterableDataset)
            return data.batch_size if plain else None
        if isinstance(data, Mapping | tuple):
            return size if not isinstance(data, Dataset) else None
        return size if hasattr(data, "__getitem__") and not isinstance(data, IterableDataset | list) else None

    def _some(self, rows: Sequence[int], size: int | None) -> Any:
        """Return some of the rows, in the form of the data; a loader gives `size` at once."""
        data, length = self.data, self.length
        if isinstance(data, Mapping | tuple):
            chosen = slice(rows.start, rows.stop) if isinstance(rows, range) else torch.tensor(rows)
            return map_tensors(
                data, lambda tensor: tensor[chosen] if tensor.dim() and len(tensor) == length else tensor
            )
        if isinstance(data, DataLoader):
            return DataLoader(Subset(data.dataset, rows), batch_size=size, collate_fn=data.collate_fn)
        return data.select(rows) if hasattr(data, "select") else Subset(data, rows)

    def sample(self, most: int) -> Iterator[Batch]:
        """Yield at most so many rows in batches, every one of them from all over the data; nothing of a stream."""
        if self.length is None or not self.can_be_read_again:
            return
        order = torch.randperm(self.length, generator=torch.Generator().manual_seed(0))[:most]
        chosen = self._some(order.tolist(), _ROWS_AT_ONCE)
        yield from batches_of(chosen, targets=self._targets, training_rows=True, batch_size=_ROWS_AT_ONCE)

    @property
    def ids(self) -> Tensor:
        """Return every instance's id once, in the order of the data."""
        if self._ids is None:
            ids = None if self._numbered else ids_of(self.data)
            if ids is None:
                parts = [batch.ids for batch in self.batches()]
                if not parts or any(part is None for part in parts):
                    raise InfluenceError("train has no instance ids. Give train=turnover.with_instance_ids(dataset).")
                ids = torch.cat([part for part in parts if part is not None])
                self._warn_of_labels_as_ids(ids)
            elif (named := names_in(self.data)) is not None:
                self._keep_names(ids, named(ids.tolist()))
            self._ids, self._row_ids = first_of_each(ids), ids
        return self._ids

    def first_row(self, mask_id: int) -> int | None:
        """Return the place of the first row of an instance in the data; None: it has none there."""
        place = int(self.positions(torch.tensor([mask_id]))[0])
        if place < 0 or len(self.ids) == len(self._row_ids):
            return None if place < 0 else place
        return int((self._row_ids == mask_id).nonzero()[0, 0])

    @property
    def names(self) -> Names:
        _ = self.ids
        return self.read_names

    @property
    def read_names(self) -> Names:
        if len(self._names.by_id) != len(self._by_id):
            self._names = Names(dict(self._by_id))
        return self._names

    def _keep_names(self, ids: Tensor, names: Iterable[Name]) -> None:
        for number, name in zip(ids.tolist(), names, strict=True):
            if self._by_id.setdefault(number, name) != name:
                raise collision(name, self._by_id[number], number)

    def _warn_of_labels_as_ids(self, ids: Tensor) -> None:
        """Warn where rows without a target share ids: (x, y) was given, and the labels are taken for ids."""
        different = len(torch.unique(ids))
        if different < len(ids) and next(self.batches()).target is None:
            warnings.warn(
                TurnOverWarning(
                    f"train has rows without a target, and {len(ids):,} rows have {different:,} different ids: the "
                    "last item of a row is its id. If it is the label, give ids too: "
                    "train=turnover.with_instance_ids(dataset), or (x, y, ids)."
                ),
                stacklevel=2,
            )

    def check_unchanged(self) -> None:
        """Raise where tensors given by hand were changed in place since the estimator was fitted on them."""
        tensors = list(tensors_in(self.data)) if isinstance(self.data, Mapping | tuple) else []
        versions = [None if tensor.is_inference() else tensor._version for tensor in tensors]
        if self._versions not in (None, versions):
            raise InfluenceError(
                "the tensors of train were changed since the first question, and former values are in use. Make a new "
                "engine: Influence(model, train=data)."
            )
        self._versions = versions

    @cached_property
    def digest(self) -> str:
        return fingerprint_of([fingerprint_of([b.args, b.kwargs, b.target, b.ids]) for b in self.batches()])

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.ids.numpy(), kind="stable")
        return self.ids.numpy()[order], order

    def positions(self, ids: Tensor) -> np.ndarray:
        """Return the place of each instance among all; -1 for one that is not in the training data."""
        known, order = self._sorted
        given = ids.cpu().numpy()
        place = np.minimum(np.searchsorted(known, given), len(known) - 1)
        return np.where(known[place] == given, order[place], -1)

    def places(self, batch: Batch) -> np.ndarray:
        """Return the place of every row's instance among all, or raise where a row has none."""
        if batch.ids is None:
            raise InfluenceError("train has no instance ids. Give train=turnover.with_instance_ids(dataset).")
        places = self.positions(batch.ids)
        if places.min() < 0:
            raise InfluenceError(
                f"train showed instance {int(batch.ids[places.argmin()])} now, but not when it was read before: its "
                "sampler draws other rows every time. Give train= the data set itself."
            )
        return places

    def check_complete(self, rows_of: np.ndarray) -> None:
        """Raise where the training data did not show some of its instances; `rows_of` counts the rows of each."""
        missing = np.flatnonzero(rows_of == 0)
        if len(missing):
            raise InfluenceError(
                f"train gave no row for {len(missing)} of its {len(rows_of)} instances, {int(self.ids[missing[0]])} "
                "for one: a loader with drop_last or a sampler skips rows, or it can be read only once. Give train= "
                "the data set itself."
            )

    def check_known(self, ids: Tensor) -> None:
        """Raise for ids that are not in the training data."""
        unknown = ids[~torch.isin(ids, self.ids)]
        if len(unknown):
            shown = ", ".join(map(str, self.names.shown(unknown[:_SHOWN].numpy())))
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            raise InfluenceError(
                f"ids {shown}{more} are not in train. Give ids of training rows, or leave `train` out to score any id."
            )

    def labels_of(self, ids: Tensor) -> np.ndarray:
        """Return the label of each instance."""
        labels, is_known = self._labels
        places = self.positions(ids)
        missing = ids.cpu().numpy()[(places < 0) | ~is_known[places]]
        if len(missing):
            raise InfluenceError(
                f"train gave no label for {len(missing)} instances, {int(missing[0])} for one: a loader with drop_last "
                "or a sampler skips rows. Give train= the data set itself, or labels=[...], one for each instance."
            )
        return labels[places]

    @cached_property
    def _labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the label of every instance, in the order of `ids`, and whether a row showed it."""
        labels, is_known = np.zeros(0), np.zeros(len(self.ids), bool)
        for batch in self.batches():
            if batch.ids is None or not isinstance(batch.target, Tensor) or batch.target.dim() != 1:
                raise InfluenceError("train has no labels. Give labels=[...], one for each instance.")
            if not len(labels):
                labels = np.zeros(len(self.ids), batch.target.cpu().numpy().dtype)
            places, given = self.positions(batch.ids), batch.target.cpu().numpy()
            places, given = places[places >= 0], given[places >= 0]
            new = np.flatnonzero(~is_known[places])[::-1]  # of several rows the first is written last, and stays
            labels[places[new]], is_known[places[new]] = given[new], True
            differs = np.flatnonzero(labels[places] != given)
            if len(differs):
                place, other = places[differs[0]], given[differs[0]].item()
                raise InfluenceError(
                    f"rows of instance {int(self.ids[place])} have different labels, {labels[place].item()!r} and "
                    f"{other!r}, so a group has no label of its own. Give labels=[...], one for each instance."
                )
        return labels, is_known


def _until(rows: int, first: Batch, others: Iterator[Batch]) -> Iterator[Batch]:
    """Yield a batch and those after it, until there are so many rows."""
    yield first
    done = first.rows
    while done < rows and (batch := next(others, None)) is not None:
        yield batch
        done += batch.rows


def _numbered(batches: Iterator[Batch], start: int = 0) -> Iterator[Batch]:
    """Yield batches whose rows have ids: their own, or their places in the data, of which the first is `start`."""
    for batch in batches:
        yield batch if batch.ids is not None else replace(batch, ids=torch.arange(start, start + batch.rows))
        start += batch.rows


def _in_order(data: Any) -> Any:
    """Return a loader that shuffles or drops rows as one that gives all rows in the order of the data set."""
    if not isinstance(data, DataLoader) or data.batch_size is None:
        return data
    shuffles = isinstance(data.sampler, RandomSampler)
    if not shuffles and not (isinstance(data.sampler, SequentialSampler) and data.drop_last):
        return data
    kept = "num_workers collate_fn pin_memory timeout worker_init_fn multiprocessing_context prefetch_factor".split()
    return DataLoader(data.dataset, batch_size=data.batch_size, **{name: getattr(data, name) for name in kept})


def first_of_each(ids: Tensor) -> Tensor:
    """Return ids without repetitions, in the order of their first appearance."""
    given = ids.cpu()
    if bool((given[1:] > given[:-1]).all()):  # as most are; a sorted copy of 10^9 ids would take their memory thrice
        return given
    values, first = np.unique(ids.cpu().numpy(), return_index=True)
    return torch.from_numpy(values[np.argsort(first)])


class Instances:
    """The instances of the training data, or any where that is not given."""

    def __init__(
        self,
        train: Any,
        names: Mapping[int, Any] | Iterable[Any] | None,
        *,
        targets: str | None,
        numbered: bool,
    ) -> None:
        """Keep data and names; ids are read only to count names. With `numbered`, rows without ids are numbered."""
        self.targets, self._numbered = targets, numbered
        self.train = None if train is None else self.rows(train)
        self._given_names, self._are_all_named = Names.given(names), names is not None
        in_order = names is not None and not isinstance(names, Mapping)
        if in_order and self.train is not None and self.train.can_be_read_again and self.train.length is not None:
            self._given_names.check_all_named(self.train.ids.numpy())

    @property
    def names(self) -> Names:
        return self._given_names if self.train is None else self.train.names | self._given_names

    def rows(self, data: Any) -> TrainRows:
        """Return the rows of this data; None: those of `train`."""
        if data is not None:
            return TrainRows(data, self.targets, numbered=self._numbered)
        if self.train is None:
            raise InfluenceError("which rows? Give the data with ids, or Influence(model, train=data).")
        return self.train

    def chosen(self, ids: Any) -> Tensor:
        """Return the mask ids of instances that can be asked about; None: all of `train`."""
        if ids is None:
            if self.train is None:
                raise InfluenceError(
                    "which instances? Give ids=..., or the training data: Influence(model, train=data)."
                )
            return self.train.ids
        chosen = self.mask_ids(ids).cpu()
        if self.train is not None:
            self.train.check_known(chosen)
        return chosen

    def mask_ids(self, ids: Any) -> Tensor:
        """Return mask ids in place of names; a string whose hash was trained, or may have been, stands for it."""
        strings = [] if self._are_all_named else strings_in(ids)
        if strings:
            hashes = np.array([instance_id_of(one) for one in strings], np.int64)
            trained = np.ones(len(hashes), bool) if self.train is None else np.isin(hashes, self.train.ids.numpy())
            kept = zip(hashes[trained].tolist(), np.array(strings, object)[trained], strict=True)
            self._given_names = Names({**dict(kept), **self._given_names.by_id})
        return as_ids(self.names.mask_ids(ids, error=InfluenceError))

    def named(self, mask_ids: np.ndarray, rows: TrainRows) -> dict[str, Any]:
        return {"ids": (rows.read_names | self._given_names).shown(mask_ids), "mask_ids": mask_ids}

    def labels(self, ids: Tensor, given: Any = None) -> np.ndarray:
        """Return the labels of instances: those given in their order, or of `train`."""
        if given is None:
            if self.train is None:
                raise InfluenceError(
                    "label= needs the labels of the instances. Give labels=[...] or Influence(train=data)."
                )
            return self.train.labels_of(ids)
        labels = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
        if len(labels) != len(ids):
            raise InfluenceError(
                f"{len(labels)} labels for {len(ids)} instances. Give one label for each, in their order."
            )
        return labels


class RowViews:
    """The rows behind a result as notebooks show them; not what cannot be read again, or is neither image nor text."""

    def __init__(self, train: TrainRows | None, queries: Any = None, names: tuple[Name, ...] = ()) -> None:
        """Keep the data; nothing is read yet. `names` are those of the queries, in the order of their data."""
        self._train, self._queries, self._names = train, queries, names

    def instance(self, mask_id: int) -> str | NDArray[np.uint8] | None:
        """Return the first row of an instance."""
        if self._train is None:
            return None
        row = self._train.first_row(mask_id)
        name = self._train.read_names.by_id.get(mask_id)
        return None if row is None else _shown(self._train.data, row, name)

    def query(self, name: Name) -> str | NDArray[np.uint8] | None:
        return _shown(self._queries, self._names.index(name), name) if name in self._names else None


def _shown(data: Any, index: int, name: Name | None) -> str | NDArray[np.uint8] | None:
    try:
        row = _row(data, index)
    except Exception:  # noqa: BLE001 - without a picture the rest is still right: data may be gone
        return None
    values = list(_values(row))
    pixels = next((found for found in map(_pixels, values) if found is not None), None)
    if pixels is not None:
        return pixels
    texts = [value for value in values if isinstance(value, str) and value != name]
    return max(texts, key=len, default=None)


def _row(data: Any, index: int) -> Any:
    if isinstance(data, DataLoader):
        data = data.dataset
    if isinstance(data, IterableDataset | Iterator):
        return None
    if isinstance(data, Tensor):
        return data[index]
    if isinstance(data, Mapping | tuple):
        return map_tensors(data, lambda tensor: tensor[index] if tensor.dim() else tensor)
    return (data.with_format(None) if hasattr(data, "with_format") else data)[index]


def _values(row: Any) -> Iterator[Any]:
    if isinstance(row, Mapping):
        row = tuple(row.values())
    if not isinstance(row, tuple | list):
        yield row
        return
    for value in row[:64]:  # longer ones are lists of numbers, not of columns
        yield from _values(value) if isinstance(value, Mapping | tuple) else (value,)


def _pixels(value: Any) -> NDArray[np.uint8] | None:
    """Return an image as uint8 [height, width, channels]; None: it is none."""
    if hasattr(value, "convert") and hasattr(value, "getbands"):  # of Pillow
        value = np.asarray(value.convert("RGB"))
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy() if value.dtype.is_floating_point or value.dim() == 3 else None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fu":
        return None
    if value.ndim == 2 and value.shape[0] == value.shape[1]:
        value = value[..., None]
    if value.ndim == 3 and value.shape[-1] not in _CHANNELS and value.shape[0] in _CHANNELS:
        value = np.moveaxis(value, 0, -1)
    if value.ndim != 3 or value.shape[-1] not in _CHANNELS or min(value.shape[:2]) < _SMALLEST:
        return None
    if value.dtype == np.uint8:
        return value
    low, high = float(np.nanmin(value)), float(np.nanmax(value))
    low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    return np.clip((value - low) / max(high - low, 1e-9) * 255, 0, 255).astype(np.uint8)
