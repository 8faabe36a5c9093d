"""A disk that is full while a run is trained or kept: what to free and how to resume is told, and nothing is lost."""

import os
import subprocess
import warnings
from pathlib import Path

import pytest

from tests.ui.small_runs import SMALL, reviews
from turnover.errors import RunError, TurnOverWarning
from turnover.runs import RunConfig, start_run, training


@pytest.fixture
def small_disk(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(disk)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_training_goes_on_without_its_checkpoint_and_a_run_resumes_when_there_is_room(
    small_disk, tmp_path, monkeypatch
):
    (tmp_path / "reviews.csv").write_text(reviews())
    config = RunConfig(str(tmp_path / "reviews.csv"), **{**SMALL, "epochs": 3})
    whole = start_run(config, tmp_path / "whole")
    monkeypatch.setattr(training, "_SAVE_EVERY", 0.0)
    ballast = small_disk / "ballast"

    def fill(stage: str, done: int, total: int, note: str = "") -> None:
        if stage == "training" and not ballast.exists():
            ballast.write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RunError) as raised:
            start_run(config, small_disk / "run", watch=fill)
    sentences = [str(warning.message) for warning in caught if warning.category is TurnOverWarning]
    assert len(sentences) == 2  # after each epoch but the last, which goes on to keep the model
    assert "training.pt" in sentences[0]
    assert "The training goes on" in sentences[0]
    assert "No space left" in str(raised.value)
    assert "0 bytes are free on that disk: make room there" in str(raised.value)
    assert f"resume with: turnover run --config {small_disk}/run/config.toml" in str(raised.value)
    ballast.unlink()
    resumed = start_run(config, small_disk / "run")
    assert resumed.complete
    assert resumed.about.results == whole.about.results
