"""New folders, and processes that start fast, for tests that kill them."""

import multiprocessing

import pytest


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory):
    """Makes empty folders, several per test."""
    return lambda: tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def processes():
    """Forks of a process that has imported everything and runs no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.storage.sample", "turnover.storage", "zarr"])
    return context
