"""The page and its twin on disk."""

import json

import pytest

from tests.ui.html.made_data import made_data
from turnover.errors import RunError
from turnover.ui.html import collect, write_report
from turnover.ui.html.page import render


def test_a_run_gets_a_page_and_a_twin_of_the_same_data(report_run):
    page = write_report(report_run)
    assert page == report_run.folder.path / "report.html"
    twin = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    data = collect(report_run)
    assert twin == json.loads(data.as_json())
    assert page.read_text(encoding="utf-8") == render(data)


def test_a_report_goes_where_it_is_told(report_run, tmp_path):
    page = write_report(report_run, tmp_path / "new" / "mine.html", data=made_data())
    assert 'href="mine.json"' in page.read_text(encoding="utf-8")
    assert sorted(file.name for file in page.parent.iterdir()) == ["mine.html", "mine.json"]


def test_a_name_that_is_no_page_is_refused(report_run, tmp_path):
    with pytest.raises(RunError, match=r"ends in \.html"):
        write_report(report_run, tmp_path / "report.json", data=made_data())
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(report_run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot make the folder .*file"):
        write_report(report_run, tmp_path / "file" / "report.html", data=made_data())


def test_a_page_that_fails_leaves_the_former_one(report_run, tmp_path, monkeypatch):
    page = write_report(report_run, tmp_path / "report.html", data=made_data())
    before = page.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("turnover.runs.folder.write_atomically", full)
    with pytest.raises(RunError, match="No space left"):
        write_report(report_run, page, data=made_data("table"))
    assert page.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.json"]
