"""What a store is (fixed before the first tile) and what it is when complete: two small JSON files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnover.errors import StoreDamagedError, StoreError, StoreMismatchError

from .files import read_bytes, write_atomically
from .geometry import ArraySpec, tiles_of
from .json_values import Json, differences, from_record, parse, plain, to_record
from .lock import LOCK_FILES
from .marks import Marks

FORMAT = 1
MANIFEST_NAME = "turnover-store.json"
COMPLETE_NAME = "complete.json"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 20


@dataclass(frozen=True)
class Manifest:
    """What a folder was made for: the identity of its content and the geometry of its tiled arrays."""

    identity: dict[str, Any]
    arrays: dict[str, ArraySpec]

    @classmethod
    def of(cls, identity: Mapping[str, Json], arrays: Mapping[str, ArraySpec]) -> "Manifest":
        """Return the manifest of a store that is asked for, after all checks that need no disk."""
        for name in arrays:
            check_name(name)
        tiles_of(arrays)
        return cls(plain(identity, where="identity"), dict(arrays))

    @property
    def tiles(self) -> int:
        """The number of tiles of every tiled array."""
        return tiles_of(self.arrays)

    def write(self, folder: Path) -> None:
        """Make a folder a store."""
        arrays = {name: _spec_to_json(spec) for name, spec in self.arrays.items()}
        content = {"format": FORMAT, "identity": self.identity, "arrays": arrays}
        write_atomically(folder / MANIFEST_NAME, to_record(content, indent=2), sync=True)


@dataclass(frozen=True)
class Complete:
    """What the end of the work adds: attributes, whole arrays and all checksums."""

    attributes: dict[str, Any]
    marks: Marks
    whole: dict[str, ArraySpec]
    whole_checksums: dict[str, str]

    def write(self, folder: Path) -> None:
        """Declare a store complete."""
        whole = {
            name: {**_spec_to_json(spec), "sha256": self.whole_checksums.get(name)} for name, spec in self.whole.items()
        }
        names = self.marks[0] if self.marks else ()
        tiles = {name: [self.marks[tile][name] for tile in sorted(self.marks)] for name in names}
        content = {"format": FORMAT, "attributes": self.attributes, "tiles": tiles, "whole": whole}
        write_atomically(folder / COMPLETE_NAME, to_record(content, indent=1), sync=True)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in a folder, None where the folder is missing or empty; refuse anything else."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{str(folder)!r} is a file; a folder is needed.")
    data = read_bytes(folder / MANIFEST_NAME)
    if data is None:
        _refuse_foreign(folder)
        return None
    raw = parse(data)
    version = None if raw is None else raw.get("format")
    # Before the checksum: another format may compute that in another way.
    if isinstance(version, int) and version != FORMAT:
        raise StoreError(
            f"the store {str(folder)!r} has format {version}; this version of turnover reads and writes format "
            f"{FORMAT}. Use the version that made it, or give another folder."
        )
    content = from_record(data)
    if content is None:
        raise StoreDamagedError(
            f"{MANIFEST_NAME} in {str(folder)!r} is damaged, so nobody can tell what the folder was made for. "
            "Give another folder, or delete this one."
        )
    arrays = {name: _spec_from_json(spec) for name, spec in content["arrays"].items()}
    return Manifest(content["identity"], arrays)


def check_same(folder: Path, stored: Manifest, given: Manifest) -> None:
    """Raise an error that names every difference between what a folder holds and what is asked for."""
    before, after = (
        {name: _spec_to_json(spec) for name, spec in manifest.arrays.items()} for manifest in (stored, given)
    )
    lines = differences(stored.identity, given.identity) + differences(before, after, where="arrays")
    if lines:
        shown = "".join(f"\n  {line}" for line in lines[:_LISTED])
        if len(lines) > _LISTED:
            shown += f"\n  and {len(lines) - _LISTED} more"
        raise StoreMismatchError(
            f"the folder {str(folder)!r} holds results of something else:{shown}\n"
            "Choose another folder, or run again what this one was made for."
        )


def read_complete(folder: Path) -> Complete | None:
    """Return what declares a store complete; None where it is not."""
    data = read_bytes(folder / COMPLETE_NAME)
    if data is None:
        return None
    content = from_record(data)
    if content is None:
        raise StoreDamagedError(
            f"{COMPLETE_NAME} in {str(folder)!r} is damaged. Run the call that made the folder again with it: "
            "it computes everything anew."
        )
    tiles: dict[str, list[str]] = content["tiles"]
    marks: Marks = {
        tile: dict(zip(tiles, checksums, strict=True))
        for tile, checksums in enumerate(zip(*tiles.values(), strict=True))
    }
    specs = {name: _spec_from_json(entry) for name, entry in content["whole"].items()}
    checksums = {name: entry["sha256"] for name, entry in content["whole"].items() if entry["sha256"]}
    return Complete(content["attributes"], marks, specs, checksums)


def check_name(name: str) -> None:
    """Raise unless an array's name can be a folder beside the store's own files."""
    if not _NAME.fullmatch(name):
        raise StoreError(f"array name {name!r} is no name: use letters, digits and _, and no digit first.")


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    # A writer that was killed before its manifest was there leaves these.
    foreign = sorted(
        entry.name for entry in folder.iterdir() if entry.name not in LOCK_FILES and not entry.match(".*.part")
    )
    if foreign:
        shown = ", ".join(map(repr, foreign[:3])) + (", ..." if len(foreign) > 3 else "")
        raise StoreError(
            f"{str(folder)!r} is not empty and no store of turnover (it holds {shown}). Give a new or an empty folder."
        )


def _spec_to_json(spec: ArraySpec) -> dict[str, Any]:
    return {"shape": list(spec.shape), "dtype": spec.dtype, "tile": list(spec.tile)}


def _spec_from_json(entry: dict[str, Any]) -> ArraySpec:
    return ArraySpec(tuple(entry["shape"]), entry["dtype"], tuple(entry["tile"]))
