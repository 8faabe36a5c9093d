"""Every toy experiment is run once for all tests, also where several processes share the work."""

import gc
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from turnover.errors import WeakSignalWarning
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.runner import publish, run


@dataclass(frozen=True)
class Toy:
    record: dict[str, Any]
    folder: Path
    pages: Path

    @cached_property
    def page(self) -> str:
        return publish(self.record, self.pages).read_text(encoding="utf-8")

    @property
    def result(self) -> dict[str, Any]:
        return json.loads(json.dumps(self.record["result"]))


@pytest.fixture(scope="session")
def run_toy(tmp_path_factory, worker_id) -> Callable[[str], Toy]:
    """Give the toy run of an experiment; skips where its data or packages are missing."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "toys"
    shared.mkdir(exist_ok=True)

    @cache
    def toy(name: str) -> Toy:
        gc.freeze()  # experiments collect garbage before they measure memory
        try:
            with FileLock(shared / f"{name}.lock"), warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakSignalWarning)  # toys hardly learn
                return Toy(run(name, "toy", shared / name), shared / name, base / "pages" / name)
        except MissingDataError as error:
            pytest.skip(str(error))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("turnover"):
                raise
            pytest.skip(f"{error.name} is missing: pip install 'turnover[all]'")

    return toy


@pytest.fixture(scope="module")
def toy(request, run_toy) -> Toy:
    """The toy run of the experiment that a test file is about: test_NAME.py."""
    return run_toy(request.path.stem.removeprefix("test_"))
