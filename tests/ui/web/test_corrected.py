"""The corrected file is the original one, except for the labels of marked rows."""

import csv
import io
import json
from pathlib import Path

import pytest

from turnover.runs._reading import read_rows
from turnover.runs.config import RunConfig
from turnover.runs.table import Rows
from turnover.storage import digest_of
from turnover.ui.web.corrections import CorrectedFile, Mark, corrected_file

LINES = [f"a {('good', 'bad')[n % 2]} film number {n}" for n in range(8)]


def _corrected(file: Path, changes: dict[int, str | None], **config: object) -> tuple[Rows, CorrectedFile]:
    rows = read_rows(RunConfig(str(file), **config))  # pyright: ignore[reportArgumentType]
    marks = [Mark(row=row, label=label, given=None, name="", time="") for row, label in changes.items()]
    return rows, corrected_file(rows, str(file), marks, digest=digest_of(file))


def _written(path: Path, text: str, *, encoding: str = "utf-8", newline: str = "") -> Path:
    with path.open("w", encoding=encoding, newline=newline) as file:
        file.write(text)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_only_the_lines_of_marked_rows_of_a_csv_differ(tmp_path, end, separator, encoding):
    rows = [["id", "text", "label"]]
    rows += [[f"{n:03}", f'"{text}{separator} so ""said"" one"', "np"[n % 2]] for n, text in enumerate(LINES)]
    rows[4][1] = f'"two{end}lines about one film"'
    text = "".join(separator.join(row) + end for row in rows)
    file = _written(tmp_path / "reviews.csv", text, encoding=encoding)
    _, found = _corrected(file, {1: "n", 3: "n"}, text="text", label="label")
    before, after = file.read_bytes(), found.content
    assert found.name == "reviews-corrected.csv"
    assert found.note == ""
    changed = [(old, new) for old, new in zip(before.split(b"\n"), after.split(b"\n"), strict=True) if old != new]
    assert len(changed) == 2
    read = list(csv.reader(io.StringIO(after.decode(encoding), newline=""), delimiter=separator))
    wanted = list(csv.reader(io.StringIO(before.decode(encoding), newline=""), delimiter=separator))
    wanted[2][2] = wanted[4][2] = "n"
    assert read == wanted


def test_a_tsv_with_quotes_that_mean_nothing_stays_as_it_is(tmp_path):
    text = "text\tlabel\n" + "".join(f'"{line}\t{n % 2}\n' for n, line in enumerate(LINES))
    file = _written(tmp_path / "reviews.tsv", text)
    _, found = _corrected(file, {2: "1"})
    assert found.content.decode() == text.replace('"a good film number 2\t0', '"a good film number 2\t1')
    assert found.name == "reviews-corrected.tsv"


def test_numbers_of_a_jsonl_file_stay_numbers(tmp_path):
    text = "".join(json.dumps({"text": line, "label": n % 2, "more": {"n": n}}) + "\n" for n, line in enumerate(LINES))
    file = _written(tmp_path / "reviews.jsonl", text)
    _, found = _corrected(file, {2: "1"}, text="text", label="label")
    lines = [json.loads(line) for line in found.content.decode().splitlines()]
    assert lines[2] == {"text": LINES[2], "label": 1, "more": {"n": 2}}
    assert [line for n, line in enumerate(found.content.decode().splitlines()) if n != 2] == [
        line for n, line in enumerate(text.splitlines()) if n != 2
    ]


def test_json_and_parquet_come_back_in_their_format(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"text": LINES, "label": [n % 2 for n in range(8)]})
    _written(tmp_path / "reviews.json", frame.to_json(orient="records"))
    frame.to_parquet(tmp_path / "reviews.parquet")
    _, as_json = _corrected(tmp_path / "reviews.json", {2: "1"}, text="text", label="label")
    _, as_parquet = _corrected(tmp_path / "reviews.parquet", {2: "1"}, text="text", label="label")
    assert [row["label"] for row in json.loads(as_json.content)] == [0, 1, 1, 1, 0, 1, 0, 1]
    read = pd.read_parquet(io.BytesIO(as_parquet.content))
    assert read["label"].tolist() == [0, 1, 1, 1, 0, 1, 0, 1]
    assert read["text"].tolist() == LINES


