"""What a report says: findings, headlines, facts and rows; its sections, and what their templates need beyond these."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from turnover.applications import LIKELY_ERROR, Confusion, Examples, Findings, find_all, plain
from turnover.runs import SPLITS, Curves, Rows, Run
from turnover.ui.pictures import thumbnail
from turnover.ui.words import cell_text, count, digits, label_words, percent, power_of, shortened

from . import charts, sentences
from .sentences import Headline

_FORMAT = 1
_MOST_CELLS, _MOST_LISTED = 12, 8
# More labels than this do not fit on a page as a square.
_LARGEST_SQUARE, _MOST_PAIRS = 12, 15
# Supporting and opposing examples of an error: as many as fit beside each other.
_LISTED = {"text": (5, 4), "image": (6, 6), "table": (4, 3)}
_FIGURES = {"accuracy": ("accuracy", percent), "rmse": ("RMSE", digits), "mae": ("MAE", digits), "r2": ("R²", digits)}


class Cell(NamedTuple):
    """A column of a table and its value, as readers see them."""

    name: str
    value: str


@dataclass(frozen=True)
class ShownRow:
    """A row as a reader sees it: its text shortened, its image as a small picture, or its first cells."""

    row: int
    name: str  # its line, or the file of an image
    split: str
    label: str | None
    text: str | None = None
    image: str | None = None
    cells: tuple[Cell, ...] = ()
    group: str | None = None
    more_cells: int = 0  # how many columns it has beyond those


@dataclass(frozen=True)
class ReportData:
    """All that a report says: the page and its JSON twin are made of this and of nothing else.

    Attributes:
        overview: what data and model are.
        making: how the run was made, and how to make it again.
        rows: every row that a finding names, once.
    """

    overview: Mapping[str, Any]
    headlines: tuple[Headline, ...]
    making: Mapping[str, Any]
    findings: Findings
    curves: Curves
    rows: tuple[ShownRow, ...] = ()

    @cached_property
    def by_number(self) -> dict[int, ShownRow]:
        """Return the shown rows by their numbers."""
        return {row.row: row for row in self.rows}

    def as_json(self) -> str:
        """Return everything as JSON; findings stand beside the other parts."""
        parts = {name: getattr(self, name) for name in ("overview", "headlines", "making", "curves", "rows")}
        content = {"format": _FORMAT, **plain(parts), **self.findings.as_dict()}
        return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def collect(run: Run) -> ReportData:
    """Return what the report of a finished run says, with nothing left to compute."""
    findings, about = find_all(run), run.about
    rows = tuple(shown_row(run.examples, row) for row in findings.named_rows)
    return ReportData(
        overview={
            "title": run.rows.name,
            "task": run.task.name,
            "kind": run.kind,
            "rows": rows_by_split(run),
            "labels": run.label_names,
            "facts": _facts(run),
            "notes": about.notes,
            "results": about.results,
        },
        headlines=sentences.headlines_of(
            findings,
            {row.row: row for row in rows},
            hashed=run.preparation.kind == "ngrams",
            warning=sentences.nothing_learned(run),
        ),
        making={
            "created": about.created,
            "command": f"turnover run --config {run.folder.config} --out NEW",
            "config": settings_of(run),
            "versions": about.versions,
            "seconds": about.seconds,
            "run": str(run.folder.path),
        },
        findings=findings,
        curves=run.curves,
        rows=rows,
    )


def rows_by_split(run: Run) -> dict[str, int]:
    """Return the number of rows of each split."""
    return {split: len(run.places(split)) for split in SPLITS}


def settings_of(run: Run) -> str:
    """Return the settings of a run as TOML; defaults stand in place of what was left open, and say so."""
    lines: list[str] = []
    for line in run.settings.as_toml().splitlines():
        name = line.partition(" = ")[0]
        chosen = getattr(run.config, name, None) == getattr(run.settings, name, None)
        lines.append(line if chosen else f"{line}  # default for this kind of data")
    return "\n".join(lines) + "\n"


def shown_row(examples: Examples, row: int) -> ShownRow:
    """Return a row as it is shown."""
    value, label = examples.value(row), examples.label(row)
    cells = list(value.items()) if examples.kind == "table" else []
    return ShownRow(
        row=row,
        name=examples.names[row],
        split=str(examples.splits[row]),
        label=None if label is None else label_words(label),
        # Spaces before it stay: places of marks are counted from the first letter.
        text=value[: len(value) - len(value.lstrip())] + shortened(value) if examples.kind == "text" else None,
        image=thumbnail(value) if examples.kind == "image" else None,
        cells=tuple(Cell(name, cell_text(cell)) for name, cell in cells[:_MOST_CELLS]),
        group=examples.groups[row] if examples.groups else None,
        more_cells=max(len(cells) - _MOST_CELLS, 0),
    )


def _facts(run: Run) -> list[tuple[str, str]]:
    """Return names and values for the reader, in the order they are read."""
    rows, config, results = run.rows, run.config, run.about.results
    split = ", ".join(f"{count(number)} {name}" for name, number in rows_by_split(run).items() if number)
    facts = [
        ("data", config.data),
        ("rows", f"{count(len(rows))}: {split}"),
        ("labels", _labels(rows)),
        ("label column", rows.label_column),
    ]
    if rows.kind == "text" and config.text:
        facts.append(("text column", config.text))
    if rows.kind == "table":
        facts.append(("feature columns", _listed([str(name) for name in rows.values.columns])))
    if rows.kind == "image":
        _, height, width, channels = rows.values.shape
        facts.append(("images", f"{width} × {height} pixels, {'gray' if channels == 1 else 'in color'}"))
    if rows.groups:
        facts.append(("group", f"{config.group}: {count(len(set(rows.groups)))}, each trained as one instance"))
    facts.append(("model", _model(run)))
    facts.append(("training", f"{count(len(run.curves.keep), 'epoch')}, AdamW, seed {config.seed}"))
    return facts + [
        (f"{split} {name}", words(results[f"{split}_{key}"]))
        for split in ("validation", "test")
        for key, (name, words) in _FIGURES.items()
        if f"{split}_{key}" in results
    ]


def _labels(rows: Rows) -> str:
    """Return the classes with their counts, or the range of the numbers."""
    if rows.numeric:
        ends = " to ".join(label_words(float(end)) for end in (rows.labels.min(), rows.labels.max()))
        return f"numbers, {ends}; mean {digits(rows.labels.mean())}, standard deviation {digits(rows.labels.std())}"
    counts = np.bincount(rows.labels[rows.labels >= 0], minlength=len(rows.label_names)).tolist()
    return _listed([f"{name} ({count(number)})" for name, number in zip(rows.label_names, counts, strict=True)])


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {count(more)} more" if more > 0 else "")


def _model(run: Run) -> str:
    kind = run.preparation.kind
    encoder = "/".join(Path(run.config.model or "").parts[-2:])  # the end of a long path; hub names have two parts, too
    before = {
        "ngrams": "hashed words and n-grams",
        "encoder": f"features of the frozen encoder {encoder}",
        "columns": "numbers standardized, categories one-hot",
        "pixels": "two convolutions",
    }.get(kind, kind)
    instance = "group" if run.rows.groups else "training row"
    return (
        f"{before}, then a layer of {run.width:,} units of which every {instance} trains its own "
        f"{percent(run.config.keep, 0)}, {count(run.mean_influence.replicas, 'replica')}"
    )


# Sections


@dataclass(frozen=True)
class Section:
    """A section: its id (and template), its heading, and how much there is."""

    id: str
    heading: str
    count: str = ""


def sections_of(data: ReportData) -> list[Section]:
    """Return the sections that have something to say."""
    found = data.findings
    errors, duplicates, groups = found.errors, found.near_duplicates, found.groups.items
    sections = [
        (True, Section("findings", "Summary")),
        (True, Section("data-and-model", "Data and model")),
        (
            errors.items,
            Section("errors", "Largest errors")
            if errors.numeric
            else Section("errors", "Most confident errors", count(errors.count)),
        ),
        (True, Section("label-errors", "Likely label errors", count(found.likely_label_errors.count))),
        (found.harmful.items, Section("harmful", "Harmful examples", count(found.harmful.count))),
        (True, Section("memorized", "Memorized", count(found.memorized.count))),
        (duplicates.items, Section("duplicates", "Near-duplicates", count(duplicates.count))),
        (groups, Section("groups", "Groups", count(len(groups)))),
        (found.classes, Section("classes", "Classes", count(len(found.classes)))),
        (True, Section("trust", "Noise of the scores")),
        (True, Section("leaks", "Leak audit")),
        (True, Section("making", "Reproduce")),
    ]
    return [section for shown, section in sections if shown]


def lede_of(data: ReportData) -> str:
    """Return the sentence below the title."""
    rows, labels = data.overview["rows"], data.overview["labels"]
    noun = {"text": "text", "image": "image", "table": "table row"}[data.overview["kind"]]
    classes = f" of {count(len(labels))} classes" if labels else ""
    classes = " labeled with numbers" if data.overview["task"] == "regression" else classes
    held_out = " and ".join(f"{count(rows[split])} for {split}" for split in ("validation", "test") if rows.get(split))
    return f"Trained on {count(rows.get('train', 0), noun)}{classes}" + (f"; {held_out}." if held_out else ".")


def context_of(data: ReportData) -> dict[str, Any]:
    """Return what the templates need beyond the data: findings, charts, units of columns, and sentences about them."""
    found = data.findings
    grouped = bool(found.groups.items)
    significant = found.errors.noise_from is not None
    return {
        "found": found,
        "leaks": sorted(found.leaks.leaks, key=lambda leak: -(leak.gradient_share or 0.0)),
        **_curves(data.curves),
        **_memorized(found),
        **_trust_chart(found),
        **_confusions(data.overview["labels"], found.confusions),
        "methods": sentences.METHODS,
        "listed": _LISTED[data.overview["kind"]],
        "likely_error": LIKELY_ERROR,
        "group_column": next((value for name, value in data.overview["facts"] if name == "group"), "group"),
        "harmful_power": score_power(found.harmful.items),
        "group_power": score_power(found.groups.items),
        "mean_head": sentences.unit_head(found.harmful),
        "mean_unit": sentences.unit_sentence(found.harmful),
        "has_significance": found.harmful.noise_from is not None,
        "disagree": sentences.DISAGREE if significant else None,
        "none_significant": sentences.NONE_SIGNIFICANT if significant else None,
        "explanation_words": sentences.explanation_words(found.errors, "groups" if grouped else "rows"),
        "expected_words": sentences.label_errors_expected(found.likely_label_errors),
        "noise": [
            (sentences.score_name(one, grouped=grouped), one, sentences.noise_words(one, found))
            for one in found.trust.scores
        ],
        "trust_verdict": sentences.trust_verdict(found.trust),
        "compared_words": sentences.compared_words(found.near_duplicates),
        "reading_words": sentences.reading_words(found),
        "harmful_words": sentences.harmful_words(found),
        "significance_words": sentences.significance_words(found),
    }


def score_power(items: Iterable[Any]) -> int:
    """Return the power of ten in whose units the scores of some rows are read easily."""
    return power_of([one.score for one in items])


def _curves(curves: Curves) -> dict[str, Any]:
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


def _memorized(found: Findings) -> dict[str, Any]:
    memorized = found.memorized
    edges = memorized.histogram.edges if memorized.histogram else ()
    power = power_of([one.self_influence for one in memorized.items if one.self_influence is not None] or edges)
    words = (
        f"{count(memorized.rows, 'training row')}, of which {count(memorized.count)} ({percent(memorized.share)}) are "
        "memorized: significant positive self-influence."
    )
    chart = None if memorized.histogram is None else charts.bar_chart(memorized.histogram, power=power)
    return {"self_chart": chart, "self_words": words, "self_power": power}


def _trust_chart(found: Findings) -> dict[str, Any]:
    histogram = found.trust.mean_influence
    if histogram is None:
        return {"trust_chart": None}
    power = power_of(histogram.edges)
    words = (
        f"The outermost bars hold all scores further out. Mean influence is {sentences.unit_sentence(found.harmful)}."
    )
    return {"trust_chart": charts.bar_chart(histogram, power=power), "trust_words": words, "trust_power": power}


def _confusions(names: tuple[str, ...], confusions: tuple[Confusion, ...]) -> dict[str, Any]:
    """Return which label is predicted for which, as a square of numbers or, of many labels, the most frequent pairs."""
    if not confusions or len(names) > _LARGEST_SQUARE:
        wrong = [pair for pair in confusions if pair.label != pair.predicted]
        return {"matrix": None, "wrong_pairs": wrong[:_MOST_PAIRS]}
    rows = {(pair.label, pair.predicted): pair.rows for pair in confusions}
    lines: list[list[dict[str, float]]] = []
    for label in names:
        numbers = [rows.get((label, name), 0) for name in names]
        # Light enough for dark ink, dark enough to see a single row.
        depth = 0.55 / (sum(numbers) or 1)
        lines.append([{"rows": number, "depth": round(depth * number, 3)} for number in numbers])
    return {"matrix": {"labels": names, "lines": lines}, "wrong_pairs": ()}
