"""From raw values to what a network takes: fitted on training rows, kept in a run folder as JSON."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.integrations import TextEncoder
from turnover.runs._packed import PackedTexts
from turnover.runs.config import RunConfig, Watch
from turnover.runs.folder import RunFolder
from turnover.runs.rows import Rows
from turnover.storage import VectorCache, atomic_file, cache_folder, content_keys, read_array, wrong_types

from ._texts import EncodedInputs, NgramInputs, TokenInputs
from .columns import ColumnInputs, with_tuples
from .pixels import PixelInputs

Inputs = NgramInputs | EncodedInputs | TokenInputs | ColumnInputs | PixelInputs
"""What turns values into inputs: has a `kind`, is called with values, and is kept as its fields."""

_READERS: dict[str, Callable[..., Inputs]] = {
    **{known.kind: known for known in (NgramInputs, EncodedInputs, TokenInputs, PixelInputs)},
    ColumnInputs.kind: ColumnInputs.of_json,
}
# Texts that are encoded between two calls of a watch, and between two additions to the cache.
_BLOCK, _KEPT_AT_ONCE = 256, 4096


def fit_inputs(
    config: RunConfig, rows: Rows, train: np.ndarray, folder: RunFolder, watch: Watch
) -> tuple[Inputs, Tensor]:
    """Return how values become inputs, fitted on the training rows alone, and the inputs of all rows."""
    if rows.kind == "text" and config.model is not None and not config.adapters:
        encoder = TextEncoder(config.model)
        features = encoded_texts(encoder, rows.values, watch)
        with folder.writing(), atomic_file(folder.features) as file:
            np.save(file, features.numpy())
        encoded = EncodedInputs.fit(encoder, features[torch.from_numpy(train)])
        return encoded, encoded.standardized(features)
    inputs = _fitted(config, rows, train, watch)
    if not isinstance(inputs, NgramInputs):
        return inputs, inputs(rows.values)
    count = len(train) + len(rows)
    x = inputs(rows.values, lambda done: watch("features", len(train) + done, count, "weighing pieces of words"))
    watch("features", count, count)
    return inputs, x


def inputs_of_rows(inputs: Inputs, rows: Rows, folder: RunFolder) -> Tensor:
    """Return the inputs of all rows of a run."""
    if isinstance(inputs, EncodedInputs) and folder.features.exists():
        with folder.reading(folder.features):
            return inputs.standardized(torch.from_numpy(read_array(folder.features)))
    return inputs(rows.values)


def inputs_as_json(inputs: Inputs) -> str:
    """Return how values become inputs, as JSON."""
    return json.dumps({"kind": inputs.kind, **asdict(inputs)}) + "\n"


def read_inputs(folder: RunFolder) -> Inputs:
    """Return how values become inputs in a run."""
    with folder.reading(folder.inputs):
        state: dict[str, Any] = json.loads(folder.inputs.read_text(encoding="utf-8"))
        inputs = _READERS[state.pop("kind")](**with_tuples(state))
        if wrong := wrong_types(inputs):
            raise TypeError(f"values of the wrong type: {', '.join(wrong)}")
        return inputs


def _fitted(config: RunConfig, rows: Rows, train: np.ndarray, watch: Watch) -> Inputs:
    if rows.kind == "image":
        return PixelInputs.fit(rows.values[train])
    if rows.kind == "table":
        return ColumnInputs.fit(rows.values.iloc[train])
    if config.model is not None:
        return TokenInputs.fit(TextEncoder(config.model))
    return NgramInputs.fit(PackedTexts(rows.values[place] for place in train.tolist()), rows=len(rows), watch=watch)


def encoded_texts(encoder: TextEncoder, texts: PackedTexts, watch: Watch) -> Tensor:
    """Return the features of texts, each different one computed once; what an earlier run computed is taken from it."""
    keys, first, same = np.unique(
        content_keys(text.encode("utf-8", "surrogatepass") for text in texts), return_index=True, return_inverse=True
    )
    folder = cache_folder()
    cache = None if folder is None else VectorCache(folder / "features", {"encoder": encoder.digest(), "format": 1})
    features = np.empty((len(keys), encoder.width), np.float32)
    known = np.zeros(len(keys), bool)
    if cache is not None:
        known, features = cache.find(keys, encoder.width)
    # Neighbors have similar lengths, so that little padding is computed.
    missing = np.flatnonzero(~known)
    missing = missing[np.argsort(texts.lengths[first[missing]], kind="stable")]
    done = 0
    for part in np.split(missing, range(_KEPT_AT_ONCE, len(missing), _KEPT_AT_ONCE)):
        for start in range(0, len(part), _BLOCK):
            watch("features", done + start, len(missing), "encoding texts")
            block = part[start : start + _BLOCK]
            features[block] = encoder.features([texts[place] for place in first[block].tolist()]).numpy()
        done += len(part)
        if cache is not None and len(part):
            cache.add(keys[part], features[part])
    watch("features", 1, 1)
    return torch.from_numpy(features[same.reshape(-1)])