def test_rows_to_be_removed_are_left_out_and_rows_that_the_run_left_out_stay(tmp_path):
    text = "text,label\n" + "".join(f"{line},{'np'[n % 2]}\n" for n, line in enumerate(LINES)) + "no label here,\n"
    file = _written(tmp_path / "reviews.csv", text)
    rows, found = _corrected(file, {0: None, 1: "n"}, text="text", label="label", skip_bad=True)
    assert len(rows) == 8
    lines = found.content.decode().splitlines()
    assert len(lines) == 9
    assert lines[1] == f"{LINES[1]},n"
    assert lines[-1] == "no label here,"


def test_where_the_file_is_gone_or_changed_the_rows_of_the_run_are_written_and_that_is_said(tmp_path):
    text = "text,label\n" + "".join(f"{line},{'np'[n % 2]}\n" for n, line in enumerate(LINES))
    file = _written(tmp_path / "reviews.csv", text)
    rows, known = _corrected(file, {1: "n"}, text="text", label="label")
    digest, mark = digest_of(file), Mark(row=1, label="n", given="p", name="", time="")
    for change in (text.replace(LINES[1], "another text"), None):
        file.write_text(change) if change else file.unlink()
        found = corrected_file(rows, str(file), [mark], digest=digest)
        assert found.content == known.content
        assert "is missing or was changed" in found.note


def test_marks_of_rows_in_other_files_are_not_mixed_in(tmp_path):
    text = "text,label\n" + "".join(f"{line},{'np'[n % 2]}\n" for n, line in enumerate(LINES))
    file = _written(tmp_path / "reviews.csv", text)
    other = _written(tmp_path / "dev.csv", text.replace("film", "book"))
    _, found = _corrected(file, {1: "n", 9: "n"}, text="text", label="label", validation_data=str(other))
    assert f"{LINES[1]},n" in found.content.decode()
    assert "book" not in found.content.decode()


def test_images_get_a_csv_of_names_and_labels(images, image_run):
    row = int(image_run.places("train")[0])
    label = image_run.label_names[1 - image_run.rows.labels[row]]
    images.put(f"/api/marks/{row}", json={"label": label})
    answer = images.get("/api/corrected")
    assert "bars-corrected.csv" in answer.headers["content-disposition"]
    lines = list(csv.reader(io.StringIO(answer.text)))
    assert len(lines) == 61
    assert any(image_run.rows.names[row] in line and label in line for line in lines)


def test_the_file_is_downloaded_and_never_shown(texts):
    texts.put("/api/marks/3", json={"label": None})
    answer = texts.get("/corrected")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.count("\n") == 160


@pytest.mark.parametrize("ending", [".json", ".parquet"])
def test_cells_that_were_not_marked_keep_their_type_and_digits(tmp_path, ending):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = [None, 2**60 + 1, 3, 4, 5, 6]
    rows = [{"x": x if ending != ".json" or x != 5 else 0.5, "y": place % 2} for place, x in enumerate(numbers)]
    file = tmp_path / f"data{ending}"
    if ending == ".json":
        file.write_text(json.dumps(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    _, corrected = _corrected(file, {2: "1", 3: None}, label="y")
    expected = [{**row, "y": 1} if place == 2 else row for place, row in enumerate(rows) if place != 3]
    written = (
        json.loads(corrected.content) if ending == ".json" else pq.read_table(io.BytesIO(corrected.content)).to_pylist()
    )
    assert repr(written) == repr(expected)


def test_a_cell_that_begins_with_the_mark_of_utf_8_is_replaced_as_a_whole(tmp_path):
    file = _written(tmp_path / "data.csv", "y,x\n\ufeffa,1\nb,2\n\ufeffa,3\nb,4\n")
    _, corrected = _corrected(file, {0: "b"}, label="y", task="table")
    assert corrected.content.decode() == "y,x\nb,1\nb,2\n\ufeffa,3\nb,4\n"
