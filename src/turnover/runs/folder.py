"""A run folder: the names of its files, their checksums, safe writing and reading, and run.json.

run.json is the manifest of the folder. It says how far the run came and has the SHA-256 of every file that later stages
read, of the data, and of itself. It is written after each of these files: what it does not list was not finished.
"""

import json
import os
import platform
import shlex
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from turnover._version import __version__
from turnover.errors import DataFileError, RunError, SavedModelError, StoreError, StoreLockedError, TurnOverError
from turnover.storage import (
    LOCK_FILES,
    FolderLock,
    digest_of,
    from_record,
    holds,
    is_full,
    readable,
    sha256_of,
    to_record,
    write_atomically,
)

_FORMAT = 1
_ROWS = ("rows.parquet", "images.npz", "config.toml")
_INPUTS = ("inputs.json", "features.npy")
_TRAINED = ("model", "curves.json", "record.npz", "training.pt")
_SCORES = ("scores",)
_KEPT = (*_ROWS, *_INPUTS, *_TRAINED)
_OUTPUTS = ("run.json", "report.html", "report.json", *LOCK_FILES)
_NAMED = 5
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, EOFError),
    *(zipfile.BadZipFile, zlib.error),
)
_WAIT = 10.0
_CHANCE = 0.05
State = Literal["begun", "trained", "complete"]


