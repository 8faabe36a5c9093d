"""Requests that are too large or too slow are rejected before they are read."""

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from turnover.ui.web.security import UPLOAD_BYTES, BodyLimits


def _read(path: str, messages: list[dict[str, Any]], *, length: int | None = None, pause: float = 0.0) -> bytes:
    found = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            found.append(message["body"])
            if not message.get("more_body"):
                return

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause)
        return messages.pop(0)

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    asyncio.run(BodyLimits(app, seconds=0.2)(scope, receive, None))  # pyright: ignore[reportArgumentType]
    return b"".join(found)


def _parts(count: int, size: int) -> list[dict[str, Any]]:
    return [{"type": "http.request", "body": b"x" * size, "more_body": place < count - 1} for place in range(count)]


@pytest.mark.parametrize("path", ["/answer", "/api/explain/image", "/"])
def test_a_body_that_grows_too_large_is_refused_though_it_announced_no_length(path):
    with pytest.raises(HTTPException) as raised:
        _read(path, _parts(6, 2**20))
    assert raised.value.status_code == 413
    assert "at most 5 MB" in raised.value.detail


def test_an_announced_length_is_enough_to_be_refused():
    with pytest.raises(HTTPException, match="413"):
        _read("/answer", [], length=UPLOAD_BYTES * 2)


def test_what_is_no_upload_may_be_smaller_only():
    with pytest.raises(HTTPException, match="256 KB"):
        _read("/api/explain", _parts(3, 2**17))


def test_a_body_that_trickles_in_is_given_up():
    with pytest.raises(HTTPException) as raised:
        _read("/answer", _parts(100, 10), pause=0.02)
    assert raised.value.status_code == 408


def test_an_upload_that_is_too_large_gets_a_sentence(images):
    answer = images.post("/api/explain/image", files={"image": b"x" * (UPLOAD_BYTES + 2**20)})
    assert answer.status_code == 413
    assert "scaled down" in answer.json()["detail"]
