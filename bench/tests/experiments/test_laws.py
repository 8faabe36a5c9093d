"""Laws: a toy run measures every setting once, resumes, and the page shows it."""

import pytest

from turnover_bench.experiments.laws.experiment import _exponent


def test_an_exponent_needs_three_settings_in_which_something_was_seen():
    assert _exponent([1, 2, 4], [8.0, 4.0, 2.0])["exponent"] == pytest.approx(-1)
    assert _exponent([1, 2, 4], [8.0, None, 2.0]) is None
