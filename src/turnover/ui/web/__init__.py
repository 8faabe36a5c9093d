"""The live page of a run: query it, see the examples behind a prediction, mark and correct wrong labels.

Owns: HTTP, its limits and its pages. Offers: `open_server`; marks and the corrected data. Must not know: how scores are
computed or runs are made.
Everything here needs the extra `serve`, except `serving.py`, which says so where it is missing.

| file | one idea |
| --- | --- |
| `serving.py` | a bound port, an address with its token, a server that runs until it is stopped |
| `app.py`, `site.py` | all parts put together; what pages and API share |
| `security.py` | which requests are answered: token, host, origin, size, time; headers |
| `work_queue.py` | one worker for the model; requests wait in a bounded queue, with a timeout |
| `shapes.py` | what goes over the wire, as pydantic models |
| `answering.py` | from a value to a prediction and the training rows behind it |
| `inputs.py` | what a user typed, edited or sent, checked |
| `browsing.py` | rows as pages show them, likely label errors, wrong predictions |
| `corrections.py` | rows marked as wrong; the original file with their labels corrected |
| `api.py`, `schema.py`, `api_page.py` | the JSON API, its OpenAPI description for one run, and its documentation page |
| `text_page.py` | the page and API of a language model |
| `pages.py`, `responses.py` | the pages for people; templates, and errors as JSON or as a page |
"""

from typing import TYPE_CHECKING, Any

from turnover.errors import MissingExtraError

from .serving import LiveServer, open_server

if TYPE_CHECKING:
    from .corrections import MarkBook, corrected_file

__all__ = ["LiveServer", "MarkBook", "corrected_file", "open_server"]


def __getattr__(name: str) -> Any:
    """Load marks when they are first used: their form on the wire needs pydantic."""
    if name in ("MarkBook", "corrected_file"):
        try:
            from . import corrections
        except ImportError as error:
            raise MissingExtraError(f"marks need more packages ({error}): pip install 'turnover[serve]'.") from error
        return getattr(corrections, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
