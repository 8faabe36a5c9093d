"""Small real runs of every kind, each made once per process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ui import small_runs
from turnover.runs import Run


def _made_once(make: Callable[[Path], Run]) -> Callable[..., Run]:
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Run:
        return make(tmp_path_factory.mktemp(make.__name__))

    return pytest.fixture(scope="session", name=make.__name__)(fixture)


text_run = _made_once(small_runs.text_run)
report_run = _made_once(small_runs.report_run)
group_run = _made_once(small_runs.group_run)
adapter_run = _made_once(small_runs.adapter_run)
image_run = _made_once(small_runs.image_run)
table_run = _made_once(small_runs.table_run)
number_run = _made_once(small_runs.number_run)
