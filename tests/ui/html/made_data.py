"""Report data made by hand: every section has something, and some of it is hostile."""

import base64
import io
import math
from dataclasses import replace
from typing import Literal

import numpy as np

from turnover.ui.html.data import Counts, Finding, Making, Overview, ReportData
from turnover.ui.html.data_measures import (
    ColoredPassage,
    Confusion,
    FrequencyBand,
    Histogram,
    LabelSummary,
    LeakedPart,
    Leaks,
    LearningCurves,
    MemorizedWord,
    Token,
    Trust,
    TrustOf,
)
from turnover.ui.html.data_rows import (
    Behind,
    DoubtfulLabel,
    DuplicateGroup,
    GroupInfluence,
    HarmfulRow,
    MemorizedRow,
    Mistake,
    ShownRow,
)

HOSTILE = "<script>document.title = 'hacked'</script><img src=x onerror=\"document.title='hacked'\"> & more"
TEXTS = ["a gorgeous film that never bores", "flat, tired and far too long", "the plot is a mess", HOSTILE]
LABELS = ("negative", "positive")


def made_data(kind: Literal["text", "image", "table"] = "text", rows: int = 40) -> ReportData:
    """Return a report on rows of a kind."""
    shown = tuple(_row(kind, number) for number in range(rows))
    places = range(rows - 4)
    return ReportData(
        overview=Overview(
            title="reviews.csv",
            kind=kind,
            rows={"train": rows - 4, "validation": 2, "test": 2},
            labels=LABELS,
            facts=(("data", "reviews.csv"), ("model", "hashed n-grams, one masked layer of 512 units")),
            notes=("3 rows without a text were left out.",),
            results={"validation_accuracy": 0.5},
            baseline=0.5,
        ),
        findings=(
            Finding("50 %", "of 4 validation and test rows are predicted rightly.", "classes"),
            Finding(str(rows - 4), f"labels are doubtful, among them {HOSTILE}.", "doubtful", "look"),
        ),
        counts=Counts(2, 4, rows - 8, rows - 4, 3, 5, 7, 2),
        making=Making(
            "2026-11-16 08:00 UTC",
            "turnover run --config RUN/config.toml --out NEW",
            'data = "reviews.csv"\n',
            {"turnover": "0.1.0", "torch": "2.13.0"},
            {"training": 75.0},
            "RUN",
        ),
        rows=shown,
        mistakes=tuple(
            Mistake(
                row,
                LABELS[1 - row % 2],
                0.9,
                LABELS[row % 2],
                (Behind(0, 0.02, 0.004, 1e-6, True, ((2, 10),), ("color",)), Behind(3, 0.01, 0.004, 0.2, False)),
                (Behind(1, -0.02, 0.004, 0.3, False),),
                1,
                0,
                ((2, 10),),
            )
            for row in range(rows - 2, rows)
        ),
        doubtful=tuple(
            DoubtfulLabel(
                row, LABELS[row % 2], LABELS[1 - row % 2], 0.01 + row / 100, 0.99 - row / 100, row < rows - 8, 0.1, (0,)
            )
            for row in places
        ),
        harmful=tuple(HarmfulRow(row, -0.003 + row * 1e-4, 1e-4, 0.001 * row, row < 3, row == 0) for row in places),
        memorized=tuple(MemorizedRow(row, 2.0 - row / 50, 0.1, row / rows, row == 0) for row in places),
        self_influence=Histogram((-0.5, 0.0, 0.5, 1.0, 2.0), (3, 20, 9, 4)),
        duplicates=(DuplicateGroup((1, 3), 5, False, False, True), DuplicateGroup((0, 4), 2, True, True, False)),
        groups=(
            GroupInfluence("anna", 20, -0.01, 0.002, 0.001, True, 3),
            GroupInfluence(HOSTILE, 16, 0.01, None, None, False),
        ),
        classes=(LabelSummary("negative", 18, 2, 1, 2, 3), LabelSummary("positive", 18, 2, 1, 2)),
        confusions=tuple(Confusion(given, said, 1) for given in LABELS for said in LABELS),
        curves=LearningCurves((0.6, 0.4, 0.3), (0.65, 0.5, 0.48), (0.64, 0.52, 0.47), (0.6, 0.7, 0.75)),
        leaks=Leaks(
            "Clean.", 0.0, 0.0, 8, 1234, (LeakedPart("0.weight", "outside the masks", 0.5, 0.01, "put it inside"),)
        ),
        trust=Trust(
            (TrustOf("mean influence", rows - 4, 0.5, 0.75, 1e-4, 3, "The first 3 rows can be believed."),),
            8,
            0.2,
            "About a fifth.",
            "Believe lists, not single scores.",
            0.05,
            Histogram((-0.01, 0.0, 0.01), (16, 20), (18.0, 18.0)),
        ),
    )


def language_data() -> ReportData:
    """Return a report on a corpus: no labels, no rows, colored passages."""
    text = made_data()
    return ReportData(
        overview=replace(text.overview, kind="lm", labels=(), title="corpus.txt"),
        findings=(Finding("12", "passages were learned by heart.", "colored"),),
        counts=Counts(),
        making=text.making,
        colored=(ColoredPassage("passage 1", (Token("one", 0, 0.01), Token(" <b>two</b>", 5, 2.5))),),
        words=(
            MemorizedWord(7, "it is", "<b>two</b>", "again", 2.5, 0.1, 1),
            MemorizedWord(2, "it", "is", "two", 0.5, None, 9),
        ),
        frequencies=(FrequencyBand(1, 1, 20, 2.0, 15), FrequencyBand(2, 5, 40, 1.0, 5)),
        self_influence=text.self_influence,
        curves=text.curves,
    )


def _row(kind: str, number: int) -> ShownRow:
    base = ShownRow(number, f"line {number + 2}", "test" if number % 20 == 19 else "train", LABELS[number % 2])
    if kind == "text":
        return replace(base, text=f"{TEXTS[number % len(TEXTS)]} ({number})")
    if kind == "table":
        return replace(base, cells=(("color", "red"), ("size", f"{number}"), ("<i>", HOSTILE)))
    return replace(base, image=_picture(number))


def _picture(number: int) -> str:
    from PIL import Image

    waves = [[int(127 + 127 * math.sin((x + number) / 2) * math.cos(y / 2)) for x in range(16)] for y in range(16)]
    file = io.BytesIO()
    Image.fromarray(np.array(waves, np.uint8)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
