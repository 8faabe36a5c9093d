"""A file is there whole or not at all."""

import threading

import pytest

from turnover.storage import atomic_file, write_atomically
from turnover.storage import files as storage_files


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(("content", "stored"), [("ä\r\n", "ä\r\n".encode()), (b"\x00\xff", b"\x00\xff")])
def test_a_written_file_holds_just_the_content_and_missing_folders_are_made(tmp_path, content, stored, sync):
    path = tmp_path / "new" / "deep" / "file"
    write_atomically(path, content, sync=sync)
    assert path.read_bytes() == stored
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_where_writing_fails_the_old_file_stays_and_nothing_is_left_behind(tmp_path, error):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def write():
        with atomic_file(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_threads_that_write_the_same_file_do_not_mix(tmp_path):
    contents = [bytes([65 + number]) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=write_atomically, args=(tmp_path / "file", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() in contents


def test_a_synced_file_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(storage_files.os, "fsync", lambda _: synced.append((tmp_path / "file").exists()))
    write_atomically(tmp_path / "file", "content")
    assert synced == []
    (tmp_path / "file").unlink()
    write_atomically(tmp_path / "file", "content", sync=True)
    assert synced == [False, True]
