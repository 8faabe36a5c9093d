"""How long the stages of a run should take, and how many epochs many and few rows get."""

import pytest

from turnover.runs import RunConfig, start_run
from turnover.runs.networks import settings_for
from turnover.runs.stages import Sizes, expected_seconds

SIZES = Sizes(rows=10_000, products=1e6, units=4096, epochs=3, batch_size=64, read=10**6, text=10**6)


@pytest.mark.parametrize(
    ("kind", "rows", "epochs"),
    [
        ("columns", 80_000, 30),
        ("columns", 200_000, 12),
        ("columns", 10**7, 3),
        ("ngrams", 10**7, 3),
        ("ngrams", 2_000, 3),
        ("ngrams", 320, 12),
        ("encoder", 320, 12),
        ("pixels", 320, 12),
        ("columns", 10, 60),
    ],
)
def test_many_rows_take_fewer_epochs_by_default_and_few_rows_more(kind, rows, epochs):
    assert settings_for(RunConfig("data.csv"), kind, rows).epochs == epochs
    assert settings_for(RunConfig("data.csv", epochs=7), kind, rows).epochs == 7


def test_few_rows_with_numbers_as_labels_take_no_more_epochs():
    assert settings_for(RunConfig("data.csv"), "columns", 10, numeric=True).epochs == 10


def test_twice_the_rows_should_take_about_twice_as_long():
    one = sum(expected_seconds(SIZES).values())
    two = sum(expected_seconds(Sizes(**{**vars(SIZES), "rows": 20_000, "read": 2 * 10**6, "text": 2 * 10**6})).values())
    assert two == pytest.approx(2 * one, rel=0.05)


def test_all_stages_that_a_run_reports_were_expected_in_their_order(tmp_path):
    lines = ["a,label", *(f"{place % 7 - 3}.5,{'up' if place % 7 > 2 else 'down'}" for place in range(60))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    config = RunConfig(str(tmp_path / "table.csv"), label="label", hidden=16, replicas=1, epochs=1)
    stages, expected = [], {}
    start_run(config, tmp_path / "run", watch=lambda stage, *_: stages.append(stage), expect=expected.update)
    seen = list(dict.fromkeys(stages))
    assert [stage for stage in expected if stage in seen] == seen
    assert list(expected)[-1] == "report"
