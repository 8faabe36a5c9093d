"""What a store is, which tiles are done, and what it is when complete: small JSON files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from turnover.errors import StoreDamagedError, StoreError

from .arrays import ArraySpec, tiles_of
from .folders import Folder
from .json_values import Json, differences, from_record, parse, plain, to_record
from .lock import LOCK_FILES

COMPLETE_NAME = "complete.json"
_FORMAT = 1
_MANIFEST_NAME = "turnover-store.json"
_MARKS_NAME = "done.jsonl"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 20
# What a manifest of other values than ours fails with, where it is taken apart.
_WRONG_TYPES = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

_Marks = dict[int, dict[str, str]]
"""Tile -> array -> checksum of the tile's file."""


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

    def write(self, folder: Folder) -> None:
        """Make a folder a store."""
        arrays = {name: _spec_to_json(spec) for name, spec in self.arrays.items()}
        content = {"format": _FORMAT, "identity": self.identity, "arrays": arrays}
        folder.write(_MANIFEST_NAME, to_record(content, indent=2))


@dataclass(frozen=True)
class Complete:
    """What the end of the work adds: attributes, whole arrays and all checksums."""

    attributes: dict[str, Any]
    marks: _Marks
    whole: dict[str, ArraySpec]
    whole_checksums: dict[str, str]

    def write(self, folder: Folder) -> None:
        """Declare a store complete."""
        whole = {
            name: {**_spec_to_json(spec), "sha256": self.whole_checksums.get(name)} for name, spec in self.whole.items()
        }
        names = self.marks[0] if self.marks else ()
        tiles = {name: [self.marks[tile][name] for tile in sorted(self.marks)] for name in names}
        content = {"format": _FORMAT, "attributes": self.attributes, "tiles": tiles, "whole": whole}
        folder.write(COMPLETE_NAME, to_record(content, indent=1))


def read_manifest(folder: Folder) -> Manifest | None:
    """Return the manifest in a folder, None where the folder is missing or empty; reject anything else."""
    folder.check()
    data = folder.read(_MANIFEST_NAME)
    if data is None:
        _reject_foreign(folder)
        return None
    raw = parse(data)
    version = None if raw is None else raw.get("format")
    # Before the checksum: another format may compute that in another way.
    if isinstance(version, int) and version != _FORMAT:
        raise StoreError(
            f"the store {str(folder)!r} has format {version}; this version of turnover reads and writes format "
            f"{_FORMAT}. Use the version that made it, or give another folder."
        )
    content = from_record(data)
    if content is None or not {"arrays", "identity"} <= content.keys():
        raise StoreDamagedError(
            f"{_MANIFEST_NAME} in {str(folder)!r} is damaged, so nobody can tell what the folder was made for",
            cure="Give another folder, or delete this one.",
        )
    try:
        arrays = {name: _spec_from_json(spec) for name, spec in content["arrays"].items()}
        return Manifest.of(content["identity"], arrays)
    except (*_WRONG_TYPES, StoreError) as error:
        raise StoreDamagedError(
            f"{_MANIFEST_NAME} in {str(folder)!r} describes no arrays ({error})",
            cure="Give another folder, or delete this one.",
        ) from error


def check_same(folder: Folder, stored: Manifest, given: Manifest, former: Mapping[str, str]) -> None:
    """Raise an error that names every difference between what a folder holds and what is asked for."""
    before, after = (
        {name: _spec_to_json(spec) for name, spec in manifest.arrays.items()} for manifest in (stored, given)
    )
    lines = differences(_renamed(stored.identity, former), given.identity) + differences(before, after, where="arrays")
    if lines:
        shown = "".join(f"\n  {line}" for line in lines[:_LISTED])
        if len(lines) > _LISTED:
            shown += f"\n  and {len(lines) - _LISTED} more"
        raise StoreError(
            f"the folder {str(folder)!r} holds results of something else:{shown}\n"
            "Choose another folder, or run again what this one was made for."
        )


