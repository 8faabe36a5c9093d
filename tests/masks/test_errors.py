"""Masks that cannot be are refused with a text that says what to give."""

import re

import pytest
import torch

from turnover.errors import MaskError, TurnOverError
from turnover.masks import Codebook, Counter, Stream, Volatile, source_from, source_named
from turnover.masks.keep_rate import check_keep, digits_of, rounded_keep

ALL = (Counter, Volatile, Codebook)


@pytest.mark.parametrize("keep", [0, 1, 0.0, 1.0, -0.1, 1.5, float("nan"), float("inf"), "0.5", None, True, [0.5]])
def test_keep_outside_0_and_1_is_refused(keep):
    text = (
        f"keep={keep!r} is not a keep rate. Give the share of units that stay, a number between "
        "0 and 1 (both excluded): keep=0.5. It is the opposite of the p of torch.nn.Dropout."
    )
    for ask in (check_keep, digits_of, rounded_keep, lambda rate: Stream("fc1", 8, rate)):
        with pytest.raises(MaskError, match=re.escape(text)):
            ask(keep)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("seed", [0.5, "0", None, True, 1.0, [1]])
def test_seed_that_is_no_integer_is_refused(source, seed):
    text = f"seed={seed!r} is not a seed. Give an integer: seed=0."
    with pytest.raises(MaskError, match=re.escape(text)):
        source(seed=seed)


def test_unknown_source_is_refused_and_the_known_ones_are_named():
    text = "masks='random' is no mask source. Give one of 'counter', 'volatile', 'codebook'."
    with pytest.raises(MaskError, match=re.escape(text)):
        source_named("random", 0)
    with pytest.raises(MaskError, match=re.escape(text)):
        source_from("random", 0, {})


def test_object_that_is_no_source_is_refused():
    text = "is no mask source. Give one of 'counter', 'volatile', 'codebook', or a source object."
    with pytest.raises(MaskError, match="masks=17 " + re.escape(text)):
        source_named(17, 0)


@pytest.mark.parametrize("block", [0, -1, 1.5, "16", None, True])
def test_block_below_one_or_no_integer_is_refused(block):
    text = f"block={block!r} is out of range. Give an integer of at least 1."
    with pytest.raises(MaskError, match=re.escape(text)):
        Volatile(block=block)


@pytest.mark.parametrize("picks", [0, -4, 2.0, None])
def test_picks_below_one_or_no_integer_are_refused(picks):
    text = f"picks={picks!r} is out of range. Give an integer of at least 1."
    with pytest.raises(MaskError, match=re.escape(text)):
        Codebook(picks=picks)


@pytest.mark.parametrize("rows", [0, 3, -8, 16.0, "16"])
def test_fewer_rows_than_picks_are_refused(rows):
    text = f"rows={rows!r} is out of range. Give an integer of at least 4."
    with pytest.raises(MaskError, match=re.escape(text)):
        Codebook(rows=rows)


@pytest.mark.parametrize(("rows", "fitting"), [(4097, 4096), (7, 4), (2**31, 2**31 - 4)])
def test_rows_that_do_not_divide_into_shelves_are_refused_with_a_number_that_does(rows, fitting):
    text = (
        f"rows={rows} does not divide into 4 equal shelves below 2**31 rows. Give a multiple of picks: rows={fitting}."
    )
    with pytest.raises(MaskError, match=re.escape(text)):
        Codebook(rows=rows)
    assert Codebook(rows=fitting).rows == fitting


@pytest.mark.parametrize("width", [0, -3])
def test_site_without_units_is_refused(width):
    text = f"site 'fc1' has width {width}: a mask needs at least one unit."
    with pytest.raises(MaskError, match=re.escape(text)):
        Stream("fc1", width)


@pytest.mark.parametrize(("block", "width"), [(2**27, 64), (2**20, 6000)])
def test_volatile_block_that_outgrows_its_stream_is_refused_before_any_work(block, width):
    text = (
        f"site 'fc1' has {width} units, too many for volatile masks with block={block}: a block's "
        "stream has 2**32 words. Use a smaller block, or masks='counter'."
    )
    with pytest.raises(MaskError, match=re.escape(text)):
        Volatile(block=block).words(torch.arange(3), [Stream("small", 1), Stream("fc1", width)])


def test_volatile_block_beyond_all_ids_is_refused_too():
    with pytest.raises(MaskError, match="too many for volatile masks with block=1208925819614"):
        Volatile(block=2**80).words(torch.arange(3), [Stream("fc1", 1)])


def test_mask_errors_are_value_errors_of_turnover():
    assert issubclass(MaskError, TurnOverError)
    assert issubclass(MaskError, ValueError)


@pytest.mark.parametrize(
    ("keep", "digits"),
    [
        (0.5, (1,)),
        (0.25, (0, 1)),
        (0.75, (1, 1)),
        (1e-30, (0,) * 23 + (1,)),
        (1 - 1e-16, (1,) * 24),
    ],
)
def test_one_digit_of_keep_is_one_hashed_word(keep, digits):
    assert digits_of(keep) == digits


@pytest.mark.parametrize("keep", [0.1, 0.3, 0.5, 0.9, 1e-30, 1 - 1e-16])
def test_rounded_keep_is_a_multiple_of_the_resolution_next_to_keep(keep):
    rate = rounded_keep(keep)
    assert 0 < rate < 1
    assert rate * 2**24 == round(rate * 2**24)
    assert abs(rate - keep) <= 2**-24
