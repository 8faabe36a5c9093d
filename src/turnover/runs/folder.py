"""A run folder: the names of its files, and run.json, which says what is in it and how far it came."""

import json
import os
import platform
import shlex
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import turnover
from turnover.errors import RunError

FORMAT = 1
State = Literal["begun", "trained", "complete"]


@dataclass(frozen=True)
class RunFolder:
    """Where everything is."""

    path: Path

    @property
    def config(self) -> Path:
        """Return the file of settings."""
        return self.path / "config.toml"

    @property
    def again(self) -> str:
        """Return the command that makes the run anew, in another folder."""
        return f"turnover run --config {shlex.quote(str(self.config))} --out NEW"

    @property
    def about(self) -> Path:
        """Return the file that says what is in the folder."""
        return self.path / "run.json"

    @property
    def splits(self) -> Path:
        """Return the file that says which rows are for training."""
        return self.path / "splits.npy"

    @property
    def inputs(self) -> Path:
        """Return the file that says how values become inputs."""
        return self.path / "inputs.json"

    @property
    def features(self) -> Path:
        """Return the file of what an encoder made of all rows."""
        return self.path / "features.npy"

    @property
    def model(self) -> Path:
        """Return the folder of the trained model."""
        return self.path / "model"

    @property
    def training(self) -> Path:
        """Return the file of a training that was cut off."""
        return self.path / "training.pt"

    @property
    def curves(self) -> Path:
        """Return the file of learning curves."""
        return self.path / "curves.json"

    @property
    def scores(self) -> Path:
        """Return the folder of scores."""
        return self.path / "scores"

    @property
    def report(self) -> Path:
        """Return the report."""
        return self.path / "report.html"


@dataclass
class About:
    """What run.json says.

    Attributes:
        state: how far the run came.
        created: when it began, in UTC.
        versions: of turnover, torch, NumPy and Python.
        seconds: by stage.
        results: accuracy and the like.
        notes: what was found and done on the way, a sentence each.
        denoised: whether questions about predictions are answered by denoised scores.
    """

    state: State = "begun"
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    denoised: bool = True


def versions() -> dict[str, str]:
    """Return the versions of what results depend on."""
    return {
        "turnover": turnover.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def write_about(folder: RunFolder, about: About) -> None:
    """Write run.json."""
    write_whole(folder.about, json.dumps({"format": FORMAT, **asdict(about)}, indent=2) + "\n")


def read_about(folder: RunFolder) -> About:
    """Read run.json; refuse what is no run folder, or of another format."""
    try:
        values: dict[str, Any] = json.loads(folder.about.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"it holds a {type(values).__name__}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(_no_run(folder.path)) from error
    except (ValueError, OSError) as error:
        raise RunError(f"{str(folder.about)!r} cannot be read: {error}. Run it again: {folder.again}") from error
    if values.pop("format", None) != FORMAT:
        made_by = values.get("versions", {}).get("turnover", "another version")
        raise RunError(
            f"{str(folder.path)!r} was made by turnover {made_by} in a format that this version "
            f"({turnover.__version__}) does not read. Run it again: {folder.again}"
        )
    try:
        return About(**values)
    except TypeError as error:
        raise RunError(f"{str(folder.about)!r} is damaged: {error}. Run it again: {folder.again}") from error


def _no_run(path: Path) -> str:
    """Return what is wrong with a path that holds no run, and how to make one."""
    make = f"turnover run DATA --out {shlex.quote(str(path))}"
    if not path.exists():
        return f"there is no folder {str(path)!r}. Give that of a run, or make one: {make}"
    if not path.is_dir():
        return f"{str(path)!r} is a file, and the folder of a run is needed. Make one: turnover run DATA --out RUN"
    return f"the folder {str(path)!r} holds no run: there is no run.json in it. Give that of a run, or make one: {make}"


def write_whole(file: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise RunError(f"cannot write {str(file)!r}: {error.strerror or error}. Give a folder with room.") from error
