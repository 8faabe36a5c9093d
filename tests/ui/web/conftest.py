"""Runs that are served, and clients that wait until the model is loaded."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing: pip install 'turnover[serve]'")

from fastapi.testclient import TestClient

from tests.ui.web import small_runs
from turnover.runs.run import Run, open_run
from turnover.ui.web.app import make_app

ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_runs.text_run(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def group_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_runs.group_run(tmp_path_factory.mktemp("group"))


@pytest.fixture(scope="session")
def adapter_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    pytest.importorskip("transformers", reason="needs transformers: pip install 'turnover[text]'")
    return small_runs.adapter_run(tmp_path_factory.mktemp("adapter"))


@pytest.fixture(scope="session")
def image_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_runs.image_run(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def table_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_runs.table_run(tmp_path_factory.mktemp("table"))


def until_ready(client: Any) -> None:
    """Wait until the model can be asked."""
    ends = time.monotonic() + 60
    while client.get("/api/state").json()["state"] == "warming up":
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Callable[..., TestClient]]:
    """A function that serves a run by its name and returns a client; marks are forgotten at the end."""
    open_clients: list[TestClient] = []
    files: list[Path] = []

    def serve(name: str, *, ready: bool = True, headers: dict[str, str] | None = None, **options: Any) -> TestClient:
        run = open_run(request.getfixturevalue(f"{name}_run").folder.path)
        client = TestClient(make_app(run, **options), base_url=ADDRESS, headers=headers)
        client.__enter__()
        open_clients.append(client)
        files.append(run.folder.path / "marks.json")
        if ready:
            until_ready(client)
        return client

    yield serve
    for client in open_clients:
        client.__exit__(None, None, None)
    for file in files:
        file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def texts(text_run: Run) -> Iterator[TestClient]:
    """A client of the texts, for tests that mark nothing."""
    with TestClient(make_app(open_run(text_run.folder.path)), base_url=ADDRESS) as client:
        until_ready(client)
        yield client


@pytest.fixture(scope="module")
def images(image_run: Run) -> Iterator[TestClient]:
    """A client of the images, for tests that mark nothing."""
    with TestClient(make_app(open_run(image_run.folder.path)), base_url=ADDRESS) as client:
        until_ready(client)
        yield client


@pytest.fixture(scope="module")
def tables(table_run: Run) -> Iterator[TestClient]:
    """A client of the table, for tests that mark nothing."""
    with TestClient(make_app(open_run(table_run.folder.path)), base_url=ADDRESS) as client:
        until_ready(client)
        yield client
