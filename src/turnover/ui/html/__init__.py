"""The report of a run: what it says, as data, and the page and the JSON file that are made of it.

Owns: what is worth saying about a run, its sentences, templates, style and script; the live page (`server`). Must not
know: the command line; how anything is computed.

| file | one idea |
| --- | --- |
| `data.py` | what a report says: from a run to findings, headlines, facts and rows |
| `headlines.py` | the headlines: a figure, a sentence, where to read more; for the report and the terminal |
| `sentences.py` | what scores mean and how far to trust them, for the report and the terminal |
| `shown_rows.py` | a row as readers see it |
| `page.py`, `sections.py`, `charts.py` | the page and its JSON twin; its sections; charts as geometry |
| `templates/` | HTML, style and script of the one page; `base.css` and `shown.html` serve the live page, too |
"""

from .data import ReportData, collect, rows_by_split
from .headlines import Headline, duplicates_headline, label_errors_headline, memorized_headline
from .page import asset, environment, render, write_report
from .sentences import (
    DISAGREE,
    METHODS,
    NOISE_BEGINS,
    NONE_SIGNIFICANT,
    explanation_words,
    method_words,
    no_interval_words,
    nothing_learned,
    score_meaning,
    significantly_harmful,
    unit_sentence,
)
from .shown_rows import shown_row

__all__ = [
    "DISAGREE",
    "METHODS",
    "NOISE_BEGINS",
    "NONE_SIGNIFICANT",
    "Headline",
    "ReportData",
    "asset",
    "collect",
    "duplicates_headline",
    "environment",
    "explanation_words",
    "label_errors_headline",
    "memorized_headline",
    "method_words",
    "no_interval_words",
    "nothing_learned",
    "render",
    "rows_by_split",
    "score_meaning",
    "shown_row",
    "significantly_harmful",
    "unit_sentence",
    "write_report",
]
