"""Rows of the data as people see them, for results in a notebook: pixels and texts, read when they are shown."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from turnover.ids import Name
from turnover.layers import map_tensors

from ._data import TrainRows

_CHANNELS = (1, 3, 4)
_SMALLEST = 8  # pixels of a side: what is smaller is some other array


class RowViews:
    """The rows behind a result; what cannot be read again, or holds neither pixels nor text, is not shown."""

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
        """Return a query by its name."""
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
