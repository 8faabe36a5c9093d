"""Arrays that a later run may take instead of computing them: only whole, only under the same identity.

`VectorCache` keeps vectors by the content that they were computed from, across runs in a folder of the user's cache.
What is added becomes a file of its own, so that processes need not wait for each other. Beyond a size the files that
were not used for longest are removed. A file that is damaged is as good as none.
"""

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turnover.errors import StoreError

from .files import arrays_in, disk_errors, sha256_of
from .folders import open_folder
from .records import Json, plain, to_record

CACHE_VARIABLE = "TURNOVER_CACHE"
"""Environment variable with the folder of all caches; empty: nothing is kept across runs."""

_IDENTITY = "identity"
_MOST_BYTES = 4 * 10**9
_KEY_BYTES = 16


class KeptArrays:
    """One npz file in a folder, of named arrays that belong to an identity: what they were computed from, as JSON."""

    def __init__(self, folder: str | os.PathLike[str], name: str, identity: Mapping[str, Json]) -> None:
        self._folder, self._name = open_folder(folder), name
        self._identity = json.dumps(plain(identity, where=_IDENTITY), sort_keys=True)

    def read(self) -> dict[str, np.ndarray] | None:
        """Return the arrays; None: there are none, they are damaged, or they belong to another identity."""
        try:
            with self._folder.reading(self._name) as file, arrays_in(file, self._name) as kept:
                if str(kept[_IDENTITY]) != self._identity:
                    return None
                return {name: kept[name] for name in kept.files if name != _IDENTITY}
        except (OSError, ValueError):
            return None

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the arrays in place of those that are there, whole or not at all."""
        with disk_errors(self._folder), self._folder.writing(self._name) as file:
            named: dict[str, np.ndarray] = {_IDENTITY: np.array(self._identity), **arrays}
            np.savez(file, **named)  # pyright: ignore[reportArgumentType]


def cache_folder() -> Path | None:
    """Return the folder for what is kept across runs: TURNOVER_CACHE, else below the user's cache; None: nowhere."""
    given = os.environ.get(CACHE_VARIABLE)
    if given is not None:
        return Path(given).expanduser() if given else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "turnover"


def content_keys(contents: Iterable[bytes]) -> NDArray[np.bytes_]:
    """Return a key of 16 bytes for each content."""
    digests = b"".join(blake2b(content, digest_size=_KEY_BYTES).digest() for content in contents)
    return np.frombuffer(digests, f"S{_KEY_BYTES}")


class VectorCache:
    """Vectors of one maker, such as an encoder with its weights, by the keys of their contents.

    Example:
        >>> import tempfile
        >>> cache = VectorCache(Path(tempfile.mkdtemp()), {"encoder": "a"})
        >>> cache.add(content_keys([b"one", b"two"]), np.eye(2, dtype=np.float32))
        >>> known, vectors = cache.find(content_keys([b"three", b"two"]), width=2)
        >>> known.tolist(), vectors[1].tolist()
        ([False, True], [0.0, 1.0])
    """

    def __init__(self, folder: Path, identity: Mapping[str, Json], *, most_bytes: int = _MOST_BYTES) -> None:
        """Use a folder, in which makers of other identities share the room of `most_bytes`."""
        self._all, self._identity, self._most_bytes = folder, identity, most_bytes
        self._folder = folder / sha256_of(to_record(dict(identity)))[:24]

    def find(self, keys: NDArray[np.bytes_], width: int) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Return which keys are known [keys] and their vectors [keys, width]; rows of unknown ones mean nothing."""
        known, vectors = np.zeros(len(keys), bool), np.empty((len(keys), width), np.float32)
        for file in _files(self._folder, "*.npz"):
            kept = KeptArrays(file.parent, file.name, self._identity).read()
            if kept is None or kept["vectors"].shape != (len(kept["keys"]), width) or not len(kept["keys"]):
                continue
            order = np.argsort(kept["keys"], kind="stable")
            places = np.searchsorted(kept["keys"], keys, sorter=order).clip(max=len(order) - 1)
            hits = kept["keys"][order[places]] == keys
            vectors[hits] = kept["vectors"][order[places[hits]]]
            known |= hits
            if hits.any():
                with suppress(OSError):  # it was removed meanwhile, or is not ours to touch
                    file.touch()
        return known, vectors

    def add(self, keys: NDArray[np.bytes_], vectors: NDArray[np.float32]) -> None:
        """Keep vectors; a disk that is full or cannot be written to keeps none, which costs time alone."""
        with suppress(StoreError):
            KeptArrays(self._folder, f"{uuid.uuid4().hex}.npz", self._identity).write(
                {"keys": keys, "vectors": np.asarray(vectors, np.float32)}
            )
        used: list[tuple[float, int, Path]] = []
        for file in _files(self._all, "*/*.npz"):
            with suppress(OSError):  # another process removed it
                about = file.stat()
                used.append((about.st_mtime, about.st_size, file))
        size = sum(bytes_ for _, bytes_, _ in used)
        for _, bytes_, file in sorted(used):
            if size <= self._most_bytes:
                return
            with suppress(OSError):
                file.unlink()
            size -= bytes_


def _files(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(file for file in folder.glob(pattern) if not file.name.startswith("."))
    except OSError:
        return []
