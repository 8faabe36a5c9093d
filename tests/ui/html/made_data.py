"""Report data made by hand: every section has something, and some of it is hostile."""

import base64
import io
import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from turnover.applications import (
    ClassSummary,
    Confusion,
    DuplicateGroup,
    Errors,
    Explanation,
    Findings,
    GroupScore,
    GroupScores,
    HarmfulExample,
    HarmfulExamples,
    Histogram,
    InfluentialExample,
    LabelErrors,
    MemorizedExample,
    MemorizedExamples,
    NearDuplicates,
    ScoreNoise,
    Trust,
)
from turnover.runs import Curves
from turnover.ui.html import Headline, ReportData
from turnover.ui.html.sections import Cell, ShownRow
from turnover.wrapping import AuditReport, Leak

HOSTILE = "<script>document.title = 'hacked'</script><img src=x onerror=\"document.title='hacked'\"> & more"
TEXTS = ["a gorgeous film that never bores", "flat, tired and far too long", "the plot is a mess", HOSTILE]
LABELS = ("negative", "positive")


def named(row: int, label: str | None = None) -> dict[str, Any]:
    about = {"name": f"line {row + 2}", "label": label or LABELS[row % 2], "group": None, "rows": 1}
    return {"id": row, "position": row, "row": row, **about}


JUDGED: dict[str, Any] = {"confident": True, "duplicates": (), "duplicates_disagree": False}


def label_error(row: int, **changed: Any) -> MemorizedExample:
    held_out = {"held_out_label": LABELS[1 - row % 2], "held_out_probability": 0.9, "label_quality": 0.1}
    held_out |= {"p_wrong": 0.9, "likely_label_error": True}
    about = {"self_influence": 0.1, "stderr": 0.02, "significant": True}
    return MemorizedExample(**{**named(row), **held_out, **about, **JUDGED, **changed})


def unjudged(found: Findings) -> Findings:
    """Return findings by too few replicas, so that nothing is known of their noise."""

    def items(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(row, significant=False, stderr=None) for row in rows)

    errors = tuple(replace(one, supporting=items(one.supporting), opposing=items(one.opposing)) for one in found.errors)
    return replace(
        found,
        errors=replace(found.errors, items=errors, noise_from=None),
        harmful=replace(found.harmful, items=items(found.harmful.items), noise_from=None),
        groups=replace(found.groups, items=items(found.groups.items), noise_from=None),
        trust=replace(found.trust, scores=tuple(replace(one, noise_from=None) for one in found.trust.scores)),
    )


