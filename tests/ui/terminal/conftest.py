"""Small runs of every kind, made once, and the command line called in this process."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("sklearn", reason="needs the extra cli")

from typer.testing import CliRunner

from tests.ui.small_runs import SMALL, reviews
from turnover.ui.terminal.app import make_app

SMALL_OPTIONS = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
SAME = (
    "run",
    "reviews.csv",
    "--text",
    "text",
    "--label",
    "label",
    *SMALL_OPTIONS,
    "--seed",
    "3",
    "--no-balance",
    "--out",
    "RUN",
)


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        return " ".join(self.out.split())


Turnover = Callable[..., Said]


def call_turnover(*arguments: object) -> Said:
    # Wide, so that sentences are not broken within what a test looks for.
    env = {"COLUMNS": "200", "LINES": "50", "NO_COLOR": "1", "TERM": "xterm"}
    done = CliRunner().invoke(make_app(), [str(argument) for argument in arguments], env=env)
    return Said(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def turnover_(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Turnover:
    monkeypatch.chdir(tmp_path)
    return call_turnover


def rejected(said: Said, *parts: str) -> None:
    assert said.code == 2, said.out + said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    message = " ".join(said.err.split())
    assert message.startswith("turnover: ")
    for part in parts:
        assert part in message, message


class _Runs(dict[str, Path]):
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def __missing__(self, kind: str) -> Path:
        made = self._request.getfixturevalue(f"{kind}_run")
        return self.setdefault(kind, made if isinstance(made, Path) else made.folder.path)


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest) -> _Runs:
    """Folders of finished runs, by kind: text, group, table and image. Tests must not change them."""
    return _Runs(request)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """A folder with reviews.csv and the run RUN, made by the command line, and what that said."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "reviews.csv").write_text(reviews())
    with contextlib.chdir(folder):
        said = call_turnover(*SAME)
    assert said.code == 0, said.err
    return folder, said


@pytest.fixture(scope="session")
def text_run(finished: tuple[Path, Said]) -> Path:
    return finished[0] / "RUN"
