"""Scores of training rows in a run folder, as npz files: small, and read with NumPy alone."""

from pathlib import Path
from typing import Any

import numpy as np

from turnover.scores import OutOfSample, Scores
from turnover.storage import atomic_file

from .tasks import ScoreName


def is_kept(folder: Path, name: ScoreName, *, references: int) -> bool:
    """Tell whether scores are in a folder."""
    return _file(folder, name, references).exists()


def keep_scores(folder: Path, name: ScoreName, scores: Any, *, references: int) -> None:
    """Write scores [rows] or held-out predictions."""
    if isinstance(scores, OutOfSample):
        known: dict[str, Any] = {"replicas": scores.replicas, "ids": scores.ids, "labels": scores.labels}
    else:
        parts = {"values": scores.values, "ids": scores.ids, "offset": scores.offset, "null": scores.null}
        if scores.replicas > 2:
            parts["stderr"] = scores.stderr
        else:
            parts["null_spread"] = scores.null_spread
        known = {part: np.asarray(value) for part, value in parts.items() if value is not None}
        known |= {"unit": np.array(scores.unit), "path": np.array(scores.path), "replicas": scores.replicas}
    with atomic_file(_file(folder, name, references)) as file:
        np.savez_compressed(file, **known)


def open_scores(folder: Path, name: ScoreName, *, references: int) -> Any:
    """Read scores [rows] or held-out predictions."""
    with _file(folder, name, references).open("rb") as opened, np.load(opened) as kept:
        if name == "out_of_sample":
            return OutOfSample(kept["replicas"], ids=kept["ids"], labels=kept["labels"])
        parts = {part: kept[part] for part in kept.files if part not in ("unit", "path", "replicas")}
        return Scores(**parts, unit=str(kept["unit"]), path=str(kept["path"]), replicas=int(kept["replicas"]))


def _file(folder: Path, name: ScoreName, references: int) -> Path:
    # Two names: what another version kept without references is not taken for what was asked for.
    unseen = "unseen_beside_references.npz" if references else "unseen.npz"
    return folder / {"self_influence": "self.npz", "mean_influence": "mean.npz", "out_of_sample": unseen}[name]