@dataclass(config=ConfigDict(strict=True, extra="forbid"))
class About:
    """What run.json says."""

    state: State = "begun"
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)  # SHA-256 of the files and folders that were read, by path
    files: dict[str, str] = field(default_factory=dict)  # SHA-256 of the folder's own files

    @classmethod
    def of_new_run(cls) -> "About":
        """Return what is known of a run when it begins."""
        versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
        return cls(versions={"turnover": __version__, **versions})

    @property
    def learned_nothing(self) -> bool:
        """Tell whether validation and test rows are predicted no better than by chance, at 5 %."""
        return self.results.get("chance_p_value", 0.0) > _CHANCE

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the seconds that a block takes to those of a stage."""
        began = time.perf_counter()
        yield
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.perf_counter() - began, 3)


class RunFolder:
    """Where everything of a run is."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.about = self.path / "run.json"
        self.rows = self.path / "rows.parquet"
        self.images = self.path / "images.npz"
        self.inputs = self.path / "inputs.json"
        self.features = self.path / "features.npy"
        self.model = self.path / "model"
        self.training = self.path / "training.pt"
        self.curves = self.path / "curves.json"
        self.record = self.path / "record.npz"
        self.scores = self.path / "scores"
        self.report = self.path / "report.html"

    @property
    def again(self) -> str:
        """Return the command that makes the run anew, in another folder."""
        return f"turnover run --config {shlex.quote(str(self.config))} --out NEW"

    @property
    def resume(self) -> str:
        """Return the command that resumes the run."""
        return f"turnover run --config {shlex.quote(str(self.config))} --out {shlex.quote(str(self.path))}"

    def is_new(self) -> bool:
        """Tell whether nothing but what an interrupted beginning of a run leaves is there."""
        if not self.path.exists():
            return True
        begun = {*_ROWS, *_SCORES, *LOCK_FILES}
        return self.path.is_dir() and all(
            file.name in begun or file.name.endswith(".part") for file in self.path.iterdir()
        )

    @contextmanager
    def lock(self, file: Path | None = None, *, wait: bool = False) -> Iterator[None]:
        """Be the only writer of the folder; a `file` outside of it needs no lock.

        A folder that is missing is made, and goes again if nothing was written to it. Where there is another writer, an
        error says which; what is written in a moment can `wait` some seconds for others of its kind.
        """
        if file is not None and self.path.resolve() not in file.resolve().parents:
            yield
            return
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            with self.writing():
                self.path.mkdir(parents=True, exist_ok=True)
                try:
                    lock = FolderLock(self.path, wait=_WAIT if wait else 0.0)
                except StoreLockedError as error:
                    raise RunError(str(error)) from error
            with lock:
                yield
        finally:
            with suppress(OSError):  # those that are not empty stay
                for folder in missing:
                    folder.rmdir()

    @contextmanager
    def writing(self, file: Path | None = None) -> Iterator[None]:
        """Turn the disk's errors within the block, on one file or on the folder, into one that says what to do."""
        try:
            yield
        except (OSError, SavedModelError, StoreError) as error:
            failed = error if isinstance(error, OSError) else error.__cause__
            if not isinstance(failed, OSError):
                raise
            raise RunError(
                f"cannot write to {str(file or self.path)!r}: {failed.strerror or failed}. {self._cure_of(failed)}"
            ) from error

    def _cure_of(self, error: OSError) -> str:
        """Return what to do where the disk failed; on a full one, how much is free, and how to resume."""
        if not is_full(error) or not self.path.exists():
            return "Give a folder with room and write access: --out NEW."
        free = readable(shutil.disk_usage(self.path).free)
        again = f"What is finished is kept; resume with: {self.resume}" if self.about.exists() else "Then run it again."
        return f"{free} are free on that disk: make room there, or give a folder elsewhere: --out NEW. {again}"

    @contextmanager
    def reading(self, file: Path) -> Iterator[None]:
        """Turn errors of reading a file of the folder into one that says how to make the run anew."""
        try:
            yield
        except TurnOverError:
            raise
        except _DAMAGED as error:
            raise RunError(
                f"{str(file)!r} is missing or damaged ({type(error).__name__}: {error}). Run it again: {self.again}"
            ) from error

    def write(self, file: Path, content: str | bytes) -> None:
        """Write a file of the folder, or one that belongs to it, whole or not at all."""
        with self.writing(file):
            write_atomically(file, content)

    def write_about(self, about: About) -> None:
        """Write run.json, with the checksums of files that are new."""
        for file in self._checked_files():
            name = file.relative_to(self.path).as_posix()
            if name not in about.files:
                with self.reading(file):
                    about.files[name] = digest_of(file)
        self.write(self.about, to_record({"format": _FORMAT, **asdict(about)}, indent=2, allow_nan=True))

    def _checked_files(self) -> list[Path]:
        """Return the files that are there and that run.json has checksums of; training.pt has its own."""
        named = [self.path / name for name in (*_ROWS, *_INPUTS, "curves.json", "record.npz")]
        within = [file for folder in (self.model, self.scores) for file in sorted(folder.rglob("*"))]
        return [file for file in (*named, *within) if file.is_file() and not file.name.endswith(".part")]

    def damaged(self, about: About) -> list[str]:
        """Return the names of files that are missing or whose content is not what run.json says."""
        return [name for name, digest in about.files.items() if not holds(self.path / name, digest)]

    def check(self, about: About) -> None:
        """Raise where files of the folder are damaged: which ones, and how to rebuild them or to run it again.

        Scores that are missing are no damage: whoever asks for them is told to compute them.
        """
        damaged = [name for name in self.damaged(about) if _is_of(name, _KEPT) or (self.path / name).exists()]
        if damaged:
            cure = f"Rebuild what is damaged: {self.resume}"
            if any(_is_of(name, _ROWS) for name in damaged):
                cure = f"Run it again: {self.again}"
            if self.config.name in damaged:
                cure = f"Give the settings once more: turnover run DATA --out {shlex.quote(str(self.path))}"
            raise RunError(
                f"the run in {str(self.path)!r} is damaged: {', '.join(map(repr, damaged[:_NAMED]))}"
                f"{' and more' if len(damaged) > _NAMED else ''} missing or changed since they were written. {cure}"
            )

    def holds_settings(self, about: About, settings: str) -> bool:
        """Tell whether settings, the content of config.toml, are those of the run; raise where that file is damaged."""
        recorded = about.files.get(self.config.name)
        same = recorded == sha256_of(settings.encode())
        if recorded is not None and not same and not holds(self.config, recorded):
            self.check(about)
        return same

    def repair(self, about: About, *, settings: str) -> None:
        """Remove what is damaged or was not finished, and all that was computed from it, so that it is computed anew.

        The settings are written again. Rows that are damaged cannot be replaced: that is an error, as in `check`.
        """
        if not holds(self.config, about.files[self.config.name]):
            self.write(self.config, settings)
        damaged = self.damaged(about)
        if any(_is_of(name, _ROWS) for name in damaged):
            self.check(about)
        lost = set(damaged)
        for stage in (_INPUTS, _TRAINED):
            if any(_is_of(name, stage) for name in damaged):
                later = (*_INPUTS, *_TRAINED, *_SCORES) if stage == _INPUTS else (*_TRAINED, *_SCORES)
                lost |= {name for name in about.files if _is_of(name, later)} | {self.training.name}
                about.state = "begun"
                break
        if damaged:
            about.state = "trained" if about.state == "complete" else about.state
            about.notes.append(f"Computed again, because files were damaged: {', '.join(map(repr, damaged))}.")
        about.files = {name: digest for name, digest in about.files.items() if name not in lost}
        unfinished = [
            file for file in self._checked_files() if file.relative_to(self.path).as_posix() not in about.files
        ]
        with self.writing():
            for file in (*(self.path / name for name in lost), *unfinished):
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove a run, or raise where the folder holds anything that no run writes."""
        known = (*_KEPT, *_SCORES, *_OUTPUTS)
        others = [
            file.name for file in self.path.iterdir() if file.name not in known and not file.name.endswith(".part")
        ]
        if others:
            raise RunError(
                f"{str(self.path)!r} holds {', '.join(map(repr, others[:_NAMED]))}, which a run does not write. Move "
                "it away, or give another folder: --out NEW."
            )
        with self.writing():
            shutil.rmtree(self.path)

    def read_about(self) -> About:
        """Return what run.json says."""
        if not os.path.isfile(self.about):  # also where the name is too long for any file
            raise RunError(_no_run(self.path))
        with self.reading(self.about):
            content = self.about.read_bytes()
            values: dict[str, Any] = dict(json.loads(content))
        known = values.get("format")
        if known != _FORMAT:
            versions = values.get("versions")
            made_by = versions.get("turnover", "another version") if isinstance(versions, dict) else "another version"
            raise RunError(
                f"{str(self.path)!r} was made by turnover {made_by} in a format that this version "
                f"({__version__}) does not read. Run it again: {self.again}"
            )
        with self.reading(self.about):
            values = from_record(content) or {}
            if not values:
                raise ValueError("its checksum is that of another content")
            del values["format"]
            return About(**values)


def digests_of(paths: Iterable[str | None]) -> dict[str, str]:
    """Return the SHA-256 of the files and folders among paths that are there, by path."""
    present = [path for path in paths if path is not None and Path(path).exists()]
    for path in present:
        check_regular(Path(path))
    return {path: digest_of(Path(path)) for path in present}


def check_regular(path: Path) -> None:
    """Raise where a path is a pipe or a device, which cannot be read twice, and perhaps never ends."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataFileError(f"{str(path)!r} is a pipe or device. Write its content to a file, and give that.")


