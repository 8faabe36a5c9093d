"""The live page of a language model: a text, a span of it, and the training text that made it probable."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from turnover.applications import SpanExplanation, explain_span, find_span
from turnover.errors import TurnOverError
from turnover.runs import Run
from turnover.ui.html import span_words
from turnover.ui.words import unknown_words

from .inputs import checked_text
from .responses import render
from .shapes import MOST_EXAMPLES, MOST_LETTERS, Shape, Whole
from .work_queue import WorkQueue


class SpanQuestion(Shape):
    """A text, and the words of it, or their places START:END, whose probability is to be explained."""

    text: str = Field(max_length=MOST_LETTERS, examples=["the king of the north"])
    span: str = Field(default="", max_length=MOST_LETTERS, description="empty: the last word")
    k: Whole = Field(default=5, ge=1, le=MOST_EXAMPLES, description="positions that raised it, and that lowered it")


def make_text_routes(run: Run[Any], queue: WorkQueue) -> APIRouter:
    """Return the page of a language model and its API."""
    routes = APIRouter()

    def explained(question: SpanQuestion) -> SpanExplanation:
        text = checked_text(question.text)
        numbers, words = run.task.tokens(text)
        asked = " ".join(run.task.tokens(question.span)[1]) or f"{len(words) - 1}:{len(words)}"
        return explain_span(run, numbers, words, find_span(words, asked, context=run.config.context), k=question.k)

    @routes.post("/api/explain", summary="The training text that made a span of a text probable")
    async def explain(question: SpanQuestion) -> dict[str, Any]:
        answer = (await queue.run(lambda: explained(question))).as_dict()
        return {**answer, "unknown_words": list(run.task.unknown_words(question.text))}

    @routes.get("/", include_in_schema=False)
    async def ask(
        text: Annotated[str, Query(max_length=MOST_LETTERS)] = "",
        span: Annotated[str, Query(max_length=MOST_LETTERS)] = "",
    ) -> Response:
        answer, problem = None, ""
        if text.strip():
            try:
                answer = await queue.run(lambda: explained(SpanQuestion(text=text, span=span)))
            except TurnOverError as error:
                problem = str(error)
        return render(
            "text.html", status=422 if problem else 200, name=run.task.corpus.name, text=text, span=span, answer=answer,
            problem=problem, how="" if answer is None else span_words(answer), words=len(run.text.words),
            unknown="" if answer is None else unknown_words(run.task.unknown_words(text)), context=run.config.context,
            has_report=run.folder.report.is_file(),
        )  # fmt: skip

    return routes
