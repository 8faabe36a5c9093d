"""A killed run resumes to the same result: in the middle of a training, between trainings, in a copied folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from turnover_bench.experiments import checkpoints
from turnover_bench.experiments.checkpoints import resumable, trainings_of

# Kills itself, as kill -9 does, when so many states are written; a state is written after every step.
KILLED = """
import os, signal, sys
from pathlib import Path
from turnover_bench.experiments import checkpoints
from turnover.training import Checkpoint

checkpoints.EVERY, left, keep = -1.0, int(sys.argv[1]), Checkpoint.keep

def counted(self, done, *, now=False):
    global left
    keep(self, done, now=now)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoint.keep = counted
"""
# Two trainings of one part: a loop of one's own with dropout, and a recipe.
TWO_TRAININGS = """
import torch
from turnover_bench.experiments.checkpoints import next_checkpoint, resumable
from turnover_bench.experiments.runner import kept
from turnover.training import TrainingRecipe
from functools import partial

def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))

def measured():
    torch.manual_seed(3)
    x, y, model = torch.randn(20, 4), torch.randint(2, (20,)), network()
    optimizer = torch.optim.Adam(model.parameters())
    draw = lambda order: torch.randperm(20, generator=order).split(6)
    parts = {"model": model, "optimizer": optimizer}
    for step in resumable(parts, epochs=3, draw=draw, order=torch.default_generator):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[step.batch]), y[step.batch]).backward()
        optimizer.step()
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    falls = partial(torch.optim.lr_scheduler.StepLR, step_size=2)
    recipe = TrainingRecipe(network, x, y, optimizer=sgd, schedule=falls, epochs=3, batch_size=6)
    other = recipe.fit(seed=5, checkpoint=next_checkpoint())
    return [[value.tolist() for value in one.state_dict().values()] for one in (model, other)]

kept(Path(sys.argv[2]) / "part.json", measured)
"""


def started(script: str, *arguments: object) -> int:
    # The folder of this file's repository, wherever tests are started.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=False).returncode


def found(folder: Path):
    return json.loads((folder / "part.json").read_text())["found"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert started(KILLED + TWO_TRAININGS, 0, folder) == 0
    return found(folder)


# 13 states of the first training (one at its end), then 12 of the second.
_OTHERS = [pytest.param(kills, marks=pytest.mark.slow, id=str(kills)) for kills in ([4], [12, 3], [13], [17, 1])]


@pytest.mark.parametrize("kills", [[5], *_OTHERS])
def test_a_killed_part_resumes_to_the_same_weights(whole, tmp_path, kills):
    folder = tmp_path / "run"
    for number, writes in enumerate(kills):
        assert started(KILLED + TWO_TRAININGS, writes, folder) == -signal.SIGKILL
        assert not (folder / "part.json").exists()
        shutil.copytree(folder, tmp_path / f"copy-{number}")  # as on another machine
        folder = tmp_path / f"copy-{number}"
    assert started(KILLED + TWO_TRAININGS, 0, folder) == 0
    assert found(folder) == whole
    assert [file.name for file in folder.iterdir()] == ["part.json"]


@pytest.mark.slow  # the words of MiniLM are read three times
def test_a_killed_experiment_resumes_to_the_same_result(tmp_path):
    pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
    script = (
        KILLED + "from turnover_bench.experiments.runner import run\nrun('learning_curves', 'toy', Path(sys.argv[2]))"
    )
    assert started(script, 3, tmp_path / "killed") == -signal.SIGKILL
    assert started(script, 0, tmp_path / "killed") == 0
    assert started(script, 0, tmp_path / "whole") == 0
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("killed", "whole")]
    for one in results:
        del one["result"]["spent"]
    assert results[0]["result"] == results[1]["result"]
    assert results[0]["processor_seconds"] > 0


def test_a_state_that_was_cut_off_starts_over(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", -1.0)

    def train(stop: int) -> list[int]:
        seen = []
        for step in resumable({}, epochs=1, draw=lambda order: [1, 2, 3, 4], order=torch.Generator()):
            seen.append(step.batch)
            if len(seen) == stop:
                raise KeyboardInterrupt
        return seen

    with pytest.raises(KeyboardInterrupt), trainings_of(tmp_path / "part.json"):
        train(3)
    file = tmp_path / "part.training-1.pt"
    state = file.read_bytes()
    with trainings_of(tmp_path / "part.json"):
        assert train(9) == [3, 4]  # the third was under way
    file.write_bytes(state[: len(state) // 2])
    with pytest.warns(UserWarning, match="damaged: the training starts over"), trainings_of(tmp_path / "part.json"):
        assert train(9) == [1, 2, 3, 4]
    assert not list(tmp_path.iterdir())
