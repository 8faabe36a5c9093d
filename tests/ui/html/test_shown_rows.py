"""Rows as readers see them."""

from turnover.runs import start_run
from turnover.runs.config import RunConfig
from turnover.ui.html import shown_row


def test_rows_are_shown_with_their_split_and_label(table_run):
    row = shown_row(table_run.examples, 3)
    assert dict(row.cells)["weight"] == "missing"
    assert row.label == table_run.rows.data.column("kind")[3].as_py()
    assert 3 in table_run.places(row.split)


def test_columns_that_are_left_out_are_counted(tmp_path):
    wide = [f"column{number}" for number in range(30)]
    lines = [",".join([str(row * 37 % (place + 7)) for place in range(30)] + ["ab"[row % 2]]) for row in range(40)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join([*wide, "kind"]), *lines]), encoding="utf-8")
    config = RunConfig(str(tmp_path / "wide.csv"), label="kind", hidden=16, replicas=1, epochs=1)
    row = shown_row(start_run(config, tmp_path / "run").examples, 0)
    assert len(row.cells) == 12
    assert row.more_cells == 18


def test_nothing_is_left_out_of_a_narrow_table_or_a_text(table_run, report_run):
    assert shown_row(table_run.examples, 0).more_cells == shown_row(report_run.examples, 0).more_cells == 0
