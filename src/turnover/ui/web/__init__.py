"""The live page of a run: ask it, see the rows behind an answer, mark wrong labels, download the corrected file.

Owns: HTTP, its limits and its pages. Must not know: how scores are computed or runs are made.
Everything here needs the extra `serve`, except `serving.py`, which says so where it is missing.

| file | one idea |
|---|---|
| `serving.py` | a bound port, an address with its token, a server that runs until it is stopped |
| `app.py` | all parts put together |
| `security.py` | who may ask: token, host, same origin; headers that keep pages from being abused |
| `limits.py` | how long and how large a request may be |
| `work_queue.py` | one worker for the model; requests wait in a queue with a bound, and not for ever |
| `shapes.py` | what goes over the wire, as pydantic models |
| `answering.py`, `behind.py` | from a value to a prediction; from a prediction to the training rows behind it |
| `values.py`, `uploads.py` | what a user typed, edited or sent, checked |
| `browsing.py` | rows as pages show them, which labels are doubtful, which predictions wrong |
| `marks.py`, `corrected.py` | rows marked as wrong; the original file with their labels corrected |
| `api.py`, `api_page.py` | the JSON API, and its documentation without anything from elsewhere |
| `pages.py`, `rendering.py` | the pages for people, rendered here, with everything escaped |
| `problems.py` | what went wrong, as JSON or as a page |
"""
