"""Runs that are served, and clients that wait until the model is loaded."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing: pip install 'turnover[serve]'")

from fastapi.testclient import TestClient

from turnover.runs import open_run
from turnover.ui.web.app import make_app

ADDRESS = "http://127.0.0.1:8000"


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


def _client_of(name: str) -> Callable[..., Iterator[TestClient]]:
    def fixture(request: pytest.FixtureRequest) -> Iterator[TestClient]:
        run = open_run(request.getfixturevalue(f"{name}_run").folder.path)
        with TestClient(make_app(run), base_url=ADDRESS) as client:
            until_ready(client)
            yield client

    return pytest.fixture(scope="module", name=f"{name}s")(fixture)


# Clients for tests that mark nothing.
texts, images, tables = map(_client_of, ("text", "image", "table"))
