"""Calibration: the counting is right where the answer is known, and a toy run has all that the page shows."""

import numpy as np
import pytest

from turnover_bench.experiments.calibration.experiment import _coverage


def test_honest_errors_cover_nineteen_of_twenty_and_halved_ones_do_not():
    rng = np.random.default_rng(0)
    replicas = rng.normal(size=(32, 8, 500, 4))
    values, errors = replicas.mean(1), replicas.std(1, ddof=1) / np.sqrt(8)
    assert _coverage(values, errors, 8)[0].mean() == pytest.approx(0.95, abs=0.01)
    assert _coverage(values, errors / 2, 8)[0].mean() < 0.85
