"""Serving a run: a bound port, an address with its token, and a server that runs until it is stopped."""

import errno
import ipaddress
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from turnover.errors import MissingExtraError, RunError

if TYPE_CHECKING:
    from turnover.runs import Run

_SHORTEST_TOKEN = 16
_MOST_CONNECTIONS = 200


class LiveServer:
    """A server whose port is bound; made by `open_server`."""

    def __init__(self, app: Any, bound: socket.socket, address: str, token: str | None) -> None:
        import uvicorn

        self.address, self.token = address, token
        self.port: int = bound.getsockname()[1]
        self._bound = bound
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([bound],), daemon=True)

    def run(self) -> None:
        """Answer requests until the process is interrupted."""
        try:
            self._server.run(sockets=[self._bound])
        except KeyboardInterrupt:
            pass  # this is how it is stopped
        finally:
            self._bound.close()

    def start(self) -> "LiveServer":
        """Answer requests in a thread, and return when it listens."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """Stop the thread."""
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()

    def __enter__(self) -> "LiveServer":
        """Start it."""
        return self.start()

    def __exit__(self, *exception: object) -> None:
        """Stop it."""
        self.stop()


def open_server(
    run: "Run",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    **options: Any,
) -> LiveServer:
    """Return a server for a run, its port bound: `run()` it, or use it in a `with` statement.

    Beyond this machine only those who know a token may ask; where none is given, one is made.
    """
    try:
        import uvicorn  # noqa: F401

        from .app import make_app
        from .security import LOOPBACK_HOSTS
    except ImportError as error:
        raise MissingExtraError(
            f"the live page needs more packages ({error}): pip install 'turnover[serve]'"
        ) from error
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise RunError(
            f"the token must have at least {_SHORTEST_TOKEN} characters, got {len(token)}. Give a longer "
            "one, or none: it is then generated where it is needed."
        )
    bound = _bind(host, port)
    try:
        alone = ipaddress.ip_address(bound.getsockname()[0]).is_loopback
        if not alone and token is None:
            token = secrets.token_urlsafe(24)
        # Without a token the name must be ours, so that no page elsewhere reaches it under its own (DNS rebinding).
        app = make_app(run, token=token, hosts=LOOPBACK_HOSTS if token is None else None, **options)
    except BaseException:
        bound.close()
        raise
    shown = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::", ""):
        shown = socket.gethostname()
    address = f"http://{shown}:{bound.getsockname()[1]}/"
    return LiveServer(app, bound, f"{address}?token={token}" if token else address, token)


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to a port, or raise with what to do."""
    if not 0 <= port <= 65535:
        raise RunError(f"port must be an integer from 0 to 65535, got {port}. Give one from 1024 on: --port 8000.")
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind)
    except OSError as error:
        raise RunError(f"host {host!r} is unknown ({error}). Give 127.0.0.1, or 0.0.0.0 for all addresses.") from error
    # A port of a server that was just stopped can be used again at once.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(place)
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise RunError(_cannot_bind(host, port, error)) from error
    return bound


def _cannot_bind(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use, perhaps by another turnover serve. Stop it, or use another: --port {port + 1}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} needs more rights than this user has. Use one from 1024 on: --port 8000"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host must be an address of this machine, got {host!r}. Give --host 127.0.0.1, or 0.0.0.0 for all."
    return f"cannot listen on {host}:{port}: {error.strerror or error}. Use another port: --port 8001"
