"""Folders that sync fast, and processes that start fast, for tests that kill them."""

import multiprocessing
import os
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory):
    """Makes empty folders, in memory where that exists: a store syncs every file, and a busy disk takes its time."""
    if not os.access(MEMORY, os.W_OK):
        yield lambda: tmp_path_factory.mktemp("store")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as base:
        yield lambda: Path(tempfile.mkdtemp(dir=base))


@pytest.fixture
def tmp_path(new_folder):
    return new_folder()


@pytest.fixture(scope="session")
def processes():
    """Forks of a process that has imported everything and runs no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.storage.sample", "turnover.storage", "zarr"])
    return context
