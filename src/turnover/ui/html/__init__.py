"""The report of a run: what it says, as data, and the page and the JSON file that are made of it.

Owns: what is worth saying about a run, its sentences, templates, style and script. Must not know: the command line; how
anything is computed.

| file | one idea |
| --- | --- |
| `sentences.py` | headlines, what scores mean and how far to trust them, for report, terminal and live page |
| `sections.py` | what a report says, section by section, from a run to plain data |
| `charts.py` | charts as geometry |
| `page.py` | the page and its JSON twin |
| `templates/` | the one page: `sections.html` lays out each section, `rows.html` lists of rows; style and script |
"""

from .page import asset, environment, render, write_report
from .sections import ReportData, collect, rows_by_split, shown_row
from .sentences import (
    DISAGREE,
    METHODS,
    NONE_SIGNIFICANT,
    Headline,
    duplicates_headline,
    explanation_words,
    label_errors_headline,
    memorized_headline,
    method_words,
    no_interval_words,
    nothing_learned,
    score_meaning,
    significantly_harmful,
    unit_sentence,
)

__all__ = [
    "DISAGREE",
    "METHODS",
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
