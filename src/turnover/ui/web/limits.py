"""How long and how large a request may be, before anything reads it."""

import asyncio
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEGABYTE = 2**20
UPLOAD_BYTES = 5 * MEGABYTE
# What multipart encoding adds to an image.
_AROUND_UPLOAD = 64 * 1024
_OTHER_BYTES = 256 * 1024
_LARGER: Mapping[str, int] = {
    "/": UPLOAD_BYTES + _AROUND_UPLOAD,
    "/answer": UPLOAD_BYTES + _AROUND_UPLOAD,
    "/api/explain/image": UPLOAD_BYTES + _AROUND_UPLOAD,
}


class BodyLimits:
    """Refuses bodies that are too large (413) or take too long to arrive (408).

    Args:
        app: what is called within.
        seconds: for the whole body.
    """

    def __init__(self, app: ASGIApp, *, seconds: float = 15.0) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = _LARGER.get(scope["path"], _OTHER_BYTES)
        await self._app(scope, _Bounded(receive, most, self._seconds, _length(scope)), send)


class _Bounded:
    """Receives a body within its limits; what is beyond them is raised where the body is read."""

    def __init__(self, receive: Receive, most: int, seconds: float, announced: int) -> None:
        self._receive, self._most, self._seconds, self._announced = receive, most, seconds, announced
        self._seen = 0
        self._ends: float | None = None
        self._complete = False

    async def __call__(self) -> Message:
        """Return the next part of the body, or that the client went away."""
        if self._complete:
            return await self._receive()
        if self._announced > self._most:
            raise _too_large(self._most)
        now = asyncio.get_running_loop().time()
        self._ends = now + self._seconds if self._ends is None else self._ends
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._ends - now))
        except TimeoutError as error:
            raise HTTPException(
                408, f"the request did not arrive within {self._seconds:g} seconds. Try again."
            ) from error
        self._seen += len(message.get("body", b""))
        if self._seen > self._most:
            raise _too_large(self._most)
        self._complete = not message.get("more_body", False)
        return message


def _length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _too_large(most: int) -> HTTPException:
    shown = f"{most // MEGABYTE} MB" if most >= MEGABYTE else f"{most // 1024} KB"
    return HTTPException(
        413, f"the request is larger than {shown}. Send something smaller; an image may be scaled down."
    )
