"""The codebook has the rates that theory gives for its number of rows and picks.

A codebook is one draw of rows * width bits that all ids share, so rates scatter from codebook to
codebook. The units of one wide codebook are independent draws: the variance over units gives the
standard error of every mean over them.
"""

from statistics import NormalDist

import numpy as np
import pytest
import torch

from tests.masks.drawn import bits_of, words_of
from tests.reference import mask_twin
from turnover.masks import Codebook
from turnover.masks.hashing import id_words
from turnover.masks.sources import primitive_keep

SHAPES = [(16, 2), (12, 3), (32, 4), (24, 1)]  # (rows, picks)
BOUND = NormalDist().inv_cdf(1 - 1e-5 / 2)  # 4.4 standard errors
each_shape = pytest.mark.parametrize(("rows", "picks"), SHAPES)


def assert_mean_is(per_unit, theory):
    error = per_unit.std(ddof=1) / np.sqrt(len(per_unit))
    assert abs(per_unit.mean() - theory) < BOUND * error


@each_shape
def test_ids_share_a_mask_as_often_as_theory_says(rows, picks):
    # Twelve words are enough to tell any two combinations of rows apart.
    pairs = 50_000
    masks = words_of(Codebook(seed=0, rows=rows, picks=picks), range(2 * pairs), width=384)
    shared = (masks[:pairs] == masks[pairs:]).all(1).sum()
    rate = Codebook(rows=rows, picks=picks).collision_rate()
    assert abs(shared - pairs * rate) < BOUND * np.sqrt(pairs * rate * (1 - rate))


@each_shape
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_rate_of_ones_is_keep(rows, picks, keep):
    bits = bits_of(Codebook(seed=1, rows=rows, picks=picks), range(512), 2**15, keep=keep)
    assert bits.size >= 10**7
    assert_mean_is(bits.mean(0), keep)


@each_shape
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_formula_of_the_mean_correlation_fits_the_picks_of_many_ids(rows, picks, keep):
    pairs = 100_000
    low, high = id_words(torch.arange(2 * pairs))
    picked = Codebook(seed=3, rows=rows, picks=picks).picked_rows(low, high, "fc1")
    shared = (picked[:pairs] == picked[pairs:]).sum(1).numpy()
    q = primitive_keep(keep, picks)
    per_pair = (q ** (2.0 * picks - shared) - keep**2) / (keep * (1 - keep))
    assert_mean_is(per_pair, Codebook(rows=rows, picks=picks).mean_correlation(keep))


@pytest.mark.parametrize(("rows", "picks"), [(4096, 4), (12, 3), (5, 5), (7, 1)])
def test_each_pick_is_from_a_shelf_of_its_own_and_all_its_rows_are_used(rows, picks):
    low, high = id_words(torch.arange(100_000))
    picked = Codebook(seed=7, rows=rows, picks=picks).picked_rows(low, high, "fc1")
    shelf = rows // picks
    assert torch.equal(picked // shelf, torch.arange(picks).expand_as(picked))
    counts = torch.bincount(picked.flatten(), minlength=rows).double().numpy()
    expected = len(picked) / shelf
    # Each shelf's counts are one multinomial draw with shelf - 1 degrees of freedom.
    chi2, df = ((counts - expected) ** 2 / expected).sum(), rows - picks
    assert abs(chi2 - df) <= BOUND * np.sqrt(2 * df) + 10


def testpicked_rows_equal_twin():
    ids = [0, 5, 2**31, 2**53 + 1, 2**63 - 1]
    low, high = id_words(torch.tensor(ids))
    picked = Codebook(seed=8, rows=4096, picks=4).picked_rows(low, high, "größe")
    assert picked.tolist() == [mask_twin.codebook_rows(8, "größe", i, 4096, 4) for i in ids]


def test_default_codebook_is_stated_in_the_notes():
    (note,) = Codebook().notes(0.5)
    assert "4,096 rows, 4 picked" in note
    assert f"probability {(4 / 4096) ** 4:.3g} per site" in note
    assert f"correlate by {Codebook().mean_correlation(0.5):.3g} on average" in note
    assert Codebook().mean_correlation(0.5) == pytest.approx(4 * (4 / 4096) * (2**0.25 - 1), rel=1e-3)


@pytest.mark.parametrize("picks", [1, 2, 4, 64])
@pytest.mark.parametrize("keep", [1e-9, 0.1, 0.5, 0.9, 1 - 1e-9])
def test_primitive_rate_lies_strictly_between_0_and_1_and_its_power_is_keep(keep, picks):
    q = primitive_keep(keep, picks)
    assert 0 < q < 1
    assert q**picks == pytest.approx(keep, abs=picks * 2**-24)
