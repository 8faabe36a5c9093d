"""Marks are kept whole, survive a restart, and can be taken back."""

import json
import os
import threading

import pytest

from tests.ui.small_runs import BAD, GOOD
from turnover.errors import RunError
from turnover.ui.web.corrections import MarkBook


def test_a_mark_is_kept_in_the_run_folder_and_found_again_by_the_next_server(texts, served, text_run):
    mark = texts.put("/api/marks/3", json={"label": GOOD}).json()
    assert (mark["row"], mark["label"], mark["given"], mark["name"]) == (3, GOOD, BAD, "line 5")
    kept = json.loads((text_run.folder.path / "marks.json").read_text(encoding="utf-8"))
    assert kept["marks"][0]["label"] == GOOD
    again = served("text")
    assert again.get("/api/marks").json()["marks"] == [mark]
    assert again.get("/api/rows/3").json()["mark"] == mark


def test_a_later_mark_replaces_an_earlier_one_and_can_be_taken_back(texts):
    texts.put("/api/marks/3", json={"label": GOOD})
    texts.put("/api/marks/3", json={"label": None})
    marks = texts.get("/api/marks").json()["marks"]
    assert [mark["label"] for mark in marks] == [None]
    assert texts.delete("/api/marks/3").status_code == 204
    assert texts.get("/api/marks").json() == {"marks": []}
    assert texts.delete("/api/marks/3").status_code == 404


def test_marks_of_unknown_rows_and_labels_are_refused(texts):
    assert "no label 'neutral'" in texts.put("/api/marks/3", json={"label": "neutral"}).json()["detail"]
    assert "no row 160" in texts.put("/api/marks/160", json={"label": GOOD}).json()["detail"]
    assert texts.put("/api/marks/3", json={}).status_code == 422


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"format": 2, "marks": []}',
        '{"format": 1, "marks": [{"row": 9999, "label": null, "time": ""}]}',
        '{"format": 1, "marks": [{"row": 1, "label": "neutral", "time": ""}]}',
        '{"format": 1, "marks": [{"row": 1, "label": null, "time": ""}], "checksum": "of row 2"}\n',
    ],
)
def test_damaged_marks_are_not_overwritten_but_told_of(text_run, content):
    file = text_run.folder.path / "marks.json"
    file.write_text(content)
    try:
        with pytest.raises(RunError, match=r"marks\.json' cannot be read .* move it away"):
            MarkBook(text_run)
        assert file.read_text() == content
    finally:
        file.unlink()


def test_two_servers_of_one_run_keep_each_others_marks(text_run):
    one, other = MarkBook(text_run), MarkBook(text_run)
    try:
        threads = [
            threading.Thread(target=book.put, args=(row, GOOD))
            for row in range(0, 20, 2)
            for book, row in ((one, row), (other, row + 1))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(mark.row for mark in one.all) == sorted(mark.row for mark in other.all) == list(range(20))
        assert one.remove(5)
        assert other.get(5) is None
        assert not other.remove(5)
    finally:
        one.file.unlink()


def test_a_mark_says_who_else_writes_to_the_folder(text_run, monkeypatch):
    monkeypatch.setattr("turnover.runs.folder._WAIT", 0.01)
    with text_run.folder.lock(), pytest.raises(RunError, match=f"written by the process with pid {os.getpid()}"):
        MarkBook(text_run).put(1, GOOD)


def test_a_mark_that_cannot_be_written_is_not_shown_as_made(text_run, monkeypatch):
    book = MarkBook(text_run)

    def full(file, text):
        raise RunError("cannot write: no room.")

    monkeypatch.setattr(text_run.folder, "write", full)
    with pytest.raises(RunError, match="no room"):
        book.put(1, GOOD)
    assert len(book) == 0


def test_a_mark_that_is_taken_back_while_the_page_is_made_is_still_shown(texts, monkeypatch):
    texts.put("/api/marks/3", json={"label": GOOD})
    monkeypatch.setattr(MarkBook, "get", lambda self, row: None)
    answer = texts.get("/marks")
    assert answer.status_code == 200
    assert 'data-row="3"' in answer.text
