"""Predictions of every row by the part of the network that never saw it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError

from .about import plain_provenance
from .arrays import Floats, Ints, close, closed, floats, instance_ids, same, whole_numbers

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]


class OutOfSample:
    """Predictions of rows by the networks that never learned them. Arrays are closed to writing.

    Args:
        replicas: predictions [r, n, classes], of each network; or [n, classes] of one.
        ids: instance ids [n]; rows of one group share theirs.
        labels: the given label of each row, from 0 to classes − 1; None: not known.
        path: how the predictions were computed, for people to read.
        provenance: all that they depend on, as JSON could hold it.

    Raises:
        ScoresError: shapes or types do not fit.

    Example:
        >>> result = OutOfSample([[0.9, 0.1], [0.2, 0.8]], ids=[7, 8], labels=[0, 0])
        >>> result.label_quality
        array([0.9, 0.2], dtype=float32)
    """

    def __init__(
        self,
        replicas: ArrayLike,
        *,
        ids: ArrayLike,
        labels: ArrayLike | None = None,
        path: str = "",
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        array = floats(replicas, "replicas")
        if array.ndim == 2:
            array = array[None]
        if array.ndim != 3 or array.shape[0] < 1 or array.shape[2] < 1:
            raise ScoresError(f"replicas have shape {list(array.shape)}; give [replicas, n, classes] or [n, classes].")
        self._replicas = array
        self._ids = instance_ids(ids)
        self._labels = None if labels is None else whole_numbers(labels, "labels")
        self._path = path
        self._provenance = plain_provenance(provenance)
        rows, classes = array.shape[1:]
        if len(self._ids) != rows:
            raise ScoresError(f"there are {len(self._ids)} ids and {rows} rows of predictions; give one id a row.")
        if self._labels is not None:
            _check_labels(self._labels, rows, classes)
        # In float64: the mean of 1,000 replicas is as exact as that of one.
        self._probs = array[0] if len(array) == 1 else closed(array.mean(axis=0, dtype=np.float64).astype(np.float32))

    @property
    def probs(self) -> Floats:
        """Return the predictions averaged over the replicas, float32 [n, classes]."""
        return self._probs

    @property
    def replicas(self) -> Floats:
        """Return the predictions of each network, float32 [r, n, classes]."""
        return self._replicas

    @property
    def ids(self) -> Ints:
        """Return the instance ids, int64 [n]."""
        return self._ids

    @property
    def labels(self) -> Ints | None:
        """Return the given labels, int64 [n]; None: not known."""
        return self._labels

    @property
    def path(self) -> str:
        """Return how the predictions were computed."""
        return self._path

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Return all that the predictions depend on."""
        return self._provenance

    @property
    def label_quality(self) -> Floats:
        """Return for each row the probability of its given label, in [0, 1]: low for labels that look wrong.

        It is given by networks that never saw the row with that label. NaN where a prediction failed.

        Raises:
            ScoresError: labels are not known.
        """
        if self._labels is None:
            raise ScoresError("labels are not known, so their quality is not; give rows with targets, or labels=.")
        return closed(np.clip(self._probs[np.arange(len(self._labels)), self._labels], 0, 1))

    def equals(self, other: object) -> bool:
        """Tell whether all is the same in both, NaN equal to NaN."""
        if not isinstance(other, OutOfSample):
            return False
        arrays = all(same(getattr(self, name), getattr(other, name)) for name in ("replicas", "ids", "labels"))
        return arrays and (self.path, self.provenance) == (other.path, other.provenance)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return one row an instance: label and label_quality where labels are known, then one column a class.

        Needs pandas: pip install 'turnover[store]'.

        Example:
            >>> OutOfSample([[0.75, 0.25]], ids=[7], labels=[0]).to_pandas().reset_index()
               instance  label  label_quality  prob_0  prob_1
            0         7      0           0.75    0.75    0.25
        """
        from .tables import out_of_sample_table

        return out_of_sample_table(self)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._ids)

    def __repr__(self) -> str:
        """Return a summary that a person can read."""
        from .text import out_of_sample_text

        return out_of_sample_text(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))


def _check_labels(labels: Ints, rows: int, classes: int) -> None:
    if len(labels) != rows:
        raise ScoresError(f"there are {len(labels)} labels and {rows} rows of predictions; give one label a row.")
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if bad.size:
        raise ScoresError(
            f"row {bad[0]} has the label {labels[bad[0]]} and there are {classes} classes; labels go from 0 to "
            f"{classes - 1}. Where a network has one output for two classes, predict= has to return both probabilities."
        )
