"""The inputs of all rows of a run: found out from the training rows, and kept where they are dear."""

import numpy as np
import torch
from torch import Tensor

from turnover.errors import RunError
from turnover.integrations import TextEncoder
from turnover.runs.config import RunConfig
from turnover.runs.folder import RunFolder
from turnover.runs.rows import Rows
from turnover.runs.watching import Watch

from .columns import ColumnInputs
from .encoded import EncodedInputs
from .inputs import Inputs
from .ngrams import NgramInputs
from .pixels import PixelInputs
from .tokenized import TokenInputs

# Texts that are encoded before progress is told.
_BLOCK = 256


def fit_inputs(config: RunConfig, rows: Rows, train: np.ndarray, folder: RunFolder, watch: Watch) -> Inputs:
    """Return how values become inputs, found out from the training rows alone.

    Args:
        config: of the run.
        rows: all of them.
        train: numbers of the training rows.
        folder: for what an encoder makes of all rows.
        watch: told how far it is.
    """
    if rows.kind == "image":
        return PixelInputs.fit(rows.values[train])
    if rows.kind == "table":
        return ColumnInputs.fit(rows.values.iloc[train])
    if config.model is None:
        return NgramInputs.fit([rows.values[place] for place in train], rows=len(rows), watch=watch)
    encoder = TextEncoder(config.model)
    if config.adapters:
        return TokenInputs.fit(encoder)
    features = _encoded(encoder, rows.values, watch)
    with folder.features.with_suffix(".part").open("wb") as file:
        np.save(file, features.numpy())
    folder.features.with_suffix(".part").replace(folder.features)
    return EncodedInputs.fit(encoder, features[torch.from_numpy(train)])


def all_inputs(inputs: Inputs, rows: Rows, folder: RunFolder) -> Tensor:
    """Return the inputs of all rows of a run."""
    if isinstance(inputs, EncodedInputs) and folder.features.exists():
        try:
            return inputs.standardized(torch.from_numpy(np.load(folder.features)))
        except (OSError, ValueError, RuntimeError, EOFError) as error:
            raise RunError(
                f"{str(folder.features)!r} is damaged ({type(error).__name__}: {error}). Run it again: {folder.again}"
            ) from error
    return inputs(rows.values)


def _encoded(encoder: TextEncoder, texts: list[str], watch: Watch) -> Tensor:
    parts = []
    # Neighbors are of like length, so that little padding is computed.
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    for start in range(0, len(order), _BLOCK):
        watch("encoding texts", start, len(order))
        parts.append(encoder.features([texts[place] for place in order[start : start + _BLOCK]], progress=False))
    watch("encoding texts", len(order), len(order))
    found = torch.cat(parts)
    return found[torch.argsort(torch.tensor(order))]
