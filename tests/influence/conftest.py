"""What tests of the engine share."""

import pytest

from turnover.influence import NULL_IDS, blocks
from turnover.influence.paths import routes


@pytest.fixture(autouse=True)
def large_jobs(monkeypatch):
    """Treat every job as a large one: paths and nulls are tested on few pairs, which are twins' work.

    Small jobs themselves are tested in test_small_jobs.py.
    """
    monkeypatch.setattr(routes, "_FEW_PAIRS", 0)
    monkeypatch.setattr(blocks, "_FEWEST_NULLS", NULL_IDS)
