"""The sections of a report in their order, and what their templates need beyond the data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnover.ui.words import count, digits, percent, power_of

from . import charts
from .data import ReportData
from .data_measures import MEAN, Confusion
from .findings import doubts_words
from .noise_words import noise_sentences, unit_head, unit_sentence

# More labels than this do not fit on a page as a square.
_LARGEST_SQUARE = 12
_MOST_PAIRS = 15


@dataclass(frozen=True)
class Section:
    """A section: its id (and template), its heading, and how many entries there are."""

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
    """Which label is taken for which."""

    labels: tuple[str, ...]
    lines: tuple[tuple[HeatCell, ...], ...]


def sections_of(data: ReportData) -> list[Section]:
    """Return the sections that have something to show."""
    counts = data.counts
    classifies = bool(data.classes)
    sections = [
        (bool(data.findings), Section("findings", "Summary")),
        (True, Section("data-and-model", "Data and model")),
        (bool(data.colored), Section("colored", "Memorized passages")),
        (bool(data.mistakes), Section("mistakes", "Most confident errors", count(counts.mistakes))),
        (classifies, Section("doubtful", "Likely label errors", count(counts.disbelieved))),
        (bool(data.harmful), Section("harmful", "Harmful examples", count(counts.harmful))),
        (bool(data.memorized or data.self_influence), Section("memorized", "Memorized", count(counts.memorized))),
        (bool(data.duplicates), Section("duplicates", "Near-duplicates", count(counts.duplicates))),
        (bool(data.groups), Section("groups", "Groups", count(len(data.groups)))),
        (classifies, Section("classes", "Classes", count(len(data.classes)))),
        (data.trust is not None, Section("trust", "Noise of the scores")),
        (data.leaks is not None, Section("leaks", "Leak audit")),
        (True, Section("making", "Reproduce")),
    ]
    return [section for shown, section in sections if shown]


def context_of(data: ReportData) -> dict[str, Any]:
    """Return what the templates need beyond the data: charts, units of columns, and sentences about them."""
    parts: list[Callable[[ReportData], dict[str, Any]]] = [_scales, _curves, _memorized, _trust, _labels, _lists]
    return {name: value for part in parts for name, value in part(data).items()}


def lede_of(data: ReportData) -> str:
    """Return the sentence below the title."""
    rows = data.overview.rows
    noun = {"text": "text", "image": "image", "table": "table row", "lm": "word"}[data.overview.kind]
    classes = f" of {count(len(data.overview.labels))} classes" if data.overview.labels else ""
    held_out = " and ".join(f"{count(rows[split])} for {split}" for split in ("validation", "test") if rows.get(split))
    return f"Trained on {count(rows.get('train', 0), noun)}{classes}" + (f"; {held_out}." if held_out else ".")


def _scales(data: ReportData) -> dict[str, Any]:
    own = [one.score for one in data.memorized] or list(data.self_influence.edges if data.self_influence else ())
    return {
        "mean_head": unit_head(data.mean_unit),
        "mean_unit": unit_sentence(data.mean_unit),
        "harmful_power": power_of([one.score for one in data.harmful]),
        "group_power": power_of([one.score for one in data.groups]),
        "self_power": power_of(own),
        "word_power": power_of([one.score for one in data.words]),
        "thing": "word" if data.overview.kind == "lm" else "row",
        "group_column": next((value for name, value in data.overview.facts if name == "group"), "group"),
    }


def _curves(data: ReportData) -> dict[str, Any]:
    curves = data.curves
    if curves is None or not curves.keep:
        return {"curve_chart": None, "curve_words": ""}
    series = {"keep": curves.keep, "flip": curves.flip, "validation": curves.validation}
    words = (
        f"Mean loss after {count(len(curves.keep), 'epoch')}: training rows {digits(curves.keep[-1])} in the kept "
        f"subnetwork, {digits(curves.flip[-1])} in the flipped subnetwork, which never learned them; validation rows "
        f"{digits(curves.validation[-1])}. The gap between the first two is memorization."
    )
    return {"curve_chart": charts.line_chart(series), "curve_words": words}


def _memorized(data: ReportData) -> dict[str, Any]:
    histogram = data.self_influence
    if histogram is None:
        return {"self_chart": None, "self_words": ""}
    scales = _scales(data)
    power, thing = scales["self_power"], f"training {scales['thing']}"
    total = sum(histogram.counts)
    words = (
        f"{count(total, thing)}, of which {count(data.counts.memorized)} "
        f"({percent(data.counts.memorized / total if total else 0.0)}) are memorized: significant positive "
        "self-influence."
    )
    return {"self_chart": charts.bar_chart(histogram, power=power, log=True), "self_words": words}


def _trust(data: ReportData) -> dict[str, Any]:
    histogram = data.trust.mean_influence if data.trust else None
    if histogram is None:
        return {"trust_chart": None, "trust_words": "", "trust_power": 0}
    power = power_of(histogram.edges)
    words = (
        "Bars beyond the line are scores that noise does not explain; within the line, a single score is noise. "
        f"The outermost bars hold all scores further out. Mean influence is {unit_sentence(data.mean_unit)}."
    )
    return {
        "trust_chart": charts.bar_chart(histogram, power=power, log=True),
        "trust_words": words,
        "trust_power": power,
    }


def _labels(data: ReportData) -> dict[str, Any]:
    names = data.overview.labels
    wrong = [pair for pair in data.confusions if pair.given != pair.predicted]
    if not data.confusions or len(names) > _LARGEST_SQUARE:
        return {"matrix": None, "wrong_pairs": wrong[:_MOST_PAIRS]}
    return {"matrix": _square(names, data.confusions), "wrong_pairs": ()}


def _square(names: tuple[str, ...], confusions: tuple[Confusion, ...]) -> Square:
    rows = {(pair.given, pair.predicted): pair.rows for pair in confusions}
    lines = []
    for given in names:
        total = sum(rows.get((given, name), 0) for name in names)
        numbers = [rows.get((given, name), 0) for name in names]
        # Light enough for dark ink, dark enough to see a single row.
        lines.append(tuple(HeatCell(number, round(0.55 * number / total, 3) if total else 0.0) for number in numbers))
    return Square(names, tuple(lines))


def _lists(data: ReportData) -> dict[str, Any]:
    trained = data.overview.rows.get("train", 0)
    return {
        "harmful_words": _harmful_words(data),
        "doubts_words": doubts_words(data.counts, trained),
        # Where groups were trained, there are no scores of rows, and the other way round.
        "noise_words": noise_sentences(data, scores=_tested(data)),
    }


def _tested(data: ReportData) -> int:
    """Return how many mean influences are tested together."""
    known = [one.rows for one in data.trust.of if one.scores == MEAN] if data.trust else []
    return known[0] if known else len(data.groups) or data.overview.rows.get("train", 0)


def _harmful_words(data: ReportData) -> str:
    harmful = data.counts.harmful
    if not harmful:
        return "None is significant, so the order is a hint at most."
    return (
        f"The first {count(harmful)} {'is' if harmful == 1 else 'are'} significant; below, the order is mostly noise."
    )
