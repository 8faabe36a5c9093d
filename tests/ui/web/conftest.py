"""Runs that are served, and clients that wait until the model is loaded."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing: pip install 'turnover[serve]'")

from fastapi.testclient import TestClient

from turnover.runs import Run, open_run
from turnover.ui.web.app import make_app

ADDRESS = "http://127.0.0.1:8000"


def until_ready(client: Any) -> None:
    ends = time.monotonic() + 60
    while client.get("/api/state").json()["state"] == "warming up":
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Callable[..., TestClient]]:
    with ExitStack() as stack:

        def serve(name: str, *, ready: bool = True, **options: Any) -> TestClient:
            return stack.enter_context(_client(request.getfixturevalue(f"{name}_run"), ready=ready, **options))

        yield serve


@pytest.fixture(scope="session")
def shared_client() -> Iterator[Callable[[Run], TestClient]]:
    """A function that returns the one client of a run which most tests share: a model takes a while to load."""
    with ExitStack() as stack:
        yield cache(lambda run: stack.enter_context(_client(run)))


def _shared(name: str) -> Callable[..., Iterator[TestClient]]:
    def fixture(request: pytest.FixtureRequest, shared_client: Callable[[Run], TestClient]) -> Iterator[TestClient]:
        client = shared_client(request.getfixturevalue(f"{name}_run"))
        yield client
        marks = client.app.state.site.marks  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]
        for mark in marks.all:
            marks.remove(mark.row)

    return pytest.fixture(name=f"{name}s")(fixture)


# Clients of runs; what a test marks is forgotten at its end.
texts, groups, adapters, images = map(_shared, ("text", "group", "adapter", "image"))
tables, numbers = map(_shared, ("table", "number"))


@contextmanager
def _client(run: Run, *, ready: bool = True, **options: Any) -> Iterator[TestClient]:
    with TestClient(make_app(open_run(run.folder.path), **options), base_url=ADDRESS) as client:
        if ready:
            until_ready(client)
        yield client
    (run.folder.path / "marks.json").unlink(missing_ok=True)
