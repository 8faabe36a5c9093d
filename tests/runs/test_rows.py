"""How a run folder keeps rows: as they were read, to the last bit."""

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from turnover.runs import WRITABLE, RunConfig, RunFolder, open_run, start_run, table_bytes
from turnover.runs import rows as rows_module
from turnover.runs.reading import read_rows, read_table, tables
from turnover.runs.rows import Rows, records


def small_numbers(file, *, scale):
    """Write a table whose two columns of numbers, of this scale, tell the label."""
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
    ("values", "kept"),
    [
        ([0.1 + 0.2, 5e-324, -1e308], [0.1 + 0.2, 5e-324, -1e308]),
        ([1.5, float("nan"), float("inf")], [1.5, None, float("inf")]),
        ([2**53 + 1, 2**80, -1], [2**53 + 1, 2**80, -1]),
        ([np.float32(0.1), np.int8(3), np.bool_(True)], [float(np.float32(0.1)), 3, True]),
        ([True, None, "a\u2028b"], [True, None, "a\u2028b"]),
        ([pd.NaT, pd.NA, date(2026, 1, 2)], [None, None, "2026-01-02"]),
        (
            [datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), pd.Timestamp("2026-01-02"), Decimal("0.1")],
            ["2026-01-02T03:04:05.678901+00:00", "2026-01-02T00:00:00", "0.1"],
        ),
        ([{"a": (1, 2)}, [np.float64(1e-20)], np.array([1, 2])], [{"a": [1, 2]}, [1e-20], [1, 2]]),
    ],
    ids=["floats", "not finite", "integers", "numpy", "mixed", "missing", "dates", "nested"],
)
def test_cells_become_json_without_a_change_of_value(values, kept):
    assert records(pd.DataFrame({"a": pd.Series(values, dtype=object)})) == [{"a": value} for value in kept]


@pytest.mark.parametrize("ending", WRITABLE)
def test_numbers_of_a_written_table_are_read_again_as_they_were(tmp_path, ending):
    numbers = [1e-12, 0.1 + 0.2, 1e300]
    file = tmp_path / f"table{ending}"
    file.write_bytes(table_bytes(pd.DataFrame({"a": numbers}), ending))
    assert read_table(file).frame["a"].astype(float).tolist() == numbers


def test_rows_that_are_kept_and_opened_in_parts_are_those_of_the_whole(tmp_path, monkeypatch):
    lines = [
        '{"text": "one", "label": "a", "whole": 1, "mixed": 1, "late": null, "number": 1}',
        '{"text": "two", "label": "b", "whole": 9007199254740993, "mixed": "x", "late": null, "number": 2.5}',
        '{"text": "three \\u00e4", "label": "a", "whole": 3, "mixed": null, "late": "here", "number": null}',
        '{"text": "four", "label": "b", "whole": 4, "mixed": [1, 2], "late": "there", "number": 1e-300}',
        '{"text": "five", "label": "a", "whole": 5, "mixed": true, "late": null, "number": -0.1}',
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    config = RunConfig(str(tmp_path / "rows.jsonl"), text="text", label="label")
    whole = read_rows(config)
    whole.save(RunFolder(tmp_path / "whole"))
    monkeypatch.setattr(rows_module, "_AT_ONCE", 2)
    monkeypatch.setattr(tables, "CHUNK", 2)
    read_rows(config).save(RunFolder(tmp_path / "parts"))
    kept = [gzip.decompress((tmp_path / name / "rows.jsonl.gz").read_bytes()) for name in ("whole", "parts")]
    assert kept[0] == kept[1]
    in_parts = Rows.open(RunFolder(tmp_path / "whole"))
    monkeypatch.setattr(rows_module, "_AT_ONCE", 10_000)
    at_once = Rows.open(RunFolder(tmp_path / "whole"))
    pd.testing.assert_frame_equal(in_parts.frame, at_once.frame, check_exact=True)
    for name in ("values", "names", "origins"):
        assert getattr(in_parts, name) == getattr(at_once, name) == getattr(whole, name)
    assert records(at_once.frame) == records(whole.frame)
