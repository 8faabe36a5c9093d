"""The report of a run: what it says, as data, and the page and the JSON file that are made of it.

Owns: what is worth saying about a run, its sentences, templates, style and script; the live page (`server`). Must not
know: the command line; how anything is computed.

| file | one idea |
| --- | --- |
| `data.py`, `data_rows.py`, `data_measures.py` | what a report says, as frozen dataclasses |
| `collect.py` | from a run to that data |
| `findings.py`, `overview.py` | headlines; what the data and model are |
| `mistakes.py`, `row_lists.py`, `classes.py` | worst errors; lists of training rows; label by label |
| `trust.py` | noise, standard errors, leaks |
| `language.py` | the report of a language model |
| `shown_rows.py` | rows as readers see them, each once |
| `page.py`, `sections.py`, `charts.py` | the page and its JSON twin; its sections; charts as geometry |
| `templates/` | HTML, style and script of the one page; `base.css` and `shown.html` serve the live page, too |
"""

from .collect import collect
from .data import ReportData
from .page import asset, environment, render, write_report

__all__ = [
    "ReportData",
    "asset",
    "collect",
    "environment",
    "render",
    "write_report",
]
