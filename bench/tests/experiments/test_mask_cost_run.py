"""Masks in runs of `turnover run`: a toy run, its images and labels, and what the page says by the numbers."""

import pytest

from turnover_bench.experiments.mask_cost_run.experiment import findings


def result(**costs):
    """Return a result with these costs of the defaults by data set, in points; with one replica masks cost nothing."""
    by_data = {
        data: {
            "defaults": [{"plain": 0.9, "masked": 0.9 - cost / 100}],
            "1 replica": [{"plain": 0.9, "masked": 0.9}],
        }
        for data, cost in costs.items()
    }
    return {"setting": {"seeds": [0], "wrong": 0.05, "pixels": 16}, "data": by_data}


@pytest.mark.parametrize(
    ("letters", "digits", "verdict"),
    [(1.0, 0.0, "holds"), (3.0, 0.0, "holds in part"), (3.0, 2.5, "does not hold here")],
)
def test_masks_cost_little_where_they_do_so_on_all_data(letters, digits, verdict):
    defaults, others = findings(result(letters=letters, digits=digits))
    assert defaults.verdict == verdict
    assert f"{letters:.1f} points on rendered letters" in defaults.agreement
    assert "handwritten digits: 0.0 with 1 replica" in others.agreement
