"""The app: pages, API, limits and guard around one run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from turnover._version import __version__
from turnover.errors import RunError
from turnover.runs import Run

from .api import make_api
from .pages import make_pages
from .responses import handle_problems
from .security import LOOPBACK_HOSTS, BodyLimits, Guard
from .site import Site

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
    seconds: float = 30.0,
    body_seconds: float = 15.0,
) -> FastAPI:
    """Return the live page of a run as an ASGI app; the model is loaded in the background when it starts.

    Without a token everyone who reaches the port may use it; None as `hosts`, any name, needs a token. A question may
    take so many seconds.
    """
    if hosts is None and token is None:
        raise RunError("a server that answers to any name needs a token: make_app(run, token=..., hosts=None).")
    site = Site(run, most_waiting=most_waiting, seconds=seconds)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        site.queue.start(site.warm_up)
        yield
        site.queue.close()

    app = FastAPI(
        title=f"turnover: {run.rows.name}",
        description=_ABOUT,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # no status beside those that the schema names
        lifespan=lifespan,
    )
    app.include_router(make_api(site))
    app.include_router(make_pages(site))
    app.state.site = site
    handle_problems(app)
    app.add_middleware(BodyLimits, seconds=body_seconds)
    app.add_middleware(Guard, token=token, hosts=hosts)
    return app
