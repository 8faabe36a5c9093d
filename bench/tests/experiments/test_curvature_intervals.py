"""Intervals of the curvature estimator: the counting is right where the answer is known; a toy run has all of it."""

import numpy as np
import pytest

from turnover_bench.experiments.curvature_intervals.experiment import SIZES, agreement, run
from turnover_bench.experiments.datasets import MissingDataError


def test_honest_errors_agree_on_nineteen_of_twenty_and_halved_ones_do_not():
    replicas = np.random.default_rng(0).normal(size=(6, 8, 2000, 4))
    values, errors = replicas.mean(1), replicas.std(1, ddof=1) / np.sqrt(8)
    honest = agreement(values, errors, 8)
    assert honest.shape == (15, 2000, 4)
    assert honest.mean() == pytest.approx(0.95, abs=0.005)
    assert agreement(values, errors / 2, 8).mean() < 0.75


def test_a_toy_run_compares_any_two_trainings(toy):
    digits = toy.result["tasks"]["digits"]
    assert {asked: digits[asked]["scores"] for asked in ("pairs", "mean")} == {"pairs": 120 * 4, "mean": 120}
    for asked in ("pairs", "mean"):
        assert len(digits[asked]["covered_by_trainings"]) == digits[asked]["compared"] == 3
        assert np.mean(digits[asked]["covered_by_trainings"]) == pytest.approx(digits[asked]["covered"])
        assert f"{digits[asked]['covered']:.1%}" in toy.page
    assert np.mean(digits["pairs"]["covered_by_query"]) == pytest.approx(digits["pairs"]["covered"])


def test_missing_sentences_are_named_before_digits_are_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(MissingDataError, match=r"sst2/train.tsv"):
        run(SIZES["small"], tmp_path / "run")
    assert not (tmp_path / "run").exists()
