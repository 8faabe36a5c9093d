"""A run folder: the names of its files, safe writing and reading of them, and run.json, which says how far it came."""

import json
import platform
import shlex
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from turnover._version import __version__
from turnover.errors import RunError, StoreLockedError, TurnOverError
from turnover.storage import LOCK_FILES, FolderLock, write_atomically

_FORMAT = 1
State = Literal["begun", "trained", "complete"]


@dataclass
class About:
    """What run.json says."""

    state: State = "begun"
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    denoised: bool = True  # whether scores of masks are denoised where they answer questions about predictions

    @classmethod
    def of_new_run(cls) -> "About":
        """Return what is known of a run when it begins."""
        versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
        return cls(versions={"turnover": __version__, **versions})

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
        self.splits = self.path / "splits.npy"
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
        begun = {"rows.jsonl.gz", "images.npz", "rows.json", "corpus.json.gz", "splits.npy", "scores", "config.toml"}
        begun |= set(LOCK_FILES)
        return self.path.is_dir() and all(
            file.name in begun or file.name.endswith(".part") for file in self.path.iterdir()
        )

    @contextmanager
    def lock(self, file: Path | None = None) -> Iterator[None]:
        """Be the only writer of the folder, which is made if it is missing; a `file` outside of it needs no lock."""
        if file is not None and self.path.resolve() not in file.resolve().parents:
            yield
            return
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock = FolderLock(self.path)
            except StoreLockedError as error:
                raise RunError(str(error)) from error
        with lock:
            yield

    @contextmanager
    def writing(self, file: Path | None = None) -> Iterator[None]:
        """Turn the disk's errors within the block, on one file or on the folder, into one that says what to do."""
        try:
            yield
        except OSError as error:
            raise RunError(
                f"cannot write to {str(file or self.path)!r}: {error.strerror or error}. Give a folder with room "
                "and write access: --out NEW."
            ) from error

    @contextmanager
    def reading(self, file: Path) -> Iterator[None]:
        """Turn errors of reading a file of the folder into one that says how to make the run anew."""
        try:
            yield
        except TurnOverError:
            raise
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise RunError(
                f"{str(file)!r} is missing or damaged ({type(error).__name__}: {error}). Run it again: {self.again}"
            ) from error

    def write(self, file: Path, content: str | bytes) -> None:
        """Write a file of the folder, or one that belongs to it, whole or not at all."""
        with self.writing(file):
            write_atomically(file, content)

    def write_about(self, about: About) -> None:
        """Write run.json."""
        self.write(self.about, json.dumps({"format": _FORMAT, **asdict(about)}, indent=2) + "\n")

    def read_about(self) -> About:
        """Return what run.json says."""
        if not self.about.is_file():
            raise RunError(_no_run(self.path))
        with self.reading(self.about):
            values: dict[str, Any] = dict(json.loads(self.about.read_text(encoding="utf-8")))
        if values.pop("format", None) != _FORMAT:
            made_by = values.get("versions", {}).get("turnover", "another version")
            raise RunError(
                f"{str(self.path)!r} was made by turnover {made_by} in a format that this version "
                f"({__version__}) does not read. Run it again: {self.again}"
            )
        with self.reading(self.about):
            return About(**values)


def _no_run(path: Path) -> str:
    """Return what is wrong with a path that holds no run, and how to make one."""
    make = f"turnover run DATA --out {shlex.quote(str(path))}"
    if not path.exists():
        return f"there is no folder {str(path)!r}. Give that of a run, or make one: {make}"
    if not path.is_dir():
        return f"{str(path)!r} is a file, and the folder of a run is needed. Make one: turnover run DATA --out RUN"
    return f"the folder {str(path)!r} holds no run: there is no run.json in it. Give that of a run, or make one: {make}"
