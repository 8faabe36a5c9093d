"""The file of a run is known again by the rows that matter, whatever a run folder made of their values."""

import pytest

pytest.importorskip("pandas", reason="needs the extra cli")

import pandas as pd

from turnover.runs.config import RunConfig
from turnover.runs.folder import RunFolder
from turnover.runs.reading.rows import read_rows
from turnover.runs.reading.tables import same_table
from turnover.runs.rows import Rows
from turnover.storage import digest_of

TEXTS = [f"a {('good', 'bad')[n % 2]} film number {n}" for n in range(8)]


@pytest.fixture
def file(tmp_path):
    pytest.importorskip("pyarrow", reason="reading parquet needs pyarrow")
    # Dates, whole numbers with a hole and truth values become something else in a run folder.
    frame = pd.DataFrame(
        {
            "text": TEXTS,
            "label": [n % 2 for n in range(8)],
            "seen": pd.date_range("2020-01-01", periods=8, freq="h"),
            "stars": pd.array([1, None, 3, 4, 5, 1, 2, 3], dtype="Int64"),
            "liked": [n % 3 == 0 for n in range(8)],
        }
    )
    frame.to_parquet(tmp_path / "reviews.parquet")
    return tmp_path / "reviews.parquet"


def test_a_file_is_the_same_after_its_rows_were_kept_and_read_again(file, tmp_path):
    rows = read_rows(RunConfig(str(file), text="text", label="label"))
    rows.save(RunFolder(tmp_path / "run"))
    found = same_table(Rows.open(RunFolder(tmp_path / "run")), str(file), range(8), digest=digest_of(file))
    assert found is not None
    assert list(found.frame["text"]) == TEXTS


def test_a_file_is_another_where_a_row_that_matters_differs_and_the_same_where_one_does_not(file):
    rows = read_rows(RunConfig(str(file), text="text", label="label"))
    frame = pd.read_parquet(file)
    frame.loc[2, "liked"] = True
    frame.to_parquet(file)
    assert same_table(rows, str(file), [2, 3]) is None
    assert same_table(rows, str(file), [3]) is not None


def test_a_file_with_other_columns_or_none_at_all_is_another(file):
    rows = read_rows(RunConfig(str(file), text="text", label="label"))
    pd.read_parquet(file).drop(columns="liked").to_parquet(file)
    assert same_table(rows, str(file), []) is None
    file.unlink()
    assert same_table(rows, str(file), []) is None
