"""Which sections a report has, in which order, and what their templates need beyond the data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from turnover.applications import LIKELY_ERROR, Confusion, Findings
from turnover.ui.words import count, digits, percent, power_of

from . import charts
from .data import ReportData
from .sentences import (
    DISAGREE,
    METHODS,
    NOISE_BEGINS,
    NONE_SIGNIFICANT,
    compared_words,
    explanation_words,
    harmful_words,
    label_errors_expected,
    noise_words,
    reading_words,
    score_name,
    significance_words,
    single_score_words,
    trust_verdict,
    unit_head,
    unit_sentence,
)

# More labels than this do not fit on a page as a square.
_LARGEST_SQUARE = 12
_MOST_PAIRS = 15
# Supporting and opposing examples of an error: as many as fit beside each other.
_LISTED = {"text": (5, 4), "image": (6, 6), "table": (4, 3)}


@dataclass(frozen=True)
class Section:
    """A section: its id (and template), its heading, and how much there is."""

    id: str
    heading: str
    count: str = ""


@dataclass(frozen=True)
class HeatCell:
    """A number in a square of numbers, and how deep its color is."""

    rows: int
    depth: float


@dataclass(frozen=True)
class Square:
    """Which label is predicted for which."""

    labels: tuple[str, ...]
    lines: tuple[tuple[HeatCell, ...], ...]


def sections_of(data: ReportData) -> list[Section]:
    """Return the sections that have something to say."""
    between = _sections_of_rows(data.findings)
    return [
        Section("findings", "Summary"),
        Section("data-and-model", "Data and model"),
        *(section for shown, section in between if shown),
        Section("trust", "Noise of the scores"),
        Section("leaks", "Leak audit"),
        Section("making", "Reproduce"),
    ]


def _sections_of_rows(findings: Findings) -> list[tuple[bool, Section]]:
    errors, labels = findings.errors, findings.likely_label_errors
    confident = Section("errors", "Most confident errors", count(errors.count))
    return [
        (bool(errors.items), Section("errors", "Largest errors") if errors.numeric else confident),
        (True, Section("label-errors", "Likely label errors", count(labels.count))),
        (bool(findings.harmful.items), Section("harmful", "Harmful examples", count(findings.harmful.count))),
        (True, Section("memorized", "Memorized", count(findings.memorized.count))),
        (
            bool(findings.near_duplicates.items),
            Section("duplicates", "Near-duplicates", count(findings.near_duplicates.count)),
        ),
        (bool(findings.groups.items), Section("groups", "Groups", count(len(findings.groups.items)))),
        (bool(findings.classes), Section("classes", "Classes", count(len(findings.classes)))),
    ]


def context_of(data: ReportData) -> dict[str, Any]:
    """Return what the templates need beyond the data: findings, charts, units of columns, and sentences about them."""
    return {
        "found": data.findings,
        "leaks": sorted(data.findings.leaks.leaks, key=lambda leak: -(leak.gradient_share or 0.0)),
        **_curves(data),
        **_memorized(data),
        "trust_verdict": trust_verdict(data.findings.trust),
        "reading_words": reading_words(data.findings),
        "methods": METHODS,
        **_context_of_rows(data, data.findings),
    }


def lede_of(data: ReportData) -> str:
    """Return the sentence below the title."""
    rows = data.overview.rows
    noun = {"text": "text", "image": "image", "table": "table row"}[data.overview.kind]
    classes = f" of {count(len(data.overview.labels))} classes" if data.overview.labels else ""
    classes = " labeled with numbers" if data.overview.task == "regression" else classes
    held_out = " and ".join(f"{count(rows[split])} for {split}" for split in ("validation", "test") if rows.get(split))
    return f"Trained on {count(rows.get('train', 0), noun)}{classes}" + (f"; {held_out}." if held_out else ".")


def _context_of_rows(data: ReportData, findings: Findings) -> dict[str, Any]:
    return {
        "thing": "row",
        "mean_head": unit_head(findings),
        "mean_unit": unit_sentence(findings.harmful),
        "harmful_power": score_power(findings.harmful.items),
        "group_power": score_power(findings.groups.items),
        "compared_words": compared_words(findings.near_duplicates),
        "group_column": next((value for name, value in data.overview.facts if name == "group"), "group"),
        "listed": _LISTED[data.overview.kind],
        "explanation_words": explanation_words(findings.errors, "groups" if findings.groups.items else "rows"),
        "noise_begins": NOISE_BEGINS if findings.errors.noise_from == "null_ids" else None,
        "disagree": DISAGREE if findings.errors.noise_from == "replicas" else None,
        "none_significant": NONE_SIGNIFICANT.get(findings.errors.noise_from or ""),
        "has_p_values": findings.harmful.noise_from == "null_ids",
        "has_significance": findings.harmful.noise_from is not None,
        "harmful_words": harmful_words(findings),
        "likely_error": LIKELY_ERROR,
        "expected_words": label_errors_expected(findings.likely_label_errors),
        "significance_words": significance_words(findings),
        "noise": [
            (score_name(one, grouped=bool(findings.groups.items)), one, noise_words(one, findings))
            for one in findings.trust.scores
        ],
        "single_score_words": single_score_words(findings),
        **_trust_chart(findings),
        **_confusions(data.overview.labels, findings.confusions),
    }


def score_power(items: Iterable[Any]) -> int:
    """Return the power of ten in whose units the scores of some rows are read easily."""
    return power_of([one.score for one in items])


def _curves(data: ReportData) -> dict[str, Any]:
    curves = data.curves
    if not curves.keep:
        return {"curve_chart": None, "curve_words": ""}
    what = "squared error (label deviation = 1)" if curves.r2 else "loss"
    series = {"keep": curves.keep, "flip": curves.flip, "validation": curves.validation}
    words = (
        f"Mean {what} after {count(len(curves.keep), 'epoch')}: training rows {digits(curves.keep[-1])} in the kept "
        f"subnetwork, {digits(curves.flip[-1])} in the flipped subnetwork (held out); validation rows "
        f"{digits(curves.validation[-1])}. The gap between the first two is memorization."
    )
    if curves.flip[-1] > curves.validation[-1]:
        words += (
            " The loss of flipped subnetworks exceeds that of validation rows: they never learn wrong training labels, "
            "and they predict their own rows worse than new ones."
        )
    return {"curve_chart": charts.line_chart(series), "curve_words": words}


def _memorized(data: ReportData) -> dict[str, Any]:
    memorized = data.findings.memorized
    rows = count(memorized.rows, "training row")
    power = power_of(
        [one.self_influence for one in memorized.items] or (memorized.histogram.edges if memorized.histogram else ())
    )
    words = (
        f"{rows}, of which {count(memorized.count)} ({percent(memorized.share)}) are memorized: significant "
        "positive self-influence."
    )
    chart = None if memorized.histogram is None else charts.bar_chart(memorized.histogram, power=power, log=True)
    return {"self_chart": chart, "self_words": words, "self_power": power}


def _trust_chart(findings: Findings) -> dict[str, Any]:
    histogram = findings.trust.mean_influence
    if histogram is None:
        return {"trust_chart": None}
    power = power_of(histogram.edges)
    beyond = (
        "Bars beyond the line are scores that noise does not explain; within the line, a single score is noise. "
        if histogram.null
        else ""
    )
    words = (
        f"{beyond}The outermost bars hold all scores further out. Mean influence is {unit_sentence(findings.harmful)}."
    )
    chart = charts.bar_chart(histogram, power=power, log=True)
    return {"trust_chart": chart, "trust_words": words, "trust_power": power}


def _confusions(names: tuple[str, ...], confusions: tuple[Confusion, ...]) -> dict[str, Any]:
    if not confusions or len(names) > _LARGEST_SQUARE:
        wrong = [pair for pair in confusions if pair.label != pair.predicted]
        return {"matrix": None, "wrong_pairs": wrong[:_MOST_PAIRS]}
    return {"matrix": _square(names, confusions), "wrong_pairs": ()}


def _square(names: tuple[str, ...], confusions: tuple[Confusion, ...]) -> Square:
    rows = {(pair.label, pair.predicted): pair.rows for pair in confusions}
    lines = []
    for label in names:
        numbers = [rows.get((label, name), 0) for name in names]
        total = sum(numbers)
        # Light enough for dark ink, dark enough to see a single row.
        lines.append(tuple(HeatCell(number, round(0.55 * number / total, 3) if total else 0.0) for number in numbers))
    return Square(names, tuple(lines))
