"""Figures of a training in TensorBoard, MLflow and Weights & Biases, read back by the packages themselves."""

import importlib.util
import json
import struct
from typing import get_args

import pytest
import torch

pytest.importorskip("typer", reason="typer is missing: pip install 'turnover[cli]'")

from tests.ui.small_runs import SMALL, text_file
from tests.ui.terminal.conftest import call_turnover
from turnover.errors import MissingExtraError, TrainingError
from turnover.integrations import TrackerName, measure_curves, open_tracker

# Of the packages themselves.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


def need(package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is missing: pip install {package}")


def tensorboard_figures(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.fixture(scope="module")
def curves(trained):
    return [
        measure_curves(trained.model, train=(trained.x[:rows], trained.y[:rows], torch.arange(rows)))
        for rows in (20, 40)
    ]


def log(name, folder, curves):
    with open_tracker(name, folder, run="mine") as tracker:
        for step, figures in enumerate(curves):
            tracker.log(figures, step=10 * step)


def expected(curves):
    return {name: [(10 * step, figures[name]) for step, figures in enumerate(curves)] for name in curves[0]}


def test_tensorboard_has_the_curves(curves, tmp_path):
    need("tensorboard")
    log("tensorboard", tmp_path, curves)
    found = tensorboard_figures(tmp_path / "mine")
    assert {name: [step for step, _ in points] for name, points in found.items()} == {
        "curve_flip": [0, 10],
        "curve_keep": [0, 10],
    }
    for name, points in expected(curves).items():
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in points], rel=1e-5)


def test_mlflow_has_the_curves(curves, tmp_path, monkeypatch):
    need("mlflow")
    need("sqlalchemy")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    log("mlflow", tmp_path, curves)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("turnover").experiment_id])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    for name, points in expected(curves).items():
        history = client.get_metric_history(run.info.run_id, name)
        assert [(one.step, one.value) for one in history] == points


def wandb_records(data, block=32768):
    """Yield the records of a file that wandb wrote: a log of LevelDB, in blocks, after 7 bytes of its own."""
    place, parts = 7, b""
    while place + 7 <= len(data):
        room = block - place % block
        if room < 7:
            place += room
            continue
        size, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        parts += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last of several parts
            yield parts
            parts = b""


def test_wandb_has_the_curves_offline(curves, tmp_path, monkeypatch):
    need("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    log("wandb", tmp_path, curves)
    from wandb.proto import wandb_internal_pb2

    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    found = {}
    for data in wandb_records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            found.setdefault(item.key or "/".join(item.nested_key), []).append(json.loads(item.value_json))
    assert {name: found[name] for name in curves[0]} == {
        name: [value for _, value in points] for name, points in expected(curves).items()
    }


def test_a_run_logs_curves_accuracy_label_errors_and_audit(tmp_path):
    need("tensorboard")
    file = text_file(tmp_path)
    small = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", value)]
    said = call_turnover(
        "run", file, "--text", "text", "--label", "label", *small, "--out", tmp_path / "RUN", "--track", "tensorboard"
    )
    assert said.code == 0, said.err
    found = tensorboard_figures(tmp_path / "RUN" / "tensorboard" / "RUN")
    assert {"loss_keep", "loss_flip", "loss_validation", "accuracy", "likely_label_errors"} <= set(found)
    assert {"audit_share", "audit_gradient_share", "result_validation_accuracy"} <= set(found)
    assert len(found["loss_flip"]) == SMALL["epochs"]
    assert 0 <= found["likely_label_errors"][0][1] <= 1


def test_a_tracker_that_is_not_there_is_told_before_anything_is_trained(tmp_path, monkeypatch):
    with pytest.raises(TrainingError, match="Give one of tensorboard, mlflow, wandb"):
        open_tracker("neptune", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in get_args(TrackerName):
        with pytest.raises(MissingExtraError, match=f"pip install {name}"):
            open_tracker(name, tmp_path)
    said = call_turnover("run", tmp_path / "nothing.csv", "--track", "wandb")
    assert said.code != 0
    assert "pip install wandb" in said.err
