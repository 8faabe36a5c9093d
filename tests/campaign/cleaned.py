"""Data files without the rows that a cleansing drops, or with labels that were corrected on the live page.

The judge is another library: it must read the rows that stay, cell by cell as they were written, and no others.
"""

import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.campaign.files import READ_BY_OTHERS, Case, comparable, json_files, parquet_files, separated, shown
from tests.campaign.trial import Budget, Outcome, Tally, judged, try_generated
from turnover.runs import RunConfig
from turnover.runs._reading import read_rows
from turnover.runs.cleansing import write_cleaned
from turnover.storage import digest_of
from turnover.ui.web.corrections import Mark, corrected_file


def _unlike(case: Case, content: bytes, name: str, gone: set[int], labels: dict[int, str], folder: Path) -> str:
    """Return what is wrong with a written file: rows of the case without some, with other labels."""
    file = folder / f"written{Path(name).suffix}"
    file.write_bytes(content)
    label = case.settings["label"]
    stays = [place for place in range(len(case.columns[label])) if place not in gone]
    places = list(case.columns).index(label)
    header = [str(column).strip() for column in case.columns]
    rows = [[comparable(cells[place]) for cells in case.columns.values()] for place in stays]
    for reading in READ_BY_OTHERS[file.suffix](file):
        if reading[0] != header or len(reading) != len(rows) + 1:
            continue
        found = [[comparable(cell) for cell in row] for row in reading[1:]]
        for place, row, expected in zip(stays, reading[1:], range(len(rows)), strict=True):
            if place in labels and shown(row[places]) == labels[place]:
                found[expected][places] = rows[expected][places]
        if found == rows:
            return ""
    return f"written as {content[:300]!r}, read as {READ_BY_OTHERS[file.suffix](file)[:1]}, and not {rows}"


def _try_one(drawn: tuple[Case, int]) -> tuple[Outcome, str]:
    case, number = drawn
    draw = random.Random(number)
    with tempfile.TemporaryDirectory(prefix="turnover-campaign-") as held:
        file = Path(held) / case.data
        file.write_bytes(case.files[case.data])

        def difference() -> str:
            rows = read_rows(RunConfig(str(file), **case.settings))
            good, digest = case.good_rows, digest_of(file)
            removed = draw.sample(range(len(rows)), draw.randrange(len(rows)))
            out = Path(held) / f"cleaned{file.suffix}"
            write_cleaned(rows, str(file), removed, out, digest=digest)
            gone = {good[row] for row in removed}
            if problem := _unlike(case, out.read_bytes(), out.name, gone, {}, Path(held)):
                return f"cleaned without {sorted(gone)}: {problem}"
            marks = [_mark(row, draw.choice([None, *rows.label_names])) for row in removed[:3]]
            corrected = corrected_file(rows, str(file), marks, digest=digest)
            gone = {good[mark.row] for mark in marks if mark.label is None}
            labels = {good[mark.row]: mark.label for mark in marks if mark.label is not None}
            problem = _unlike(case, corrected.content, corrected.name, gone, labels, Path(held))
            return f"corrected without {sorted(gone)}, {labels}: {problem}" if problem else ""

        return judged(difference)


def _mark(row: int, label: str | None) -> Mark:
    return Mark(row=row, label=label, given=None, name="", time="")


def try_cleaned(most: int, budget: Budget, tally: Tally) -> None:
    cases: Any = st.tuples(st.one_of(separated(), json_files(), parquet_files()), st.integers(0, 2**32))
    try_generated(cases, most, _try_one, budget, tally)
