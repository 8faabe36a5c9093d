"""A folder has one writer at a time, and a dead one is none."""

import os
import signal
import threading
import time

import pytest

from tests.storage.sample import hold, hold_with_child, make, open_store
from turnover.errors import StoreLockedError
from turnover.storage import FolderLock, TileStore


def test_a_second_writer_in_this_process_is_rejected(tmp_path):
    with open_store(tmp_path), pytest.raises(StoreLockedError, match=f"{tmp_path}.*pid {os.getpid()} on"):
        open_store(tmp_path)
    with open_store(tmp_path):
        pass


def test_a_second_writer_in_another_process_is_rejected_until_the_first_is_killed(tmp_path, processes):
    here, there = processes.Pipe()
    first = processes.Process(target=hold, args=(tmp_path, there))
    first.start()
    assert here.recv() == "writer"
    with pytest.raises(StoreLockedError, match=f"pid {first.pid} on .*Wait until it has ended, or give another folder"):
        open_store(tmp_path)
    assert not TileStore.open_for_reading(tmp_path).complete
    first.kill()
    first.join()
    assert (tmp_path / "writer.lock").exists()
    make(tmp_path)
    assert not (tmp_path / "writer.lock").exists()


def test_a_forked_worker_neither_writes_nor_keeps_the_lock_of_a_killed_parent(tmp_path, processes):
    here, there = processes.Pipe()
    parent = processes.Process(target=hold_with_child, args=(tmp_path, there))
    parent.start()
    answers = [here.recv(), here.recv()]
    (child,) = [answer for answer in answers if isinstance(answer, int)]
    try:
        assert any("opened by another process" in str(answer) for answer in answers)
        with pytest.raises(StoreLockedError):
            open_store(tmp_path)
        parent.kill()
        parent.join()
        with open_store(tmp_path) as store:
            assert len(store.pending()) == 9
    finally:
        os.kill(child, signal.SIGKILL)


def test_no_two_hold_the_lock_however_fast_it_changes_hands(tmp_path):
    inside, most, taken = [], [], []

    def compete():
        for _ in range(100):
            try:
                lock = FolderLock(tmp_path)
            except StoreLockedError:
                continue
            inside.append(1)
            most.append(len(inside))
            time.sleep(0)
            inside.pop()
            taken.append(1)
            lock.release()

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken
    assert max(most) == 1


def test_the_lock_is_released_when_opening_fails(tmp_path, monkeypatch):
    def broken(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TileStore, "_tidy", broken)
        with pytest.raises(KeyboardInterrupt):
            open_store(tmp_path)
    with open_store(tmp_path):
        pass
