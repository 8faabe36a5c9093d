"""The app: pages, API, limits and guard around one run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from turnover._version import __version__
from turnover.errors import RunError
from turnover.runs import Run

from .api import make_api
from .pages import add_files, make_pages
from .responses import handle_problems
from .schema import describe_run
from .security import LOOPBACK_HOSTS, BodyLimits, Guard
from .site import Site
from .text_page import make_text_routes
from .work_queue import WorkQueue

_ABOUT = (
    "Explain predictions of a run by its training rows, browse the rows, mark wrong labels and download the corrected "
    "file. A positive score means that a training row supports the prediction."
)


def make_app(
    run: Run,
    *,
    token: str | None = None,
    hosts: frozenset[str] | None = LOOPBACK_HOSTS,
    most_waiting: int = 32,
    seconds: float | None = None,
    body_seconds: float = 15.0,
) -> FastAPI:
    """Return the live page of a run as an ASGI app; the model is loaded in the background when it starts.

    Without a token everyone who reaches the port may use it; None as `hosts`, any name, needs a token. A question may
    take so many seconds; None: 30, of a language model 180, because it reads the whole training text every time.
    """
    if hosts is None and token is None:
        raise RunError("a server that answers to any name needs a token: make_app(run, token=..., hosts=None).")
    is_text = run.kind == "lm"
    seconds = seconds or (180.0 if is_text else 30.0)
    site = None if is_text else Site.of(run, most_waiting=most_waiting, seconds=seconds)
    queue = WorkQueue(most_waiting=most_waiting, seconds=seconds) if site is None else site.queue

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queue.start((lambda: run.models) if site is None else site.answering.warm_up)
        yield
        queue.close()

    app = FastAPI(
        title=f"turnover: {run.task.corpus.name if is_text else run.rows.name}",
        description=_ABOUT,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # no status beside those that the schema names
        lifespan=lifespan,
    )
    app.state.site = site
    if site is None:
        files = APIRouter(include_in_schema=False)
        add_files(files, run)
        routers = [make_text_routes(run, queue), files]
    else:
        routers = [make_api(site), make_pages(site)]
    for router in routers:
        app.include_router(router)
    app.state.routes = [route for router in routers for route in router.routes]
    # Made once, when all routes are there; FastAPI asks for it by this name.
    app.openapi_schema = app.openapi() if site is None else describe_run(app.openapi(), site)
    handle_problems(app)
    app.add_middleware(BodyLimits, seconds=body_seconds)
    app.add_middleware(Guard, token=token, hosts=hosts)
    return app
