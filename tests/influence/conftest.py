"""What tests of the engine share."""

import pytest

from turnover.influence.turnover_dropout import estimator


@pytest.fixture(autouse=True)
def large_jobs(monkeypatch):
    """Treat every job as a large one: paths and nulls are tested on few pairs, which are twins' work.

    Small jobs themselves are tested in test_small_jobs.py.
    """
    monkeypatch.setattr(estimator, "_FEW_PAIRS", 0)
    monkeypatch.setattr(estimator, "_VERY_FEW_PAIRS", 0)
    monkeypatch.setattr(estimator, "_FEWEST_NULLS", 1024)
