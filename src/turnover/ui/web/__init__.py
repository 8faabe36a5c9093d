"""The live page of a run: query it, see the examples behind a prediction, mark and correct wrong labels.

Owns: HTTP, its limits and its pages. Offers: `open_server`; marks and the corrected data. Must not know: how scores are
computed or runs are made. `serving.py` says which packages to install where they are missing.

| file | one idea |
| --- | --- |
| `serving.py` | a bound port, an address with its token, a server that runs until it is stopped |
| `app.py` | all parts put together |
| `security.py` | which requests are answered: token, host, origin, size, time; headers |
| `site.py` | the run: its rows, answers to questions, and the queue in which they wait for the model |
| `api.py`, `pages.py` | the JSON API; the pages for people |
| `responses.py` | templates, and errors as JSON or as a page |
| `corrections.py` | rows marked as wrong; the original file with their labels corrected |
"""

from .corrections import MarkBook, corrected_file
from .serving import LiveServer, open_server

__all__ = ["LiveServer", "MarkBook", "corrected_file", "open_server"]
