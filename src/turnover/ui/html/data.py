"""What a report says, as plain data: the page and its JSON twin are made of this and of nothing else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from turnover.applications import Findings, find_all, plain
from turnover.runs import SPLITS, Curves, Rows, Run
from turnover.ui.words import count, digits, label_words, percent

from .headlines import Headline, headlines_of_rows
from .sentences import nothing_learned
from .shown_rows import ShownRow, shown_row

_FORMAT = 2
_MOST_LISTED = 8


_Fact = tuple[str, str]


@dataclass(frozen=True)
class Overview:
    """What the data and model are."""

    title: str
    task: str
    kind: str
    rows: Mapping[str, int]  # number of rows by split
    labels: tuple[str, ...]
    facts: tuple[_Fact, ...]
    notes: tuple[str, ...]
    results: Mapping[str, float]


@dataclass(frozen=True)
class Making:
    """How the run was made, and how to make it again."""

    created: str
    command: str
    config: str
    versions: Mapping[str, str]
    seconds: Mapping[str, float]
    run: str


@dataclass(frozen=True)
class ReportData:
    """All that a report says."""

    overview: Overview
    headlines: tuple[Headline, ...]
    making: Making
    findings: Findings
    curves: Curves
    rows: tuple[ShownRow, ...] = ()  # every row that a finding names, once

    @cached_property
    def by_number(self) -> dict[int, ShownRow]:
        """Return the shown rows by their numbers."""
        return {row.row: row for row in self.rows}

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it; findings stand beside the other parts."""
        parts = {name: plain(getattr(self, name)) for name in ("overview", "headlines", "making", "curves", "rows")}
        return {"format": _FORMAT, **parts, **self.findings.as_dict()}

    def as_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def collect(run: Run[Any]) -> ReportData:
    """Return what the report of a finished run says, with nothing left to compute."""
    findings = find_all(run)
    rows = tuple(shown_row(run.examples, row) for row in findings.named_rows)
    return ReportData(
        overview=_overview(run, run.rows.name, run.label_names, _facts_of_rows(run)),
        headlines=headlines_of_rows(
            findings, rows, hashed=run.preparation.kind == "ngrams", nothing_learned=nothing_learned(run)
        ),
        making=_making(run),
        findings=findings,
        curves=run.curves,
        rows=rows,
    )


def _overview(run: Run[Any], title: str, labels: tuple[str, ...], facts: list[_Fact]) -> Overview:
    return Overview(
        title=title,
        task=run.task.name,
        kind=run.kind,
        rows=rows_by_split(run),
        labels=labels,
        facts=tuple(facts),
        notes=tuple(run.about.notes),
        results=dict(run.about.results),
    )


def rows_by_split(run: Run[Any]) -> dict[str, int]:
    """Return the number of rows of each split."""
    return {split: len(run.places(split)) for split in SPLITS}


def settings_of(run: Run[Any]) -> str:
    """Return the settings of a run as TOML; defaults stand in place of what was left open, and say so."""
    lines: list[str] = []
    for line in run.settings.as_toml().splitlines():
        name = line.partition(" = ")[0]
        chosen = getattr(run.config, name, None) == getattr(run.settings, name, None)
        lines.append(line if chosen else f"{line}  # default for this kind of data")
    return "\n".join(lines) + "\n"


def _making(run: Run[Any]) -> Making:
    return Making(
        created=run.about.created,
        command=f"turnover run --config {run.folder.config} --out NEW",
        config=settings_of(run),
        versions=dict(run.about.versions),
        seconds=dict(run.about.seconds),
        run=str(run.folder.path),
    )


def _facts_of_rows(run: Run[Any]) -> list[_Fact]:
    """Return names and values for the reader, in the order they are read."""
    rows, config, results = run.rows, run.config, run.about.results
    split = ", ".join(f"{count(number)} {name}" for name, number in rows_by_split(run).items() if number)
    facts: list[_Fact] = [("data", config.data), ("rows", f"{count(len(rows))}: {split}"), ("labels", _labels(rows))]
    facts.append(("label column", rows.label_column))
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
    facts += [
        (f"{split} accuracy", percent(results[f"{split}_accuracy"]))
        for split in ("validation", "test")
        if f"{split}_accuracy" in results
    ]
    return facts + [
        (f"{split} {name}", digits(results[f"{split}_{key}"]))
        for split in ("validation", "test")
        for key, name in (("rmse", "RMSE"), ("mae", "MAE"), ("r2", "R²"))
        if f"{split}_{key}" in results
    ]


def _labels(rows: Rows) -> str:
    """Return the classes with their counts, or the range of the numbers."""
    if rows.numeric:
        ends = " to ".join(label_words(float(end)) for end in (rows.labels.min(), rows.labels.max()))
        return f"numbers, {ends}; mean {digits(rows.labels.mean())}, standard deviation {digits(rows.labels.std())}"
    counts = np.bincount(rows.labels[rows.labels >= 0], minlength=len(rows.label_names))
    return _listed([f"{name} ({count(int(counts[number]))})" for number, name in enumerate(rows.label_names)])


def _model(run: Run[Any]) -> str:
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


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {count(more)} more" if more > 0 else "")
