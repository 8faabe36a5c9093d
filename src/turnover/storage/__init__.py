"""Named arrays in a folder, written tile by tile, resumable and verified.

Owns: stores of arrays, their tiles, marks and checksums; files that are written whole or not at all; the lock of a
folder. Offers: the store for writing and for reading, `write_atomically`, `atomic_file`, `FolderLock`; checksums of
files and folders, and records that carry their own; readers that check sizes first.
Must not know: scores, models, torch.

| file | idea |
| --- | --- |
| `store.py` | arrays cut into tiles: writing, resuming and reading them |
| `folders.py` | where files are: a folder of a disk, or an object store with a lease for its writer |
| `files.py` | files of a disk that are there whole or not at all; one writer per folder; checksums and sizes |
| `records.py` | values that JSON can hold, their differences, records with a checksum |
| `kept.py` | arrays read back under the same identity only; vectors by content in the user's cache |

    >>> import tempfile
    >>> import numpy as np
    >>> from turnover.storage import ArraySpec, TileStore
    >>> folder = tempfile.mkdtemp()
    >>> spec = ArraySpec(shape=(5, 3), dtype="float32", tile=(2, 3))
    >>> with TileStore.open_for_writing(folder, identity={"seed": 0}, arrays={"values": spec}) as store:
    ...     for tile in store.pending():                        # all of them, or what an earlier run left
    ...         rows, columns = store.region("values", tile)
    ...         part = np.arange(rows.start, rows.stop, dtype="float32")[:, None].repeat(3, axis=1)
    ...         store.write(tile, {"values": part})
    ...     if not store.complete:
    ...         store.finish({"unit": "nats"}, whole={"offset": np.zeros(3)})
    >>> stored = TileStore.open_for_reading(folder)
    >>> stored.complete, stored.identity, stored.attributes, sorted(stored.arrays)
    (True, {'seed': 0}, {'unit': 'nats'}, ['offset', 'values'])
    >>> stored.read("values")[:, 0].tolist()                    # checksums verified
    [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> float(stored.array("values")[4, 2])                     # lazily, through zarr
    4.0

**Identity.** What determines the content is given as JSON and fixed before the first tile. A folder of another identity
or geometry, of another format, or with content of its own is rejected. **Resuming.** A tile is done when its files and,
after them, their SHA-256 in `tiles.json` are on the disk. `open_for_writing` verifies all of that; what is missing,
truncated or altered is pending again. A run that was killed and resumed any number of times ends with the same bytes as
one that was not. **Writers.** One at a time, by a lock of the operating system that ends with its process; in an object
store by a lease that is renewed. Other processes may write tiles (`TileWriter`), which the writer marks. Readers need
no lock.

| in a folder | content | there |
| --- | --- | --- |
| `arrays/` | a zarr 3 group, one file per tile | always |
| `turnover-store.json` | format, identity, geometry of the tiled arrays | always |
| `tiles.json` | checksums of the tiles that are done; when complete, attributes and whole arrays | always |
| `factors.npz` | what an estimator fitted (`KeptArrays`), for a resume | where it has to fit much |
| `writer.lock`, `writer.json` | the lock; process, host and start of the writer | while written |

zarr is in the extra `store`, s3fs and gcsfs in `s3` and `gs`; they are imported on use.
"""

from .files import (
    LOCK_FILES,
    FolderLock,
    atomic_file,
    check_memory,
    check_stored,
    digest_of,
    holds,
    is_full,
    is_path,
    open_arrays,
    read_array,
    readable,
    sha256_of,
    write_atomically,
)
from .folders import Folder, open_folder
from .kept import KeptArrays, VectorCache, cache_folder, content_keys
from .records import Json, as_plain, from_record, plain, to_record, wrong_types
from .store import ArraySpec, StoredArrays, TileStore, TileWriter

__all__ = [
    "LOCK_FILES",
    "ArraySpec",
    "Folder",
    "FolderLock",
    "Json",
    "KeptArrays",
    "StoredArrays",
    "TileStore",
    "TileWriter",
    "VectorCache",
    "as_plain",
    "atomic_file",
    "cache_folder",
    "check_memory",
    "check_stored",
    "content_keys",
    "digest_of",
    "from_record",
    "holds",
    "is_full",
    "is_path",
    "open_arrays",
    "open_folder",
    "plain",
    "read_array",
    "readable",
    "sha256_of",
    "to_record",
    "write_atomically",
    "wrong_types",
]
