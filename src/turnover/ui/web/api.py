"""The JSON API: everything that the pages do, for programs."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, File, Path, Query, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from .corrections import Mark, corrected_file
from .site import ALL, MOST_EXAMPLES, PREDICTED, Question, Site

_MOST_ROWS = 200
_KINDS = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "jsonl": "application/jsonl",
    "json": "application/json",
}


class NewMark(BaseModel):
    """What is right for a row that is wrong."""

    model_config = ConfigDict(extra="forbid")
    label: str | None = Field(description="the right label, as text; null: remove the row")


class Problem(BaseModel):
    """What went wrong."""

    error: str
    detail: str = Field(description="a sentence that says what to do")


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": why}
    for status, why in {
        400: "the body cannot be taken apart",
        401: "a token is required",
        403: "a page of another site sent the request",
        404: "there is nothing to take back",
        408: "the body took too long",
        413: "the body is too large",
        421: "this server has another host name",
        422: "that cannot be asked",
        500: "the server failed",
        503: "warming up, or too many wait; Retry-After says when to try again",
        504: "the model did not answer in time",
    }.items()
}
RowNumber = Annotated[int, Path(ge=0, description="number of a row, counted from 0")]


def make_api(site: Site) -> APIRouter:
    """Return the routes below /api."""
    api = APIRouter(prefix="/api", tags=["run"], responses=_PROBLEMS)

    @api.get("/run", summary="What is served")
    def about() -> dict[str, Any]:
        """Name, kind, task, labels, columns, number of rows by split, results and versions of the run."""
        return site.about

    @api.get("/state", summary="Whether questions can be asked yet")
    def state() -> dict[str, Any]:
        """The state is "warming up", "ready" or "failed"."""
        return site.state

    @api.post("/explain", summary="A prediction and the examples behind it")
    async def explain(question: Question) -> dict[str, Any]:
        """Keys as in an error of report.json, probabilities of all labels, and of each example the row itself."""
        return await site.answer(question)

    @api.post(
        "/explain/image", include_in_schema=site.run.kind == "image", summary="The same for an image that is sent"
    )
    async def explain_image(
        image: Annotated[UploadFile, File(description="PNG, JPEG, GIF, WEBP or BMP, up to 5 MB and 16 megapixels")],
        examples_of: Annotated[str, Query(description=f"{PREDICTED}, {ALL}, or a label")] = PREDICTED,
        k: Annotated[int, Query(ge=1, le=MOST_EXAMPLES, description="supporting and opposing examples, each")] = 10,
    ) -> dict[str, Any]:
        """The answer has the keys of /api/explain."""
        return await site.answer_image(await image.read(), examples_of=examples_of, k=k)

    @api.get("/rows", summary="Rows, likely label errors first")
    def rows(
        order: Annotated[
            Literal["label_errors", "errors", "file"],
            Query(description="likely label errors first; only errors, the most confident first; or as in the file"),
        ] = "label_errors",
        split: Annotated[
            Literal["", "train", "validation", "test"], Query(description="only rows of this split; empty: all")
        ] = "",
        label: Annotated[str, Query(description="only rows of this label")] = "",
        words: Annotated[str, Query(max_length=200, description="only rows that contain this")] = "",
        start: Annotated[int, Query(ge=0, description="skip so many")] = 0,
        most: Annotated[int, Query(ge=1, le=_MOST_ROWS, description="at most so many")] = 50,
    ) -> dict[str, Any]:
        """The rows, each with its held-out prediction, and in total how many fit."""
        site.check_ready()
        listed = site.listed(order=order, split=split, label=label, words=words)
        return {"rows": [site.row(int(row)) for row in listed[start : start + most]], "total": len(listed)}

    @api.get("/rows/{row}", summary="One row")
    def row(row: RowNumber) -> dict[str, Any]:
        """The row with its label, its held-out prediction, and its mark."""
        site.check_ready()
        return site.row(row)

    @api.get("/marks", summary="Rows that were marked as wrong")
    def marks() -> dict[str, list[Mark]]:
        """The marks, the latest first."""
        return {"marks": site.marks.all}

    @api.put("/marks/{row}", summary="Mark a row as wrong")
    def mark(row: RowNumber, new: NewMark) -> Mark:
        """The mark as it is kept."""
        return site.mark(row, new.label)

    @api.delete("/marks/{row}", status_code=204, summary="Take a mark back")
    def unmark(row: RowNumber) -> None:
        if not site.marks.remove(row):
            raise HTTPException(404, f"row {row} is not marked.")

    @api.get("/corrected", response_class=Response, summary="Download the corrected file")
    def corrected() -> Response:
        """The original file with corrected labels, in its own format."""
        return corrected_response(site)

    return api


def corrected_response(site: Site) -> Response:
    """Return the corrected file as a download."""
    file = corrected_file(site.run.rows, site.run.config.data, site.marks.all, digest=site.run.data_digest)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
    kind = _KINDS.get(file.name.rpartition(".")[2], "application/octet-stream")
    return Response(file.content, media_type=kind, headers=headers)
