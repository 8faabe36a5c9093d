"""Scores of training rows in a run folder, as npz files: small, and read with NumPy alone."""

from pathlib import Path

import numpy as np

from turnover.scores import OutOfSample, Scores


def keep_scores(file: Path, scores: Scores) -> None:
    """Write scores [rows]."""
    parts = {"values": scores.values, "ids": scores.ids, "offset": scores.offset, "null": scores.null}
    if scores.replicas > 2:
        parts["stderr"] = scores.stderr
    else:
        parts["null_spread"] = scores.null_spread
    known: dict[str, object] = {name: np.asarray(value) for name, value in parts.items() if value is not None}
    _write(file, known | {"unit": np.array(scores.unit), "path": np.array(scores.path), "replicas": scores.replicas})


def open_scores(file: Path) -> Scores:
    """Read scores [rows]."""
    with file.open("rb") as opened, np.load(opened) as kept:
        parts = {name: kept[name] for name in kept.files if name not in ("unit", "path", "replicas")}
        return Scores(**parts, unit=str(kept["unit"]), path=str(kept["path"]), replicas=int(kept["replicas"]))


def keep_unseen(file: Path, unseen: OutOfSample) -> None:
    """Write predictions of rows by the part that never saw them."""
    _write(file, {"replicas": unseen.replicas, "ids": unseen.ids, "labels": unseen.labels})


def open_unseen(file: Path) -> OutOfSample:
    """Read predictions of rows by the part that never saw them."""
    with file.open("rb") as opened, np.load(opened) as kept:
        return OutOfSample(kept["replicas"], ids=kept["ids"], labels=kept["labels"])


def _write(file: Path, parts: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    with part.open("wb") as opened:
        np.savez_compressed(opened, **parts)  # pyright: ignore[reportArgumentType]
    part.replace(file)
