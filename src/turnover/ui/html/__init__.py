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
| `page.py`, `sections.py`, `charts.py`, `wording.py` | the page; its sections; charts as geometry; numbers as text |
| `files.py` | both files, whole or not at all |
| `templates/` | HTML, style and script, all put into the one page |
"""

from .collect import collect
from .data import ReportData
from .files import write_report
from .page import render

__all__ = [
    "ReportData",
    "collect",
    "render",
    "write_report",
]
