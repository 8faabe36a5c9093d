"""The data without some rows: what stays is what it was, byte for byte where lines are rows."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas", reason="needs the extra cli")

import pandas

from turnover.errors import ApplicationError, DataFileError, RunError
from turnover.runs import start_run
from turnover.runs._reading import read_rows
from turnover.runs.cleansing import (
    _no_formula,
    check_overwrite,
    removed_rows,
    run_cleansing,
    write_cleaned,
    write_cleansing,
)
from turnover.runs.config import RunConfig
from turnover.storage import digest_of

CSV = 'text;label\r\n"one; a";x\r\n"two\r\nlines";y\r\n\r\nthree;x\r\n"fo""ur";y\r\nfive;x\r\n'


def read(file, **settings):
    return read_rows(RunConfig(str(file), **settings))


def cleaned(rows, source, removed, out):
    return write_cleaned(rows, source, removed, out, digest=digest_of(Path(source)))


@pytest.fixture
def file(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV.encode())
    return tmp_path / "a.csv"


def test_a_csv_keeps_its_quotes_separators_and_line_ends(file, tmp_path):
    done = cleaned(read(file), str(file), [1, 3], tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == b'text;label\r\n"one; a";x\r\nthree;x\r\nfive;x\r\n'
    assert done.rows == 3
    assert done.note == ""


def test_lines_that_were_not_used_stay(tmp_path):
    lines = [f'{{"text": "film {n}", "label": {n % 2}}}' for n in range(20)]
    lines.insert(5, '{"text": "", "label": 1}')
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(lines) + "\n")
    rows = read(file, skip_bad=True)
    assert len(rows) == 20
    cleaned(rows, str(file), [5], tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_text().splitlines() == [*lines[:6], *lines[7:]]


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_numbers_of_a_csv_are_numbers_in_another_format_where_no_digit_is_lost(tmp_path, ending):
    cells = {
        "count": ["3", "", "-4"],
        "share": ["0.50", "2", "1e-300"],
        "zip": ["007", "100", "200"],
        "phone": ["+49", "+1", "+2"],
        "long": ["0.12345678901234567890", "1.5", "2"],
        "key": ["12345678901234567890", "1", "2"],
        "text": ["a film", "1", "two"],
    }
    lines = [",".join(line) for line in zip(*cells.values(), strict=True)]
    file = tmp_path / "a.csv"
    file.write_text("\n".join([",".join([*cells, "label"]), *(f"{line},{n % 2}" for n, line in enumerate(lines * 6))]))
    rows = read(file, task="table", label="label")
    cleaned(rows, str(file), [0, 1, 2], tmp_path / f"b.{ending}")
    if ending == "parquet":
        found = pandas.read_parquet(tmp_path / "b.parquet").to_dict("records")
    else:
        text = (tmp_path / f"b.{ending}").read_text()
        found = json.loads(text) if ending == "json" else [json.loads(line) for line in text.splitlines()]
    assert len(found) == 15
    assert found[0] | {"label": None} == {
        "count": 3, "share": 0.5, "zip": "007", "phone": "+49", "long": "0.12345678901234567890",
        "key": "12345678901234567890", "text": "a film", "label": None,
    }  # fmt: skip
    assert found[0]["label"] in (0, 1)
    assert pandas.isna(found[1]["count"])
    assert found[2]["share"] == 1e-300


def test_another_ending_is_another_format(file, tmp_path):
    cleaned(read(file), str(file), [1], tmp_path / "b.tsv")
    assert len(read(tmp_path / "b.tsv")) == 4


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_a_file_that_is_gone_or_changed_is_written_from_the_rows_that_were_kept(file, tmp_path, change):
    rows, digest = read(file), digest_of(file)
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes(CSV.replace("three", "new line;y\r\nthree").encode())
    done = write_cleaned(rows, str(file), [2], tmp_path / "b.csv", digest=digest)
    assert "gone or was changed" in done.note
    assert read(tmp_path / "b.csv").values == ["one; a", "two\r\nlines", 'fo"ur', "five"]


def test_rows_of_other_files_are_no_part_of_the_cleaned_one(file, tmp_path):
    (tmp_path / "check.csv").write_text("text;label\nsix;x\nseven;y\n")
    rows = read(file, validation_data=str(tmp_path / "check.csv"))
    file.unlink()
    assert write_cleaned(rows, str(file), [0], tmp_path / "b.csv", digest=None).rows == 4


def images(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "a.npz",
        images_train=rng.integers(0, 255, (12, 8, 8), dtype=np.uint8),
        labels_train=np.arange(12) % 2,
        images_test=rng.integers(0, 255, (4, 8, 8), dtype=np.uint8),
        labels_test=np.arange(4) % 2,
    )
    return read(tmp_path / "a.npz", image_size=8)


def test_an_npz_file_loses_the_rows_and_keeps_its_other_arrays(tmp_path):
    rows = images(tmp_path)
    digest = digest_of(tmp_path / "a.npz")
    done = write_cleaned(rows, str(tmp_path / "a.npz"), [3, 5], tmp_path / "b.npz", digest=digest)
    with np.load(tmp_path / "a.npz") as before, np.load(tmp_path / "b.npz") as after:
        kept = np.delete(np.arange(12), [3, 5])
        np.testing.assert_array_equal(after["images_train"], before["images_train"][kept])
        np.testing.assert_array_equal(after["labels_train"], before["labels_train"][kept])
        np.testing.assert_array_equal(after["images_test"], before["images_test"])
    assert done.rows == 10


def test_of_a_changed_npz_file_the_images_that_the_run_kept_are_written(tmp_path):
    rows = images(tmp_path)
    digest = digest_of(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        np.savez(tmp_path / "a.npz", **{name: file[name][::-1] for name in file.files})  # same lengths, other order
    done = write_cleaned(rows, str(tmp_path / "a.npz"), [3, 5], tmp_path / "b.npz", digest=digest)
    assert "so the images were written as the run used them" in done.note
    with np.load(tmp_path / "b.npz") as after:
        np.testing.assert_array_equal(after["images"], rows.values[np.delete(np.arange(12), [3, 5])])


def test_names_of_classes_and_a_test_part_alone_are_told_from_rows(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (12, 8, 8), dtype=np.uint8)
    classes = np.array([f"class {number}" for number in range(12)])
    np.savez(tmp_path / "a.npz", x_test=pixels, y_test=np.arange(12) % 2, classes=classes)
    rows = read(tmp_path / "a.npz", image_size=8)
    digest = digest_of(tmp_path / "a.npz")
    write_cleaned(rows, str(tmp_path / "a.npz"), [0], tmp_path / "b.npz", digest=digest)
    with np.load(tmp_path / "b.npz") as after:
        assert {name: len(after[name]) for name in after.files} == {"x_test": 11, "y_test": 11, "classes": 12}


def test_a_changed_folder_of_images_is_rejected(tmp_path):
    folder = folder_of_images(tmp_path)
    rows, digest = read(folder, image_size=8), digest_of(folder)
    (folder / "a" / "0.png").write_bytes((folder / "a" / "2.png").read_bytes())
    with pytest.raises(DataFileError, match=r"images' changed since the run.*turnover run .*images --out NEW"):
        write_cleaned(rows, str(folder), [0], tmp_path / "clean", digest=digest)
    assert not (tmp_path / "clean").exists()


def test_a_table_is_not_written_to_a_file_of_another_kind(file, tmp_path):
    with pytest.raises(DataFileError, match="ends with none of"):
        cleaned(read(file), str(file), [0], tmp_path / "b.xlsx")


def folder_of_images(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(12):
        file = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(file)
    return tmp_path / "images"


def test_a_folder_keeps_all_but_the_removed_images(tmp_path):
    folder = folder_of_images(tmp_path)
    rows = read(folder, image_size=8)
    cleaned(rows, str(folder), [0], tmp_path / "clean")
    left = {path.relative_to(tmp_path / "clean").as_posix() for path in (tmp_path / "clean").rglob("*.png")}
    assert left == set(rows.names) - {rows.names[0]}


def labeled_images(tmp_path, lines, header="file,label"):
    folder = folder_of_images(tmp_path)
    for number in range(12):
        (folder / "ab"[number % 2] / f"{number}.png").rename(folder / f"{number}.png")
    (folder / "labels.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_lines_of_labels_go_by_their_number_whatever_their_cells_say(tmp_path):
    # The label and the note of other lines equal the name of the removed image.
    lines = [f"{n},{'36'[n % 2]},{'3' if n > 5 else 'x'}" for n in range(12)]
    folder = labeled_images(tmp_path, lines, header="file,label,note")
    cleaned(read(folder, image_size=8), str(folder), [3], tmp_path / "clean")
    left = (tmp_path / "clean" / "labels.csv").read_text().splitlines()
    assert left == ["file,label,note", *lines[:3], *lines[4:]]
    assert len(list((tmp_path / "clean").glob("*.png"))) == 11


def test_an_image_that_two_lines_name_stays_with_the_other_line(tmp_path):
    lines = [f"{n}.png,{'ab'[n % 2]}" for n in range(12)]
    folder = labeled_images(tmp_path, [*lines, "3.png,a"])
    (folder / "metadata.csv").write_text("\n".join(["file_name,by", "3.png,x", "4.png,y"]) + "\n")
    cleaned(read(folder, image_size=8), str(folder), [3, 4], tmp_path / "clean")
    assert (tmp_path / "clean" / "labels.csv").read_text().splitlines()[-1] == "3.png,a"
    assert (tmp_path / "clean" / "3.png").exists()
    assert not (tmp_path / "clean" / "4.png").exists()
    assert (tmp_path / "clean" / "metadata.csv").read_text() == "file_name,by\n3.png,x\n"


def below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("images", "is the data itself"),
        ("images/clean", "lies within the data"),
        (".", "contains the data"),
        ("link", "contains the data"),
        ("other", "is there already, and no cleansing replaces a folder"),
        ("thesis", "is a file, and a folder"),
    ],
)
def test_nothing_that_is_there_is_removed(tmp_path, out, message):
    folder = folder_of_images(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    (tmp_path / "thesis").write_text("years of work")
    before = below(tmp_path)
    with pytest.raises(DataFileError, match=message):
        cleaned(read(folder, image_size=8), str(folder), [0], tmp_path / out)
    assert below(tmp_path) == before


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    lines = [f"{n / 20},{'ab'[n > 10]}" for n in range(20)]
    (folder / "data.csv").write_text("\n".join(["x,label", *lines]) + "\n")
    return start_run(RunConfig(str(folder / "data.csv"), hidden=8, replicas=1, epochs=1), folder / "run")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("data.csv", "is the data itself"),
        ("run/rows.parquet", "belongs to the run"),
        ("run/run.json", "belongs to the run"),
        ("mine/clean.csv", r"removed.csv' would be overwritten, which no cleansing wrote"),
    ],
)
def test_no_force_overwrites_the_data_the_run_or_a_list_of_others(finished, out, message):
    folder = finished.folder.path.parent
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "mine" / "removed.csv").write_text("what I removed by hand\n")
    with pytest.raises((ApplicationError, DataFileError, RunError), match=message):
        check_overwrite(finished, folder / out, force=True)


def test_force_overwrites_what_a_cleansing_wrote(finished, tmp_path):
    write_cleansing(finished, [], tmp_path / "clean.csv")
    with pytest.raises(ApplicationError, match="would be overwritten"):
        check_overwrite(finished, tmp_path / "clean.csv")
    for nameless in (".", "/"):
        with pytest.raises(ApplicationError, match="--out must name a file or a new folder, got"):
            check_overwrite(finished, Path(nameless), force=True)
    check_overwrite(finished, tmp_path / "clean.csv", force=True)


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        (" @SUM(1)", "' @SUM(1)"),
        ("-a good film", "'-a good film"),
        ("-1.5", "-1.5"),
        ("+3", "+3"),
        ("a=b", "a=b"),
        (-2, -2),
    ],
)
def test_texts_that_look_like_formulas_begin_with_a_quote(cell, written):
    assert _no_formula(cell) == written


def test_the_list_of_removed_rows_holds_no_formula_unless_it_is_to_be_raw(tmp_path):
    lines = [f'"={n}+cmd|x",{"ab"[n % 2]}' for n in range(20)]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    config = RunConfig(str(tmp_path / "data.csv"), text="text", hidden=8, replicas=1, epochs=1)
    run = start_run(config, tmp_path / "run")
    rows = removed_rows(run, run_cleansing(run, drop="2"))
    assert rows
    for raw, begins in ((False, "'="), (True, "=")):
        write_cleansing(run, rows, tmp_path / "clean.csv", raw=raw)
        with (tmp_path / "removed.csv").open(newline="") as file:
            texts = [line["text"] for line in csv.DictReader(file)]
        assert all(text.startswith(begins) for text in texts)
        assert (tmp_path / "clean.csv").read_text().splitlines()[1].startswith('"=')


def test_integers_of_a_parquet_file_with_gaps_keep_their_type_and_digits(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = [None, 2**60 + 1, 3, 4, 5, 6]
    file = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": numbers, "y": ["a", "b"] * 3}), file)
    rows = read_rows(RunConfig(str(file), label="y"))
    write_cleaned(rows, str(file), [2, 4], tmp_path / "out.parquet", digest=digest_of(file))
    cleaned = pq.read_table(tmp_path / "out.parquet")
    assert cleaned.schema.field("x").type == pa.int64()
    assert cleaned.column("x").to_pylist() == [None, 2**60 + 1, 4, 6]
