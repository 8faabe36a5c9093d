"""The training instances that questions are about: what users call them, their mask ids, rows and labels."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.ids import Names, instance_id_of, strings_in
from turnover.layers import as_ids

from ._data import TrainRows


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
        if names is not None and not isinstance(names, Mapping) and self.train is not None and self.train.has_length:
            self._given_names.check_all_named(self.train.ids.numpy())

    @property
    def names(self) -> Names:
        """Return what instances are called that are not called by their mask ids."""
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
        """Return the ids of rows that were read, as results take them."""
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
