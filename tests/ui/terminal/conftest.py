"""Small runs of every kind, made once, and the command line called in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("sklearn", reason="needs the extra cli")

from typer.testing import CliRunner

from turnover.runs.config import RunConfig
from turnover.runs.run import start_run
from turnover.ui.terminal.app import make_app

# Enough to learn rows by heart: of a network that knows nothing, the engine says that its scores are noise.
SMALL: dict[str, Any] = {
    "hidden": 64,
    "replicas": 3,
    "epochs": 12,
    "batch_size": 16,
    "learning_rate": 0.01,
    "validation": 0.2,
    "test": 0.2,
}
SMALL_OPTIONS = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
GOOD, BAD = "fine lovely warm bright clever".split(), "dull awful cold grim clumsy".split()


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """Return what it printed as JSON; fails if anything else was printed there."""
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """Return everything it said on standard output, without line breaks."""
        return " ".join(self.out.split())


Turnover = Callable[..., Said]


def call_turnover(*arguments: object) -> Said:
    """Call the command line in this process and folder."""
    # Wide, so that sentences are not broken within what a test looks for.
    env = {"COLUMNS": "200", "LINES": "50", "NO_COLOR": "1", "TERM": "xterm"}
    done = CliRunner().invoke(make_app(), [str(argument) for argument in arguments], env=env)
    return Said(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def turnover_(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Turnover:
    """Call the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return call_turnover


def rejected(said: Said, *parts: str) -> None:
    """Check that a command was rejected with a message that has these parts."""
    assert said.code == 2, said.out + said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    message = " ".join(said.err.split())
    assert message.startswith("turnover: ")
    for part in parts:
        assert part in message, message


def reviews(rows: int = 60) -> str:
    """Return a csv of short reviews; every tenth has another label than the true one."""
    rng = np.random.default_rng(0)
    lines = ["text,label,truth"]
    for number in range(rows):
        words = (GOOD, BAD)[number % 2]
        truth, label = (("good", "bad")[(number % 2) ^ wrong] for wrong in (False, number % 10 == 9))
        lines.append(f"a {rng.choice(words)} and {rng.choice(words)} film number {number},{label},{truth}")
    return "\n".join(lines) + "\n"


def table(rows: int = 60) -> str:
    """Return a csv of numbers and a category; the label follows from them, but for every tenth row."""
    rng = np.random.default_rng(0)
    lines = ["size,color,kind"]
    for number in range(rows):
        size, color = rng.normal() + 2 * (number % 2), rng.choice(["red", "blue"])
        large = bool(number % 2) ^ (number % 10 == 9)
        lines.append(f"{size:.3f},{color},{'large' if large else 'small'}")
    return "\n".join(lines) + "\n"


def image_folder(folder: Path, rows: int = 40) -> Path:
    """Write images of two classes, bright above or bright below; every tenth is in the wrong folder."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(rows):
        pixels = rng.integers(0, 60, (8, 8), dtype=np.uint8)
        pixels[slice(0, 4) if number % 2 else slice(4, 8)] += 150
        above = bool(number % 2) ^ (number % 10 == 9)
        file = folder / ("above" if above else "below") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of finished runs, by kind: text, table, image and lm. Tests must not change them."""
    top = tmp_path_factory.mktemp("runs")
    (top / "reviews.csv").write_text(reviews())
    (top / "table.csv").write_text(table())
    image_folder(top / "images")
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(GOOD + BAD + ["film", "and"], 12)) for _ in range(80)]
    (top / "corpus.txt").write_text("\n".join(lines) + "\n")
    settings = {
        "text": RunConfig(str(top / "reviews.csv"), **SMALL),
        "table": RunConfig(str(top / "table.csv"), label="kind", **SMALL),
        "image": RunConfig(str(top / "images"), image_size=8, **SMALL),
        "lm": RunConfig(str(top / "corpus.txt"), **SMALL),
    }
    for kind, config in settings.items():
        start_run(config, top / kind)
    return {kind: top / kind for kind in settings}


@pytest.fixture
def text_run(runs: dict[str, Path]) -> Path:
    """The folder of a finished run on texts."""
    return runs["text"]


@pytest.fixture(scope="session")
def group_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run whose instances are annotators; one of them has all labels wrong."""
    top = tmp_path_factory.mktemp("groups")
    lines = [line.split(",") for line in reviews(120).splitlines()[1:]]
    swapped = {"good": "bad", "bad": "good"}
    rows = [
        f"{text},{swapped[truth] if number % 8 == 3 else truth},annotator {number % 8}"
        for number, (text, _, truth) in enumerate(lines)
    ]
    (top / "groups.csv").write_text("\n".join(["text,label,who", *rows]) + "\n")
    start_run(RunConfig(str(top / "groups.csv"), group="who", **SMALL), top / "run")
    return top / "run"
