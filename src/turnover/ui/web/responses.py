"""Pages from templates; errors as JSON for programs, a page for people, or a part of one for its script."""

import logging
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from turnover.errors import TurnOverError
from turnover.ui.html import (
    DISAGREE,
    NONE_SIGNIFICANT,
    environment,
    method_words,
    no_interval_words,
    score_meaning,
)
from turnover.ui.words import power_of

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
_DEFAULT_DETAILS = {
    "Not Found": "there is no page at this address.",
    "Method Not Allowed": "this address does not support that method.",
}


class BusyError(Exception):
    """The model cannot be asked now: it is being loaded, or too many requests wait."""


class TooSlowError(Exception):
    """The answer did not come in time."""


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
    template = "problem.html" if request.headers.get("x-part") is None else "problem_part.html"
    retry = _RETRY_SECONDS if status == 503 and request.method == "GET" else None
    return render(template, status=status, headers=headers, title=title, sentence=sentence, retry=retry)


def handle_problems(app: FastAPI) -> None:
    """Let an app answer its exceptions with sentences."""

    @app.exception_handler(HTTPException)
    def of_http(request: Request, error: HTTPException) -> Response:
        sentence = _DEFAULT_DETAILS.get(error.detail, error.detail)
        return problem_response(request, error.status_code, sentence, error.headers)

    @app.exception_handler(RequestValidationError)
    def of_request(request: Request, error: RequestValidationError) -> Response:
        return problem_response(request, 422, field_problems(error.errors()))

    @app.exception_handler(TurnOverError)
    def of_what_was_asked(request: Request, error: TurnOverError) -> Response:
        return problem_response(request, 422, str(error))

    @app.exception_handler(BusyError)
    def of_now(request: Request, error: BusyError) -> Response:
        return problem_response(request, 503, str(error), {"Retry-After": str(_RETRY_SECONDS)})

    @app.exception_handler(TooSlowError)
    def of_time(request: Request, error: TooSlowError) -> Response:
        return problem_response(request, 504, str(error))

    @app.exception_handler(Exception)
    def of_our_own(request: Request, error: Exception) -> Response:
        logging.getLogger(__name__).debug("a request failed", exc_info=error)
        return problem_response(request, 500, f"the server failed ({type(error).__name__}). Its terminal shows more.")


def field_problems(errors: Any) -> str:
    """Return what pydantic rejects, as a sentence."""
    problems: list[str] = []
    for error in errors:
        names = [str(part) for part in error.get("loc", ()) if part not in ("body", "query", "path")]
        problems.append(f"{'.'.join(names) or 'the request'}: {error.get('msg')}")
    return "; ".join(problems) + "."


@cache
def _templates() -> "jinja2.Environment":
    env = environment("turnover.ui.web")
    env.filters |= {
        "method_words": lambda answer: method_words(SimpleNamespace(**answer)),
        "score_meaning": lambda answer: score_meaning(SimpleNamespace(**answer)),
        "no_interval_words": no_interval_words,
        "power": lambda examples: power_of(example["score"] for example in examples),
    }
    env.globals |= {"disagree": DISAGREE, "none_significant": NONE_SIGNIFICANT}
    return env
