"""Masks in runs of `turnover run`: a toy run, its images and labels, and what the page says by the numbers."""

import numpy as np
import pytest

from turnover_bench.experiments.mask_cost_run.experiment import Config, _images, findings


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


def test_letters_are_given_with_wrong_labels_and_held_out_with_their_own():
    (given, held), (clean, same) = (
        _images(Config({"letters": (520, 104)}, wrong=wrong), "letters", 0) for wrong in (0.1, 0.0)
    )
    assert given.pixels.shape == (520, 12, 12)
    assert np.array_equal(given.pixels, clean.pixels)
    assert np.mean(given.labels != clean.labels) == pytest.approx(0.1)
    assert len(held) == 104
    assert np.array_equal(held.labels, same.labels)


def test_each_run_has_the_settings_it_is_named_for(toy):
    for by_setting in toy.result["data"].values():
        assert [(name, runs[0]["replicas"]) for name, runs in by_setting.items()] == [("defaults", 2), ("1 replica", 1)]
        for (one,) in by_setting.values():
            assert (one["hidden"], one["epochs"]) == (16, 1)
            assert one["trained"] == 90
            assert 0 <= one["plain"] <= 1
            assert 0 <= one["masked"] <= 1
