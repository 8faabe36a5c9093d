"""How a run folder keeps rows: as they were read, to the last bit."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from turnover.runs import WRITABLE, RunConfig, RunFolder, open_run, start_run, table_bytes
from turnover.runs._reading import read_rows
from turnover.runs.files import arrow_column, read_table
from turnover.runs.table import Rows


def small_numbers(file, *, scale):
    draw = np.random.default_rng(0)
    values = draw.normal(size=(120, 2))
    lines = [f"{a * scale!r},{b * scale!r},{'up' if a + b > 0 else 'down'}" for a, b in values.tolist()]
    file.write_text("\n".join(["first,second,label", *lines]) + "\n")
    return RunConfig(str(file), label="label", hidden=32, replicas=1, epochs=30, learning_rate=0.01)


@pytest.mark.parametrize("scale", [1e-12, 1e-300, 1e200])
def test_numbers_of_any_size_are_kept_exactly(tmp_path, scale):
    rows = read_rows(small_numbers(tmp_path / "table.csv", scale=scale))
    folder = RunFolder(tmp_path / "run")
    rows.save(folder)
    pd.testing.assert_frame_equal(Rows.open(folder).values, rows.values, check_exact=True)


@pytest.mark.parametrize("scale", [1e-12, 1e-200, 1e200])
def test_an_opened_run_has_the_inputs_that_it_was_trained_on(tmp_path, scale):
    run = start_run(small_numbers(tmp_path / "table.csv", scale=scale), tmp_path / "run")
    assert run.about.results["test_accuracy"] > 0.8
    assert np.array_equal(open_run(tmp_path / "run").x, run.x)


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        ([0.1 + 0.2, 5e-324, None], [0.1 + 0.2, 5e-324, None]),
        ([1, 2**53 + 1, None], [1, 2**53 + 1, None]),
        ([2**80, -1], [str(2**80), "-1"]),
        ([True, None, "a\u2028b"], ["True", None, "a\u2028b"]),
        ([1, "1", {"a": [1, None]}], ["1", "1", '{"a": [1, null]}']),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
    ids=["floats", "integers", "huge", "mixed", "nested among others", "lists"],
)
def test_cells_of_one_type_keep_it_and_others_become_strings(cells, kept):
    assert arrow_column(cells).to_pylist() == kept


@pytest.mark.parametrize("ending", WRITABLE)
def test_numbers_of_a_written_table_are_read_again_as_they_were(tmp_path, ending):
    numbers = [1e-12, 0.1 + 0.2, 1e300]
    file = tmp_path / f"table{ending}"
    file.write_bytes(table_bytes(pa.table({"a": numbers}), ending))
    assert [float(number) for number in read_table(file).data.column("a").to_pylist()] == numbers


def test_rows_of_a_folder_are_those_that_were_read_with_all_their_columns(tmp_path):
    lines = [
        '{"text": "one", "label": "a", "whole": 1, "mixed": 1, "late": null, "number": 1}',
        '{"text": "two", "label": "b", "whole": 9007199254740993, "mixed": "x", "late": null, "number": 2.5}',
        '{"text": "three \\u00e4", "label": "a", "whole": 3, "mixed": null, "late": "here", "number": null}',
        '{"text": "four", "label": "b", "whole": 4, "mixed": [1, 2], "late": "there", "number": 1e-300}',
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    rows = read_rows(RunConfig(str(tmp_path / "rows.jsonl"), text="text", label="label"))
    rows.save(RunFolder(tmp_path))
    again = Rows.open(RunFolder(tmp_path))
    assert again.table.equals(rows.table)
    assert (again.values, again.names, again.label_names) == (rows.values, rows.names, rows.label_names)
    assert [again.origin(row) for row in range(4)] == [1, 2, 3, 4]
    assert again.records([1, 2]) == [
        {"text": "two", "label": "b", "whole": 9007199254740993, "mixed": "x", "late": None, "number": 2.5},
        {"text": "three ä", "label": "a", "whole": 3, "mixed": None, "late": "here", "number": None},
    ]


def test_texts_are_a_sequence_of_strings(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\none,a\ndrei Äpfel,b\nx y,a\nz,b\n")
    texts = read_rows(RunConfig(str(tmp_path / "rows.csv"), text="text", label="label")).values
    assert (texts[1], texts[-1], texts[:2], len(texts)) == ("drei Äpfel", "z", ["one", "drei Äpfel"], 4)
    assert texts == ["one", "drei Äpfel", "x y", "z"]
    with pytest.raises(IndexError, match="no text 4"):
        texts[4]
