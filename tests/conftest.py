"""Fixtures for all tests: fixed seeds, and the real data sets where they are at hand."""

import gc
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

# The models of the tests are tiny: a second thread costs more than it brings, above all one that spins while it waits.
# By the environment and not by torch.set_num_threads, which other threads of a process do not follow.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent

# Temporary folders lie in memory where there is room: a store syncs every file, and a busy disk takes its time.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2**32:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# The first call of a torch function can take a second: a deadline would report that as a failure.
hypothesis.settings.register_profile("turnover", deadline=None, derandomize="CI" in os.environ, print_blob=True)
hypothesis.settings.load_profile("turnover")


def pytest_collection_finish() -> None:
    """Take what the imports left out of all garbage collections: trainers ask for one after every training."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Every test starts from the same random state, alone or among others."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave the user's cache alone, and find nothing in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNOVER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = Path(os.environ.get("TURNOVER_DATA") or ROOT / "data")
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set TURNOVER_DATA to run this test")
    return folder


@pytest.fixture(scope="session")
def data_file(data_folder: Path) -> Callable[[str], Path]:
    """The path of one data file, as in `data_file("sst2/dev.tsv")`; skips where it is missing."""

    def find(name: str) -> Path:
        path = data_folder / name
        if not path.is_file():
            pytest.skip(f"no file {name} in {data_folder}; set TURNOVER_DATA to run this test")
        return path

    return find
