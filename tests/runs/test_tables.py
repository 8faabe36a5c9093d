"""Files as tables: separators, encodings and quotes are detected, what cannot be read says what to do, and every
format that is written comes back as it was.
"""

import csv
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnover.errors import DataFileError
from turnover.runs.cleansing import _write_output
from turnover.runs.files import WRITABLE, read_table, table_bytes, text_encoding

pa = pytest.importorskip("pyarrow", reason="needs the extra cli")

ROWS = [["text", "label"], ["Größe, gut", "1"], ['he said "no"', "0"], ["two\nlines", "1"], ["a;b|c", "0"]]


def written(path, rows, *, separator=",", encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    return path


def cells_of(table):
    return [list(row.values()) for row in table.data.to_pylist()]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separator_and_encoding_are_found_out(tmp_path, separator, encoding):
    table = read_table(written(tmp_path / "rows.csv", ROWS, separator=separator, encoding=encoding))
    assert table.columns == ROWS[0]
    assert cells_of(table) == ROWS[1:]


cells = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="﻿"), max_size=12)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_every_cell_of_a_written_file_comes_back(tmp_path_factory, rows, separator):
    path = written(tmp_path_factory.mktemp("files") / "a.csv", [["one", "two"], *rows], separator=separator)
    # A line of nothing but separators cannot be told from no row.
    expected = [list(row) for row in rows if any(row)]
    if not expected:
        return
    found = cells_of(read_table(path))
    assert [row for row in found if any(row)] == expected


def test_rows_are_called_by_the_line_on_which_they_begin(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"two\nlines",1\n\n\nlast,0\n', encoding="utf-8")
    assert read_table(path).numbers.tolist() == [2, 6]
    assert read_table(path).names == ["line 2", "line 6"]


def test_quotes_of_a_tab_separated_file_are_text_where_they_do_not_quote(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text('sentence\tlabel\n"what a film\t1\nso "good" it is\t0\n"quoted"\t1\n', encoding="utf-8")
    assert read_table(path).data.column("sentence").to_pylist() == ['"what a film', 'so "good" it is', '"quoted"']


def test_quotes_of_a_tab_separated_file_quote_where_all_of_them_can(tmp_path):
    path = written(tmp_path / "rows.tsv", [["text", "label"], ["tab\there", "1"], ['say ""', "0"]], separator="\t")
    assert read_table(path).data.column("text").to_pylist() == ["tab\there", 'say ""']


def test_fields_beyond_the_limit_of_the_csv_module_are_read_and_the_limit_is_left_alone(tmp_path):
    limit = csv.field_size_limit()
    table = read_table(written(tmp_path / "rows.csv", [["text", "label"], ["x" * 300_000, "1"]]))
    assert len(table.data.column("text").to_pylist()[0]) == 300_000
    assert csv.field_size_limit() == limit


def test_values_of_jsonl_are_read_even_where_some_are_missing(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1}\n\n{"text": "b"}\n{"label": true, "text": null}\n', encoding="utf-8")
    table = read_table(path)
    assert table.data.column("label").to_pylist() == ["1", None, "True"]
    assert table.names == ["line 1", "line 3", "line 4"]


@pytest.mark.parametrize(
    "content",
    [
        [{"text": "a", "label": 1}, {"text": "b", "label": 0}],
        {"rows": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]},
        {"text": ["a", "b"], "label": [1, 0]},
    ],
    ids=["list", "list-in-object", "columns"],
)
def test_json_is_a_list_of_objects_or_columns(tmp_path, content):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert cells_of(read_table(path)) == [["a", 1], ["b", 0]]


def test_parquet_is_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"text": ["a", "b"], "label": [1, 0]}, index=[5, 6]).to_parquet(tmp_path / "rows.parquet")
    table = read_table(tmp_path / "rows.parquet")
    assert table.data.column("label").to_pylist() == [1, 0]
    assert table.names == ["row 1", "row 2"]


