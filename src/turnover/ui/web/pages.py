"""The pages for people: they work as plain forms, and faster with their script."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from turnover.applications import plain
from turnover.errors import DataFileError
from turnover.ui.html import asset
from turnover.ui.pictures import as_png

from .api import corrected_response
from .responses import field_problems, render
from .security import REPORT_POLICY
from .site import MOST_LETTERS, PREDICTED, NotReadyError, Question, Site, as_cells

_STATIC = Path(__file__).parent / "static"
_KINDS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_SHOWN_ERRORS = 8
_ROWS_A_PAGE = 25
_MOST_OPTIONS = 40
_PREFIX = "c:"  # of form fields that are columns

Fields = dict[str, str] | FormData


def make_pages(site: Site) -> APIRouter:
    """Return the routes of the pages."""
    pages = APIRouter(include_in_schema=False)

    @pages.api_route("/", methods=["GET", "POST"])
    async def ask(request: Request) -> Response:
        async with _fields_of(request) as fields:
            return await _ask_page(site, request, fields)

    @pages.api_route("/answer", methods=["GET", "POST"])
    async def answer(request: Request) -> Response:
        async with _fields_of(request) as fields:
            return _render(site, request, "answer.html", answer=await _answered(site, fields), back=_back(request))

    @pages.get("/rows")
    def rows(
        request: Request,
        order: str = "label_errors",
        split: str = "train",
        label: str = "",
        words: str = "",
        page: int = 1,
    ) -> Response:
        site.check_ready()
        order = order if order in ("file", "errors") else "label_errors"
        chosen = {"order": order, "split": split, "label": label, "words": words[:200]}
        listed = site.listed(**chosen)
        last = max(1, -(-len(listed) // _ROWS_A_PAGE))
        number = min(max(page, 1), last)
        shown = listed[(number - 1) * _ROWS_A_PAGE : number * _ROWS_A_PAGE]
        links = {
            where: f"/rows?{urlencode(chosen | {'page': at})}"
            for where, at in (("before", number - 1), ("after", number + 1))
            if 1 <= at <= last
        }
        return _render(
            site, request, "rows.html", rows=[site.row(int(row)) for row in shown], total=len(listed),
            chosen=chosen, number=number, last=last, links=links,
        )  # fmt: skip

    @pages.get("/rows/{row}/image.png")
    def image(row: int) -> Response:
        if site.run.kind != "image":
            raise HTTPException(404, "rows of this run have no pictures.")
        pixels = site.run.rows.values[site.check_row(row)]
        return Response(as_png(pixels), media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})

    @pages.get("/marks")
    def marks(request: Request) -> Response:
        # With the marks of this moment: another client may take one back meanwhile.
        rows = [site.row(mark.row, with_prediction=False) | {"mark": plain(mark)} for mark in site.marks.all]
        return _render(site, request, "marks.html", rows=rows)

    @pages.post("/marks")
    def mark(
        request: Request,
        row: Annotated[int, Form(ge=0)],
        label: Annotated[str, Form(max_length=1000)] = "",
        action: Annotated[str, Form()] = "mark",
        back: Annotated[str, Form(max_length=8000)] = "/marks",
    ) -> Response:
        if action == "unmark":
            site.marks.remove(row)
        else:
            site.mark(row, None if action == "remove" else label)
        # A path on this server, never a way to another one.
        own = back.startswith("/") and not back.startswith("//") and "\\" not in back and back.isprintable()
        back = back if own else "/"
        if request.headers.get("x-part") is not None:
            return _render(site, request, "mark_part.html", row=site.row(row), back=back)
        return RedirectResponse(back, 303)

    @pages.get("/corrected")
    def corrected() -> Response:
        return corrected_response(site)

    @pages.get("/api")
    def api(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        operations = [
            {**operation, "path": path, "method": method, "curl": _curl(operation, method, f"{address}{path}")}
            for path, methods in request.app.openapi()["paths"].items()
            for method, operation in methods.items()
        ]
        question = Question.model_json_schema()["properties"]
        return _render(site, request, "api.html", operations=operations, question=question)

    @pages.get("/state")
    def state(request: Request) -> Response:
        return _render(site, request, "state_part.html")

    @pages.get("/report")
    def report() -> Response:
        file = site.run.folder.report
        if not file.is_file():
            raise HTTPException(404, f"there is no report yet. Write it: turnover report {site.run.folder.path}")
        return FileResponse(file, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    @pages.get("/static/{name}")
    def static(name: str) -> Response:
        if name == "base.css":  # the report's
            return Response(asset(name), media_type="text/css", headers={"Cache-Control": "no-cache"})
        if name not in _KINDS:
            raise HTTPException(404)
        return FileResponse(_STATIC / name, media_type=_KINDS[name], headers={"Cache-Control": "no-cache"})

    @pages.get("/favicon.ico")
    def icon() -> Response:
        return FileResponse(_STATIC / "icon.svg", media_type="image/svg+xml")

    return pages


@asynccontextmanager
async def _fields_of(request: Request) -> AsyncIterator[Fields]:
    """Give what was asked in the address, or by a form."""
    if request.method == "POST":
        async with request.form(max_files=1, max_fields=2000) as form:
            yield form
    else:
        yield dict(request.query_params)


def _back(request: Request) -> str:
    """Return where to go on after a mark: the page with the same question, where its address holds it."""
    return f"/?{request.url.query}" if request.method == "GET" else "/marks"


async def _ask_page(site: Site, request: Request, fields: Fields) -> Response:
    """Return the page to ask on, with the answer where something was asked."""
    answer, problem, status, retry = None, None, 200, None
    if any(name in ("text", "row", "image") or name.startswith(_PREFIX) for name in fields):
        try:
            answer = await _answered(site, fields)
        except NotReadyError as error:
            # The page itself is fine, and asks again by itself.
            problem, retry = str(error), 3 if request.method == "GET" else None
        except DataFileError as error:
            problem, status = str(error), 422
    errors = site.errors[:_SHOWN_ERRORS] if site.state["state"] == "ready" else []
    return _render(
        site, request, "ask.html", status=status, answer=answer, problem=problem, retry=retry,
        values=_shown_values(site, fields, answer), examples_of=str(fields.get("examples_of", PREDICTED)),
        errors=[site.row(int(row)) for row in errors], back=_back(request), columns=site.columns, prefix=_PREFIX,
        most_letters=MOST_LETTERS,
    )  # fmt: skip


async def _answered(site: Site, fields: Fields) -> dict[str, Any]:
    sent = fields.get("image")
    examples_of = str(fields.get("examples_of", PREDICTED))
    if isinstance(sent, UploadFile) and (sent.filename or sent.size):
        return await site.answer_image(await sent.read(), examples_of=examples_of)
    given: dict[str, Any] = {"examples_of": examples_of}
    if row := str(fields.get("row", "")).strip():
        given["row"] = site.run.rows.number_of(row)
    elif "text" in fields:
        given["text"] = str(fields["text"])
    changed = {name.removeprefix(_PREFIX): str(value) for name, value in fields.items() if name.startswith(_PREFIX)}
    if changed:
        given["values"] = changed
    if not given.keys() & {"row", "text", "values"}:
        raise DataFileError("nothing to explain was given. Choose a row, or upload an image.")
    try:
        question = Question(**given)
    except ValidationError as error:
        raise DataFileError(field_problems(error.errors())) from error
    return await site.answer(question)


def _shown_values(site: Site, fields: Fields, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the form is filled with: what was asked, else a row to begin with."""
    rows, row = site.run.rows, str(fields.get("row", "")).strip()
    with suppress(DataFileError):
        row = row and rows.names[rows.number_of(row)]
    text, cells = str(fields.get("text", "")), []
    if answer is not None:
        cells, text = answer["cells"], text if answer["text"] is None else answer["text"]
    if site.run.kind == "table" and not cells:
        number = int(site.run.places("train")[0])
        with suppress(DataFileError):
            number = rows.number_of(row) if row else number
        cells = as_cells(site.checked_values({}, number))
        row = row or rows.names[number]
    return {"row": row, "text": text, "cells": {cell["name"]: cell["value"] for cell in cells}}


def _curl(operation: Mapping[str, Any], method: str, address: str) -> str:
    """Return a request of the API as a command to type."""
    bodies = operation.get("requestBody", {}).get("content", {})
    where = f"'{address.replace('{row}', '0')}'"
    verb = "" if method in ("get", "post") else f" -X {method.upper()}"
    if "multipart/form-data" in bodies:
        return f"curl{verb} -F image=@picture.png {where}"
    if "application/json" in bodies:
        content = {"label": "LABEL"} if method == "put" else {"row": 0}
        return f"curl{verb} -H 'Content-Type: application/json' -d '{json.dumps(content)}' {where}"
    return f"curl{verb} {where}"


def _render(site: Site, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    about = site.about
    return render(
        template, status=status, about=about, state=about["state"], marks=len(site.marks),
        has_report=site.run.folder.report.is_file(), path=request.url.path,
        few_labels=len(about["labels"]) <= _MOST_OPTIONS, most_options=_MOST_OPTIONS, **values,
    )  # fmt: skip
