"""The file of a run is known again by its checksum."""

import pytest

pytest.importorskip("pandas", reason="needs the extra cli")

import pandas as pd

from turnover.runs.files import same_table
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


def test_a_file_is_the_same_where_its_checksum_is(file):
    found = same_table(str(file), digest_of(file))
    assert found is not None
    assert found.data.column("text").to_pylist() == TEXTS


def test_a_file_that_changed_or_is_gone_is_another(file):
    digest = digest_of(file)
    pd.read_parquet(file).drop(columns="liked").to_parquet(file)
    assert same_table(str(file), digest) is None
    file.unlink()
    assert same_table(str(file), digest) is None
