"""Connections: how long one may be silent or leave an answer unread, and how many there are, per client and in all."""

import asyncio
import ipaddress
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of the connections of a server."""

    head_seconds: float = 10.0  # for the head of a request to arrive, from the connection or its first byte on
    unread_seconds: float = 30.0  # for a client to read on where it stopped
    per_client: int = 64  # of one address; those of this machine, where a proxy may be, count in all only
    most: int = 200


def is_this_machine(address: str) -> bool:
    """Tell whether a client has an address of this machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def protocol_within(limits: ConnectionLimits) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with limits.

    Where there are too many connections, the one that has been silent for longest is closed, so that silent ones keep
    nobody out; requests that are being answered are never cut off.
    """

    class Protocol(H11Protocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._head: asyncio.TimerHandle | None = None
            self._unread: asyncio.TimerHandle | None = None
            self.silent_since = self.loop.time()

        @property
        def silent(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        @property
        def address(self) -> str:
            """The address of the client."""
            return self.client[0] if self.client else ""

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            self._expect_head()
            self._make_room()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.silent:
                self._expect_head()
            else:
                self._head = _stopped(self._head)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.silent_since = self.loop.time()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self._unread or self.loop.call_later(limits.unread_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread = _stopped(self._unread)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head, self._unread = _stopped(self._head), _stopped(self._unread)
            super().connection_lost(exc)

        def _expect_head(self) -> None:
            """Begin to wait for the head of a request; what trickles in does not begin it anew."""
            if self._head is None and not self.transport.is_closing():
                self._head = self.loop.call_later(limits.head_seconds, self._close_if_silent)

        def _close_if_silent(self) -> None:
            self._head = None
            if self.silent:
                self.transport.close()

        def _make_room(self) -> None:
            others = [one for one in self.connections if isinstance(one, Protocol) and not one.transport.is_closing()]
            same = [one for one in others if one.address == self.address and not is_this_machine(one.address)]
            crowd = same if len(same) > limits.per_client else others if len(others) > limits.most else []
            silent = [one for one in crowd if one.silent and one is not self]
            if silent:
                min(silent, key=lambda one: one.silent_since).transport.close()
            elif len(same) > limits.per_client:
                self.transport.close()

    return Protocol


def _stopped(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