def _renamed(value: Any, former: Mapping[str, str]) -> Any:
    """Return plain JSON with every text that an older version wrote as it is written today."""
    if isinstance(value, dict):
        return {key: _renamed(inner, former) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_renamed(inner, former) for inner in cast("list[Any]", value)]
    return former.get(value, value) if isinstance(value, str) else value


def read_complete(folder: Folder) -> Complete | None:
    """Return what declares a store complete; None where it is not."""
    data = folder.read(COMPLETE_NAME)
    if data is None:
        return None
    content = from_record(data)
    if content is None or not {"attributes", "tiles", "whole"} <= content.keys():
        raise StoreDamagedError(
            f"{COMPLETE_NAME} in {str(folder)!r} is damaged",
            cure="Run the call that made the folder again with it: it computes everything anew.",
        )
    try:
        tiles: dict[str, list[str]] = content["tiles"]
        marks: _Marks = {
            tile: dict(zip(tiles, checksums, strict=True))
            for tile, checksums in enumerate(zip(*tiles.values(), strict=True))
        }
        for name in content["whole"]:
            check_name(name)
        specs = {name: _spec_from_json(entry) for name, entry in content["whole"].items()}
        if any(spec.tiles > 1 for spec in specs.values()):
            raise ValueError("an array in one piece has several")
        checksums = {name: entry["sha256"] for name, entry in content["whole"].items() if specs[name].tiles}
        return Complete(dict(content["attributes"]), marks, specs, checksums)
    except (*_WRONG_TYPES, StoreError) as error:
        raise StoreDamagedError(
            f"{COMPLETE_NAME} in {str(folder)!r} describes no arrays ({error})",
            cure="Run the call that made the folder again with it: it computes everything anew.",
        ) from error


def read_marks(folder: Folder) -> _Marks:
    """Return all marks that are whole; of two for the same tile the later one."""
    marks: _Marks = {}
    for line in folder.lines(_MARKS_NAME).splitlines(keepends=True):
        record = from_record(line)
        if record is not None and isinstance(record.get("tile"), int) and isinstance(record.get("sha256"), dict):
            marks[record["tile"]] = record["sha256"]
    return marks


def add_mark(folder: Folder, tile: int, checksums: Mapping[str, str]) -> None:
    """Mark a tile done."""
    folder.append(_MARKS_NAME, _line(tile, checksums))


def rewrite_marks(folder: Folder, marks: _Marks) -> None:
    """Make these the only marks, at once."""
    data = b"".join(_line(tile, marks[tile]) for tile in sorted(marks))
    if data != folder.lines(_MARKS_NAME) or folder.read(_MARKS_NAME) is None:
        folder.rewrite(_MARKS_NAME, data)


def remove_marks(folder: Folder) -> None:
    """Remove the list of marks."""
    folder.remove_lines(_MARKS_NAME)


def _line(tile: int, checksums: Mapping[str, str]) -> bytes:
    # The line break in front keeps a line that was cut off from spoiling this one.
    return b"\n" + to_record({"tile": tile, "sha256": dict(checksums)})


def check_name(name: str) -> None:
    """Raise unless an array's name can be a folder beside the store's own files."""
    if not _NAME.fullmatch(name):
        raise StoreError(f"the name of an array must be letters, digits and _, with no digit first, got {name!r}.")


def _reject_foreign(folder: Folder) -> None:
    # A writer that was killed before its manifest was there leaves these.
    foreign = [
        name
        for name in folder.names()
        if name not in LOCK_FILES and not (name.startswith(".") and name.endswith(".part"))
    ]
    if foreign:
        shown = ", ".join(map(repr, foreign[:3])) + (", ..." if len(foreign) > 3 else "")
        raise StoreError(
            f"{str(folder)!r} must be empty or a store of turnover, but holds {shown}. Give a new or an empty folder."
        )


def _spec_to_json(spec: ArraySpec) -> dict[str, Any]:
    return {"shape": list(spec.shape), "dtype": spec.dtype, "tile": list(spec.tile)}


def _spec_from_json(entry: dict[str, Any]) -> ArraySpec:
    return ArraySpec(tuple(entry["shape"]), entry["dtype"], tuple(entry["tile"]))
