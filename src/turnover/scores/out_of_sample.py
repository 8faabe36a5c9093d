"""Held-out predictions of every row, by the flipped subnetwork that did not train on it."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.ids import Ints
from turnover.storage import plain
from turnover.tables import Facts, counted, html_of, html_table, number_range, shown_row, text_of

from ._arrays import Floats, OfInstances, closed, floats, integers, load_pandas, same
from ._files import arrays_of, attributes_of, read_result, write_result

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]

_SHOWN = 5


class OutOfSample(OfInstances):
    """Held-out predictions of rows, by networks that did not train on them. Arrays are read-only.

    Args:
        replicas: predictions [r, n, classes], of each network; or [n, classes] of one.
        ids: what the rows are called [n], integers or strings; rows of one group share theirs.
        labels: the given label of each row, from 0 to classes − 1; None: not known.
        path: how the predictions were computed, for people to read.
        provenance: all that they depend on, as JSON could hold it.
        mask_ids: the integers that masks are made of [n]; None: `ids`, of strings their hashes.

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
        mask_ids: ArrayLike | None = None,
    ) -> None:
        array = floats(replicas, "replicas")
        if array.ndim == 2:
            array = array[None]
        if array.ndim != 3 or array.shape[0] < 1 or array.shape[2] < 1:
            raise ScoresError(
                f"replicas must have shape [replicas, n, classes] or [n, classes], got {list(array.shape)}."
            )
        self._replicas = array
        super().__init__(ids, mask_ids)
        self._labels = None if labels is None else integers(labels, "labels")
        self._path = path
        self._provenance = plain(provenance or {}, where="provenance", error=ScoresError)
        rows, classes = array.shape[1:]
        for name, given in (("ids", self._ids), ("labels", self._labels)):
            if given is not None and len(given) != rows:
                raise ScoresError(f"there are {len(given)} {name} and {rows} rows of predictions; give one per row.")
        if self._labels is not None and ((self._labels < 0) | (self._labels >= classes)).any():
            bad = np.flatnonzero((self._labels < 0) | (self._labels >= classes))[0]
            raise ScoresError(
                f"labels must be from 0 to {classes - 1}, since there are {classes} classes, got {self._labels[bad]} "
                f"for row {bad}. Where a network has one output for two classes, predict= has to return both "
                "probabilities."
            )
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
        """Return for each row the probability of its given label, in [0, 1]: low for likely label errors.

        It is given by networks that did not train on the row. NaN where a prediction failed.
        """
        if self._labels is None:
            raise ScoresError("labels are not known, so their quality is not; give rows with targets, or labels=.")
        return closed(np.clip(self._probs[np.arange(len(self._labels)), self._labels], 0, 1))

    def equals(self, other: object) -> bool:
        """Tell whether all is the same in both, NaN equal to NaN."""
        if not isinstance(other, OutOfSample):
            return False
        arrays = all(
            same(getattr(self, name), getattr(other, name)) for name in ("replicas", "ids", "mask_ids", "labels")
        )
        return arrays and (self.path, self.provenance) == (other.path, other.provenance)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return one row per instance: label and label_quality where labels are known, then one column per class.

        Needs pandas: pip install 'turnover[store]'.

        Example:
            >>> OutOfSample([[0.75, 0.25]], ids=[7], labels=[0]).to_pandas().reset_index()
               instance  label  label_quality  prob_0  prob_1
            0         7      0           0.75    0.75    0.25
        """
        pandas = load_pandas()
        columns: dict[str, Any] = {}
        if self._labels is not None:
            columns = {"label": self._labels, "label_quality": self.label_quality}
        columns |= {f"prob_{place}": self._probs[:, place] for place in range(self._probs.shape[1])}
        return pandas.DataFrame(columns, index=pandas.Index(self._ids, name="instance"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a folder (needs zarr), or to a file ending with .npz; see `Scores.save`.

        Example:
            >>> import tempfile
            >>> result, file = OutOfSample([[0.75, 0.25]], ids=[7]), f"{tempfile.mkdtemp()}/held_out.npz"
            >>> result.save(file)
            >>> OutOfSample.open(file).equals(result)
            True
        """
        attributes = attributes_of("out_of_sample", {"path": self._path, "provenance": self._provenance})
        write_result(path, attributes, {}, arrays_of(self, "replicas", "labels"))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "OutOfSample":
        """Return the predictions that `save` wrote; see `Scores.open`."""
        return cls(**read_result(path, "out_of_sample"))

    def __repr__(self) -> str:
        """Return a summary that a person can read."""
        return text_of(self._facts)

    def _repr_html_(self) -> str:
        """Return the summary and the rows whose labels are least likely, as a notebook shows them."""
        if self._labels is None:
            return html_of(self._facts)
        quality, rows = self.label_quality, list[list[str]]()
        for at in np.argsort(quality, kind="stable")[:_SHOWN]:
            row = [] if self.views is None else [shown_row(self.views.instance(int(self._mask_ids[at])))]
            predicted = str(np.argmax(self._probs[at]))
            rows.append([str(self._ids[at]), str(self._labels[at]), predicted, f"{quality[at]:.3f}", *row])
        header = ["instance", "label", "predicted", "quality", *([] if self.views is None else [""])]
        return html_of(self._facts) + html_table("Least likely labels", rows, header=header)

    @property
    def _facts(self) -> Facts:
        networks, rows, classes = self._replicas.shape
        lines = [("probs", f"{classes} classes, mean of {counted(networks, 'replica')}")]
        failed = int(np.isnan(self._probs).any(axis=1).sum())
        if failed:
            lines.append(("failed", f"{counted(failed, 'row')} (NaN)"))
        if self._labels is None:
            lines.append(("labels", "not known"))
        else:
            quality = self.label_quality
            low = counted(int(np.count_nonzero(quality < 0.5)), "row")
            lines.append(("labels", f"label_quality {number_range(quality)}; below 0.5 for {low}"))
        lines.append(("path", self._path or "not known"))
        return f"OutOfSample: held-out predictions of {counted(rows, 'row')}", lines
