"""Pages from templates; errors as JSON for programs, a page for people, or a part of one for its script."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from turnover.errors import TurnOverError
from turnover.ui.html import (
    DISAGREE,
    NOISE_BEGINS,
    NONE_SIGNIFICANT,
    environment,
    method_words,
    no_interval_words,
    score_meaning,
)

from .api_page import body_words, curl, returns_words, type_words
from .work_queue import QueueFullError, TooSlowError

if TYPE_CHECKING:
    import jinja2

_TITLES = {
    400: "Bad request",
    401: "Token required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Timeout",
    413: "Too large",
    421: "Unknown host name",
    422: "Invalid request",
    503: "Busy",
    504: "Timeout",
}
_RETRY_SECONDS = 2


class NotReadyError(Exception):
    """The model is still being loaded, or could not be."""


def render(
    template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Return a page, in which all values that the template fills in are escaped."""
    content = _templates().get_template(template).render(**values)
    return HTMLResponse(content, status, headers=dict(headers or {}))


def problem_response(
    request: Request, status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem in the form that suits who asked."""
    title = _TITLES.get(status, "Something went wrong")
    if request.url.path.startswith(("/api/", "/openapi.json")):
        return JSONResponse({"error": title, "detail": sentence}, status, headers=dict(headers or {}))
    whole = request.headers.get("x-part") is None
    template = "problem.html" if whole else "problem_part.html"
    retry = _RETRY_SECONDS if status == 503 and request.method == "GET" else None
    return render(template, status=status, headers=headers, title=title, sentence=sentence, retry=retry)


def handle_problems(app: FastAPI) -> None:
    """Let an app answer its exceptions with sentences."""

    @app.exception_handler(HTTPException)
    def of_http(request: Request, error: HTTPException) -> Response:
        detail = {404: "there is no page at this address.", 405: "this address does not support that method."}
        shown = detail.get(error.status_code, error.detail) if error.detail in _PLAIN else error.detail
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(methods_at(app, request.url.path))
        return problem_response(request, error.status_code, shown, headers)

    @app.exception_handler(RequestValidationError)
    def of_request(request: Request, error: RequestValidationError) -> Response:
        return problem_response(request, 422, "; ".join(_field_problem(one) for one in error.errors()) + ".")

    def of_known_kind(request: Request, error: Exception) -> Response:
        status = next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)
        headers = {"Retry-After": str(_RETRY_SECONDS)} if status == 503 else None
        return problem_response(request, status, str(error), headers)

    for kind in _STATUSES:
        app.add_exception_handler(kind, of_known_kind)

    @app.exception_handler(Exception)
    def of_our_own(request: Request, error: Exception) -> Response:
        logging.getLogger(__name__).debug("a request failed", exc_info=error)
        return problem_response(request, 500, f"the server failed ({type(error).__name__}). Its terminal shows more.")


def methods_at(app: Any, path: str) -> list[str]:
    """Return the methods of all routes of a path; a route by itself knows its own only."""
    routes = [route for route in app.state.routes if isinstance(route, Route) and route.path_regex.match(path)]
    return sorted({method for route in routes for method in route.methods or ()})


_PLAIN = ("Not Found", "Method Not Allowed")
_STATUSES = {TurnOverError: 422, QueueFullError: 503, NotReadyError: 503, TooSlowError: 504}


def _field_problem(error: Mapping[str, object]) -> str:
    place = error.get("loc")
    names = [str(part) for part in place if part not in ("body", "query", "path")] if isinstance(place, tuple) else []
    return f"{'.'.join(names) or 'the request'}: {error.get('msg')}"


@cache
def _templates() -> "jinja2.Environment":
    env = environment("turnover.ui.web")
    env.filters |= {filter.__name__: filter for filter in (body_words, curl, returns_words, type_words)}
    sentences = (method_words, no_interval_words, score_meaning)
    env.filters |= {filter.__name__: filter for filter in sentences}
    env.globals |= {"noise_begins": NOISE_BEGINS, "disagree": DISAGREE, "none_significant": NONE_SIGNIFICANT}
    return env