def made_findings(rows: int = 40) -> Findings:
    places = range(rows - 4)
    held_out = {"held_out_label": "positive", "held_out_probability": 0.9, "label_quality": 0.1}
    first = replace(_influential(0, 0.02, significant=True), shared_spans=((2, 10),), near_columns=("color",))
    errors = tuple(
        Explanation(
            query=row,
            predicted=LABELS[1 - row % 2],
            probability=0.9,
            label=LABELS[row % 2],
            supporting=(first, _influential(3, 0.01)),
            opposing=(_influential(1, -0.02),),
            row=row,
            name=f"line {row + 2}",
            shared_spans=((2, 10),),
        )
        for row in range(rows - 2, rows)
    )
    return Findings(
        majority_class_baseline=0.5,
        fit=None,
        errors=Errors(
            errors,
            "supporting",
            False,
            0.05,
            "loss",
            False,
            "curvature",
            "replicas",
            8,
            "generic",
            count=2,
            unseen_rows=4,
        ),
        likely_label_errors=LabelErrors(
            rows - 4,
            rows - 4,
            rows - 8,
            0,
            0,
            tuple(label_error(row, duplicates=(0,), confident=row < rows - 8) for row in places),
        ),
        harmful=HarmfulExamples(
            3,
            5,
            rows - 4,
            "loss",
            False,
            "curvature",
            "replicas",
            tuple(
                HarmfulExample(
                    **named(row),
                    **({**held_out, "likely_label_error": True} if row == 0 else {**held_out, "held_out_label": None}),
                    score=-0.003 + row * 1e-4,
                    stderr=1e-4,
                    p_value=None,
                    significant=row < 3,
                )
                for row in places
            ),
        ),
        memorized=MemorizedExamples(
            rows - 4,
            7,
            0.8,
            0.05,
            "loss",
            Histogram((-0.5, 0.0, 0.5, 1.0, 2.0), (3, 20, 9, 4)),
            tuple(
                MemorizedExample(
                    **named(row),
                    **({**held_out, "likely_label_error": True} if row == 0 else {**held_out, "held_out_label": None}),
                    self_influence=2.0 - row / 50,
                    stderr=0.1,
                    significant=row < 7,
                    **JUDGED,
                )
                for row in places
            ),
        ),
        near_duplicates=NearDuplicates(
            2, 1, 1, (DuplicateGroup((1, 3), 5, False, False, True), DuplicateGroup((0, 4), 2, True, True, False))
        ),
        groups=GroupScores(
            (
                GroupScore("anna", 20, -0.01, -0.0005, 0.002, 0.001, True, 3),
                GroupScore(HOSTILE, 16, 0.01, 0.0006, None, None, False, 0),
            ),
            True,
            0.05,
            "loss",
            "curvature",
            "replicas",
        ),
        classes=(ClassSummary("negative", 18, 2, 1, 2, 3), ClassSummary("positive", 18, 2, 1, 2)),
        confusions=tuple(Confusion(label, predicted, 1) for label in LABELS for predicted in LABELS),
        trust=Trust(
            (ScoreNoise("mean_influence", rows - 4, 0.5, 0.75, 1e-4, 3, "loss", "curvature", "null_ids"),),
            8,
            0.05,
            Histogram((-0.01, 0.0, 0.01), (16, 20)),
        ),
        leaks=AuditReport((Leak("0.weight", "no mask near", 0.5, 0.01),), 0.01, 0.01, 8, 1234),
    )


def made_data(kind: Literal["text", "image", "table"] = "text", rows: int = 40) -> ReportData:
    return ReportData(
        overview={
            "title": "reviews.csv",
            "task": "classification",
            "kind": kind,
            "rows": {"train": rows - 4, "validation": 2, "test": 2},
            "labels": LABELS,
            "facts": [("data", "reviews.csv"), ("model", "hashed n-grams, one masked layer of 512 units")],
            "notes": ["3 rows without a text were skipped."],
            "results": {"validation_accuracy": 0.5},
        },
        headlines=(
            Headline("50 %", "accuracy on 4 validation and test rows.", "classes"),
            Headline(str(rows - 4), f"likely label errors, among them {HOSTILE}.", "label-errors", "look"),
        ),
        making={
            "created": "2026-11-16 08:00 UTC",
            "command": "turnover run --config RUN/config.toml --out NEW",
            "config": 'data = "reviews.csv"\n',
            "versions": {"turnover": "0.1.0", "torch": "2.13.0"},
            "seconds": {"training": 75.0},
            "run": "RUN",
        },
        findings=made_findings(rows),
        curves=Curves([0.6, 0.4, 0.3], [0.65, 0.5, 0.48], [0.64, 0.52, 0.47], [0.6, 0.7, 0.75]),
        rows=tuple(_row(kind, number) for number in range(rows)),
    )


def _influential(row: int, score: float, *, significant: bool = False) -> InfluentialExample:
    return InfluentialExample(**named(row), score=score, stderr=0.004, p_value=None, significant=significant)


def _row(kind: str, number: int) -> ShownRow:
    base = ShownRow(number, f"line {number + 2}", "test" if number % 20 == 19 else "train", LABELS[number % 2])
    if kind == "text":
        return replace(base, text=f"{TEXTS[number % len(TEXTS)]} ({number})")
    if kind == "table":
        return replace(base, cells=(Cell("color", "red"), Cell("size", f"{number}"), Cell("<i>", HOSTILE)))
    return replace(base, image=_picture(number))


def _picture(number: int) -> str:
    from PIL import Image

    waves = [[int(127 + 127 * math.sin((x + number) / 2) * math.cos(y / 2)) for x in range(16)] for y in range(16)]
    file = io.BytesIO()
    Image.fromarray(np.array(waves, np.uint8)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
