"""Which requests are answered: token, host, origin, size and time; and headers that keep pages from being abused."""

import asyncio
import hashlib
import hmac
import html
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .responses import problem_response

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
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_CHANGING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Questions are asked by POST where they are too long for an address.
_CHANGES_NOTHING = frozenset({"/", "/answer", "/api/explain/image"})
# Scripts and styles come from our own files only, so that nothing in the data can become one of them.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The report brings its scripts and styles within itself: it gets an origin of its own, without cookies and network.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class Guard:
    """Lets requests through that know the token and call one of `hosts`, and sets the headers of all answers.

    Hosts are checked so that no page elsewhere reaches the server under a name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: frozenset[str] | None) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        answer = self._rejected(request) or self._signed_in(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _rejected(self, request: Request) -> Response | None:
        """Return why a request is not answered, or None."""
        if self._hosts is not None and _host_name(request) not in self._hosts:
            return problem_response(
                request, 421, f"this server has no host name {_host_name(request)!r}. Open http://127.0.0.1."
            )
        if self._token is not None and not self._knows_token(request):
            return problem_response(
                request,
                401,
                "a token is required. Open the address that `turnover serve` printed, or send the header "
                "Authorization: Bearer TOKEN.",
                {"WWW-Authenticate": "Bearer"},
            )
        if request.method in _CHANGING_METHODS and not _same_origin(request):
            return problem_response(
                request,
                403,
                "requests that change something must come from this page; programs send JSON and no Origin header.",
            )
        return None

    def _knows_token(self, request: Request) -> bool:
        assert self._token is not None
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = [
            (request.query_params.get("token", ""), self._token),
            (bearer.strip() if kind.lower() == "bearer" else "", self._token),
            (request.cookies.get(_cookie_name(self._token), ""), _cookie_value(self._token)),
        ]
        return any(hmac.compare_digest(sent.encode(), secret.encode()) for sent, secret in given)

    def _signed_in(self, request: Request) -> Response | None:
        """Return a page that keeps the token of the address as a cookie and goes on without it."""
        if self._token is None or "token" not in request.query_params or request.method != "GET":
            return None
        if not hmac.compare_digest(request.query_params["token"].encode(), self._token.encode()):
            return None
        rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
        # A page and no redirect: after a click on a link elsewhere a strict cookie would not be sent along.
        target = "/" + request.url.path.lstrip("/\\") + (f"?{rest}" if rest else "")
        answer = HTMLResponse(_GO_ON.format(target=html.escape(target)))
        answer.set_cookie(
            _cookie_name(self._token),
            _cookie_value(self._token),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


_GO_ON = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={target}">'
    '<title>turnover</title><p><a href="{target}">Go on</a></p></html>'
)


def _cookie_name(token: str) -> str:
    # Cookies are shared by all ports of a host: two servers must not overwrite each other's.
    return f"turnover-{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()


def _host_name(request: Request) -> str:
    """Return the Host header without its port."""
    host = request.headers.get("host", "").lower()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _same_origin(request: Request) -> bool:
    """Tell whether a request comes from our own page, or from no page at all."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is not None:
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    # No page at all, or an old browser. Its forms could not send JSON, nor these headers and methods.
    json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
    harmless = json or request.url.path in _CHANGES_NOTHING or request.method in ("PUT", "DELETE")
    return site is not None or harmless or "authorization" in request.headers


class BodyLimits:
    """Rejects bodies that are too large (413) or take too long to arrive (408)."""

    def __init__(self, app: ASGIApp, *, seconds: float = 15.0) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = _LARGER.get(scope["path"], _OTHER_BYTES)
        announced = Headers(scope=scope).get("content-length", "")
        seen, complete = 0, False
        ends: float | None = None

        async def bounded() -> Message:
            """Return the next part of the body, or that the client went away; raise where it is beyond its limits."""
            nonlocal seen, complete, ends
            if complete:
                return await receive()
            if announced.isdecimal() and (len(announced) > 20 or int(announced) > most):
                raise _too_large(most)
            seconds = asyncio.get_running_loop().time()
            ends = seconds + self._seconds if ends is None else ends
            try:
                message = await asyncio.wait_for(receive(), max(0.0, ends - seconds))
            except TimeoutError as error:
                sentence = f"the request did not arrive within {self._seconds:g} seconds. Try again."
                raise HTTPException(408, sentence) from error
            seen += len(message.get("body", b""))
            if seen > most:
                raise _too_large(most)
            complete = not message.get("more_body", False)
            return message

        await self._app(scope, bounded, send)


def _too_large(most: int) -> HTTPException:
    shown = f"{most // MEGABYTE} MB" if most >= MEGABYTE else f"{most // 1024} KB"
    return HTTPException(413, f"the request must be at most {shown}. Send a smaller one; an image can be scaled down.")
