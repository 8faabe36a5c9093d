"""The JSON API: everything that the pages do, for programs."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, File, Path, Query, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response

from turnover.ui.pictures import as_png

from .browsing import Order
from .corrections import corrected_file
from .shapes import MOST_EXAMPLES, About, Answer, Mark, Marks, NewMark, Problem, Question, Row, RowList, State
from .site import Site

_MOST_ROWS = 200
_KINDS = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "jsonl": "application/jsonl",
    "json": "application/json",
}
_OTHER_KIND = "application/octet-stream"
Responses = dict[int | str, dict[str, Any]]


def _problems(**sentences: str) -> Responses:
    """Return statuses other than success, `_404="why"`, as the schema lists them."""
    return {int(status[1:]): {"model": Problem, "description": why} for status, why in sentences.items()}


_ALWAYS = _problems(
    _401="a token is required",
    _421="this server has another host name",
    _500="the server failed",
)
_INVALID = _problems(_422="that cannot be asked")
_ELSEWHERE = _problems(_403="a page of another site sent the request")
_SENT = {
    **_INVALID,
    **_ELSEWHERE,
    **_problems(_400="the body cannot be taken apart", _408="the body took too long", _413="the body is too large"),
}
_NOT_READY = _problems(_503="the model is being loaded; Retry-After says when to try again")
_BUSY = _problems(
    _503="warming up, or too many wait; Retry-After says when to try again", _504="the model did not answer in time"
)
RowNumber = Annotated[int, Path(ge=0, description="number of a row, counted from 0")]


def make_api(site: Site) -> APIRouter:
    """Return the routes below /api."""
    api = APIRouter(prefix="/api", tags=["run"], responses=_ALWAYS)

    @api.get("/run", response_model=About, summary="What is served")
    def about() -> About:
        return site.about

    @api.get("/state", response_model=State, summary="Whether questions can be asked yet")
    def state() -> State:
        return site.state

    @api.post(
        "/explain",
        response_model=Answer,
        responses={**_SENT, **_BUSY},
        summary="A prediction and the examples behind it",
    )
    async def explain(question: Question) -> Answer:
        return await site.answer(question)

    @api.post(
        "/explain/image",
        response_model=Answer,
        responses={**_SENT, **_BUSY},
        include_in_schema=site.run.kind == "image",
        summary="The same for an image that is sent",
    )
    async def explain_image(
        image: Annotated[UploadFile, File(description="PNG, JPEG, GIF, WEBP or BMP, up to 5 MB and 16 megapixels")],
        examples_of: Annotated[str, Query(description="predicted, all, or a label")] = "predicted",
        k: Annotated[int, Query(ge=1, le=MOST_EXAMPLES, description="supporting and opposing examples, each")] = 10,
    ) -> Answer:
        return await site.answer_image(await image.read(), examples_of=examples_of, k=k)

    @api.get(
        "/rows", response_model=RowList, responses={**_INVALID, **_NOT_READY}, summary="Rows, likely label errors first"
    )
    def rows(
        order: Annotated[
            Order,
            Query(description="likely label errors first; only errors, the most confident first; or as in the file"),
        ] = "label_errors",
        split: Annotated[
            Literal["", "train", "validation", "test"], Query(description="only rows of this split; empty: all")
        ] = "",
        label: Annotated[str, Query(description="only rows of this label")] = "",
        words: Annotated[str, Query(max_length=200, description="only rows that contain this")] = "",
        start: Annotated[int, Query(ge=0, description="skip so many")] = 0,
        most: Annotated[int, Query(ge=1, le=_MOST_ROWS, description="at most so many")] = 50,
    ) -> RowList:
        site.answering.check_ready()
        listed = site.browsing.listed(order=order, split=split, label=label, words=words)
        return RowList(rows=[site.browsing.row(int(row)) for row in listed[start : start + most]], total=len(listed))

    @api.get("/rows/{row}", response_model=Row, responses={**_INVALID, **_NOT_READY}, summary="One row")
    def row(row: RowNumber) -> Row:
        site.answering.check_ready()
        return site.browsing.row(row)

    @api.get("/marks", response_model=Marks, summary="Rows that were marked as wrong")
    def marks() -> Marks:
        return Marks(marks=site.marks.all)

    @api.put("/marks/{row}", response_model=Mark, responses=_SENT, summary="Mark a row as wrong")
    def mark(row: RowNumber, new: NewMark) -> Mark:
        return put_mark(site, row, new.label)

    @api.delete(
        "/marks/{row}",
        status_code=204,
        responses={**_INVALID, **_ELSEWHERE, **_problems(_404="the row is not marked")},
        summary="Take a mark back",
    )
    def unmark(row: RowNumber) -> None:
        if not site.marks.remove(row):
            raise HTTPException(404, f"row {row} is not marked.")

    @api.get(
        "/corrected",
        response_class=Response,
        responses={
            200: {
                "description": "the original file with corrected labels, in its own format",
                "content": {kind: {} for kind in (*_KINDS.values(), _OTHER_KIND)},
            },
            **_INVALID,
        },
        summary="Download the corrected file",
    )
    def corrected() -> Response:
        return corrected_response(site)

    return api


def put_mark(site: Site, row: int, label: str | None) -> Mark:
    """Mark a row that exists with a label that exists."""
    site.browsing.check(row)
    if label is not None:
        site.browsing.check_label(label)
    return site.marks.put(row, label)


def corrected_response(site: Site) -> Response:
    """Return the corrected file as a download."""
    file = corrected_file(site.run.rows, site.run.config.data, site.marks.all, digest=site.run.data_digest)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
    kind = _KINDS.get(file.name.rpartition(".")[2], _OTHER_KIND)
    return Response(file.content, media_type=kind, headers=headers)


def image_response(site: Site, row: int) -> Response:
    """Return the picture of a row."""
    if site.run.kind != "image":
        raise HTTPException(404, "rows of this run have no pictures.")
    pixels = site.run.rows.values[site.browsing.check(row)]
    return Response(as_png(pixels), media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})
