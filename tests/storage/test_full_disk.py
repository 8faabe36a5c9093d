"""A full or read-only disk gives a clear error, and a folder that can be resumed."""

import os
import subprocess

import numpy as np
import pytest

from tests.storage.sample import ARRAYS, fill, make, open_store, parts_of, tree
from turnover.errors import StoreError
from turnover.storage import ArraySpec, KeptArrays, TileStore

PAGE = 4096


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {getattr(error, 'stderr', None) or error}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def free(disk):
    return os.statvfs(disk).f_bavail * PAGE


def leave(disk, pages):
    with (disk / "ballast").open("wb") as file:
        file.write(bytes(max(0, free(disk) - pages * PAGE)))


def error_of(action):
    try:
        action()
    except StoreError as error:
        return str(error)
    return ""


def test_wherever_the_disk_gets_full_the_store_can_be_resumed(small_disk, tmp_path):
    whole = tree(make(tmp_path / "whole"))
    rejected = 0
    for pages in range(100):
        folder = small_disk / f"{pages}"
        with open_store(folder) as store:
            leave(small_disk, pages)
            message = error_of(lambda: fill(store))
            if not message:
                break
            rejected += 1
            done = 9 - len(store.pending())
            assert "there is no room left for" in message
            assert f"the {done} tiles that are done are kept" in message
            assert "Make room and run the same call again" in message
            assert TileStore.open_for_reading(folder).done == list(range(done))
            assert not list(folder.rglob("*.part"))
            if pages % 2:
                # The same writer continues once there is room.
                (small_disk / "ballast").unlink()
                fill(store)
        if not pages % 2:
            (small_disk / "ballast").unlink()
            with open_store(folder) as store:
                assert 9 - len(store.pending()) == done
                fill(store)
        assert tree(folder) == whole, pages
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    assert tree(folder) == whole
    assert rejected > 20


def test_the_error_says_how_much_is_missing(small_disk):
    spec = ArraySpec((8, 50_000), "float32", (1, 50_000))
    row = np.ones((1, 50_000), np.float32)
    with pytest.raises(StoreError, match=r"no room for .*: 1.6 MB are still to be written and 1.0 MB are free; the 0 "):
        open_store(small_disk / "out", {"values": spec})
    spec = ArraySpec((4, 50_000), "float32", (1, 50_000))
    with open_store(small_disk / "other", {"values": spec}) as store:
        store.write(2, {"values": row})
        leave(small_disk, 10)
        with pytest.raises(
            StoreError,
            match=r"600.0 kB are still to be written and 41.0 kB are free; the 1 tiles that are done are kept",
        ):
            store.write(0, {"values": row})
        assert store.pending() == [0, 1, 3]
    with pytest.raises(StoreError, match="no room for"):
        open_store(small_disk / "other", {"values": spec})
    (small_disk / "ballast").unlink()
    with open_store(small_disk / "other", {"values": spec}) as store:
        assert store.pending() == [0, 1, 3]


def test_a_read_only_disk_is_rejected_before_any_work_and_can_still_be_read(small_disk):
    make(small_disk / "made")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for folder in ("made", "new"):
        with pytest.raises(
            StoreError, match=r"cannot write to .*Read-only file system.*Give a folder that you may write"
        ):
            open_store(small_disk / folder)
    assert TileStore.open_for_reading(small_disk / "made").read("values").shape == ARRAYS["values"].shape


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_rejected_before_any_work(tmp_path):
    with open_store(tmp_path) as store:
        store.write(0, parts_of(0))
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"cannot write to .*Permission denied"):
            open_store(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_kept_arrays_that_do_not_fit_leave_the_former_ones(small_disk):
    kept = KeptArrays(small_disk, "factors.npz", {"seed": 0})
    kept.write({"left": np.arange(8.0)})
    with pytest.raises(StoreError, match=r"no room left.*Make room and run the same call again"):
        kept.write({"left": np.zeros(2**18)})
    found = kept.read()
    assert found is not None
    assert np.array_equal(found["left"], np.arange(8.0))
    assert [file.name for file in small_disk.iterdir()] == ["factors.npz"]