REFUSED = {
    "empty file": ("a.csv", b"", "is empty"),
    "blank file": ("a.csv", b" \n\n", "is empty"),
    "a mark of UTF-8 alone": ("a.csv", b"\xef\xbb\xbf", "is empty"),
    "a mark of UTF-16 and blank lines": ("a.csv", b"\xff\xfe\n\x00", "is empty"),
    "header only": ("a.csv", b"text,label\n", "no rows below its header"),
    "latin-1": ("a.csv", "text,label\nok,1\ncafé,1\n".encode("latin-1"), r"byte 0xe9 at position 19, line 3.*iconv"),
    "cut off": ("a.csv", "text,label\nok,é".encode()[:-1], "ends within a letter"),
    "utf-16 without mark": ("a.csv", ("text,label\n" + "ok,1\n" * 50).encode("utf-16-le"), "iconv -f UTF-16LE"),
    "broken utf-16": ("a.csv", b"\xff\xfe\x00\xd8\x00\x00", "begins as UTF-16"),
    "excel as csv": ("a.csv", b"PK\x03\x04" + bytes(100), "an Excel or zip file.*Save it as csv"),
    "gzip as csv": ("a.csv", b"\x1f\x8b" + bytes(100), "gunzip"),
    "parquet as csv": ("a.csv", b"PAR1" + bytes(100), "ending .parquet"),
    "bytes as csv": ("a.csv", b"text\0\1\2", "binary file: its byte 4 is 0"),
    "repeated columns": ("a.csv", b"text,label,text\na,1,b\n", "several columns of the name 'text'"),
    "ragged": ("a.csv", b"text,label\na,1\nb,c,1\nd,1,2\n", "2 lines with more or fewer.*line 3 with 3.*commas"),
    "open quote": ("a.csv", b'text,label\n"a,1\nb,0\n', "line 3: unexpected end of data.*jsonl"),
    "broken jsonl": ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
    "jsonl of lists": ("a.jsonl", b"[1, 2]\n", "line 1 is list, not an object"),
    "jsonl as json": ("a.json", b'{"a": 1}\n{"a": 2}\n', r"ending \.jsonl"),
    "json of numbers": ("a.json", b"[1, 2]", "must be a list of objects"),
    "text as parquet": ("a.parquet", b"text,label\n", "cannot be read as parquet"),
    "unknown ending": ("a.xyz", b"text,label\n", "ends with none of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_says_what_to_do(tmp_path, case):
    name, content, message = REFUSED[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFileError, match=f"(?s){message}") as caught:
        read_table(tmp_path / name)
    assert name in str(caught.value)


@given(st.text(st.sampled_from(string.ascii_letters + "äß好😀"), min_size=1, max_size=50), st.integers(0, 40))
def test_one_wrong_byte_is_named_by_its_position(tmp_path_factory, text, place):
    content = text.encode()
    place = min(place, len(content))
    while place < len(content) and 0x80 <= content[place] < 0xC0:
        place += 1
    path = tmp_path_factory.mktemp("files") / "a.csv"
    path.write_bytes(content[:place] + b"\xff" + content[place:])
    with pytest.raises(DataFileError, match=rf"byte 0xff at position {place},"):
        text_encoding(path)


def test_a_wrong_byte_far_into_a_file_is_named_by_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("ä\n".encode() * 1_000_000 + b"\xe9\n")
    with pytest.raises(DataFileError, match=r"position 3000000, line 1000001\."):
        text_encoding(path)


FRAME = pa.table({"text": ['a "quoted", text', "two\nlines", "tab\there ü"], "label": ["1", "0", "1"]})


@pytest.mark.parametrize("ending", WRITABLE)
def test_what_is_written_is_read_again(ending, tmp_path):
    file = tmp_path / f"rows{ending}"
    _write_output(file, table_bytes(FRAME, ending))
    assert read_table(file).data.to_pylist() == FRAME.to_pylist()


def test_an_ending_that_is_not_known_is_told():
    with pytest.raises(DataFileError, match=r"'\.xlsx' cannot be written. Give one of \.csv"):
        table_bytes(FRAME, ".xlsx")


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataFileError, match="cannot write"):
        _write_output(tmp_path / "file" / "rows.csv", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_second_mark_of_byte_order_leaves_the_quotes_of_the_first_name_what_they_are(tmp_path, encoding):
    file = tmp_path / "joined.csv"
    file.write_bytes('\ufeff\ufeff"a;b";c\r\n1;2\r\n'.encode(encoding))
    table = read_table(file)
    assert table.columns == ["a;b", "c"]
    assert cells_of(table) == [["1", "2"]]


def test_a_second_mark_of_utf_8_does_not_belong_to_the_first_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf\xef\xbb\xbfx,y\n1,a\n")
    assert read_table(tmp_path / "a.csv").columns == ["x", "y"]


def test_a_line_that_ends_with_a_separator_is_read_without_it_and_one_with_a_cell_more_is_rejected(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n3,4,\n", encoding="utf-8")
    assert cells_of(read_table(file)) == [["1", "2"], ["3", "4"]]
    file.write_text("a,b\n1,2\n3,4,5\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="line 3 with 3"):
        read_table(file)