def check_apart(out: Path, data: Path) -> None:
    """Raise where an output is the data, lies within it or contains it."""
    ours, theirs = out.resolve(), data.resolve()
    if ours == theirs or theirs in ours.parents or ours in theirs.parents:
        how = "is" if ours == theirs else "lies within" if theirs in ours.parents else "contains"
        raise DataFileError(f"{str(out)!r} {how} the data itself, {str(data)!r}. Give a place elsewhere: --out.")


def changed_data(about: About) -> list[str]:
    """Return the files and folders of a run's data that are there, with another content than the run read."""
    return [path for path, digest in digests_of(about.data).items() if digest != about.data[path]]


def _is_of(name: str, names: tuple[str, ...]) -> bool:
    return name.split("/", maxsplit=1)[0] in names


def _no_run(path: Path) -> str:
    """Return what is wrong with a path that holds no run, and how to make one."""
    make = f"turnover run DATA --out {shlex.quote(str(path))}"
    if not os.path.exists(path):
        return f"there is no folder {str(path)!r}. Give the folder of a run, or make one: {make}"
    if not path.is_dir():
        return f"{str(path)!r} is a file, and the folder of a run is needed. Make one: turnover run DATA --out RUN"
    return f"the folder {str(path)!r} holds no run: it has no run.json. Give the folder of a run, or make one: {make}"
