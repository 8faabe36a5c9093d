"""Tables as files: every format comes back as it was, and a file is there whole or not at all."""

import importlib.util
import json

import pytest

from turnover.errors import DataFileError
from turnover.runs.cleaned_file import write_output
from turnover.runs.reading.tables import WRITABLE, read_table, table_bytes

pd = pytest.importorskip("pandas", reason="needs the extra cli")

FRAME = pd.DataFrame({"text": ['a "quoted", text', "two\nlines", "tab\there ü"], "label": ["1", "0", "1"]})


@pytest.mark.parametrize("ending", WRITABLE)
def test_what_is_written_is_read_again(ending, tmp_path):
    if ending in (".parquet", ".pq") and importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is missing: pip install pyarrow")
    file = tmp_path / f"rows{ending}"
    write_output(file, table_bytes(FRAME, ending))
    assert read_table(file).frame.astype(str).equals(FRAME.astype(str))


def test_lines_of_json_are_objects():
    lines = table_bytes(FRAME, ".jsonl").decode().splitlines()
    assert json.loads(lines[1]) == {"text": "two\nlines", "label": "0"}


def test_an_ending_that_is_not_known_is_told():
    with pytest.raises(DataFileError, match=r"'\.xlsx' cannot be written. Give one of \.csv"):
        table_bytes(FRAME, ".xlsx")


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataFileError, match="cannot write"):
        write_output(tmp_path / "file" / "rows.csv", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
