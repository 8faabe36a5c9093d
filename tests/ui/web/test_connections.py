"""Silent, slow and too many connections keep nobody out, and end by themselves."""

import inspect
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient

from tests.ui.web.conftest import ADDRESS
from turnover.runs import open_run
from turnover.ui.web.app import make_app
from turnover.ui.web.connections import ConnectionLimits
from turnover.ui.web.serving import open_server

HEAD = b"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(autouse=True)
def ended_warm_up() -> Iterator[None]:
    """A page that is closed at once still loads its model, which draws from the random state of the next test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name == "turnover-model":
            thread.join()


def _connected(stack: ExitStack, port: int) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))


def _closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection; False: it answered."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def _trickle(connection: socket.socket) -> None:
    """Send one header after the other, up to 30 seconds."""
    for _ in range(600):
        connection.sendall(b"x: y\r\n")
        time.sleep(0.05)


def test_more_silent_connections_than_there_may_be_keep_nobody_out(text_run):
    with open_server(text_run, port=0, limits=ConnectionLimits(most=20)) as server, ExitStack() as stack:
        silent = [_connected(stack, server.port) for _ in range(30)]
        for _ in range(3):
            with urllib.request.urlopen(f"{server.address}api/state", timeout=30) as answer:
                assert answer.status == 200
        assert all(map(_closed, silent[:10]))


@pytest.mark.parametrize("sent", [b"", HEAD], ids=["nothing", "half a head"])
def test_a_connection_without_a_request_is_closed_after_a_while(text_run, sent):
    with open_server(text_run, port=0, limits=ConnectionLimits(head_seconds=0.3)) as server, ExitStack() as stack:
        connection = _connected(stack, server.port)
        connection.sendall(sent)
        assert _closed(connection)


def test_a_head_that_trickles_in_is_given_up(text_run):
    with open_server(text_run, port=0, limits=ConnectionLimits(head_seconds=0.5)) as server, ExitStack() as stack:
        connection = _connected(stack, server.port)
        connection.sendall(HEAD)
        with pytest.raises(OSError):  # noqa: PT011 - a broken pipe or a reset, as it happens
            _trickle(connection)


def test_a_request_in_time_is_answered_on_a_connection_that_is_used_again(text_run):
    with open_server(text_run, port=0, limits=ConnectionLimits(head_seconds=2)) as server, ExitStack() as stack:
        connection = _connected(stack, server.port)
        for _ in range(2):
            connection.sendall(HEAD + b"\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
            while not connection.recv(4096).endswith(b"}"):
                pass


def test_an_answer_that_nobody_reads_is_given_up(text_run):
    limits = ConnectionLimits(unread_seconds=0.3, head_seconds=600)
    with open_server(text_run, port=0, limits=limits) as server, ExitStack() as stack:
        connection = _connected(stack, server.port)
        connection.sendall(HEAD)
        while not (there := server._server.server_state.connections):
            time.sleep(0.01)
        protocol = next(iter(there))
        protocol.loop.call_soon_threadsafe(protocol.pause_writing)  # as asyncio does where its buffers are full
        assert _closed(connection)


@pytest.mark.skipif(
    "client" not in inspect.signature(TestClient).parameters, reason="clients of this Starlette have one address"
)
def test_a_client_with_too_many_requests_under_way_is_told_to_wait_and_others_are_not(text_run):
    app = make_app(open_run(text_run.folder.path), most_per_client=0)
    with TestClient(app, base_url=ADDRESS, client=("203.0.113.7", 1)) as client:
        answer = client.get("/api/run")
        assert answer.status_code == 429
        assert "Wait for one of them" in answer.json()["detail"]
        assert answer.headers["retry-after"] == "2"
        here = TestClient(app, base_url=ADDRESS, client=("127.0.0.1", 1))
        assert here.get("/api/run").status_code == 200
