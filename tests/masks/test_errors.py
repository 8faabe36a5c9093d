"""Masks that cannot be are rejected with a text that says what to give."""

import re
from functools import partial

import pytest
import torch

from turnover.errors import MaskError, TurnOverError
from turnover.masks import Codebook, Counter, Stream, Volatile, source_from, source_named
from turnover.masks.hashing import check_keep, rounded_keep

ALL = (Counter, Volatile, Codebook)


NO_INTEGERS = [0.5, "0", None, True, 1.0, [1]]
KNOWN = "masks must be one of 'counter', 'volatile', 'codebook'"


@pytest.mark.parametrize("keep", [0, 1, 0.0, 1.0, -0.1, 1.5, float("nan"), float("inf"), "0.5", None, True, [0.5]])
def test_keep_outside_0_and_1_is_rejected(keep):
    text = (
        "keep must be the share of units that stay, a number between 0 and 1 (both excluded), "
        f"got {keep!r}. It is the opposite of the p of torch.nn.Dropout: keep=0.5."
    )
    for call in (check_keep, lambda rate: Stream("fc1", 8, rate)):
        with pytest.raises(MaskError, match=re.escape(text)):
            call(keep)


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        *((partial(source), NO_INTEGERS, "seed must be an integer, got {}.") for source in ALL),
        (lambda block: Volatile(block=block), [0, -1, 1.5, "16", None, True], "block must be an integer >= 1, got {}."),
        (lambda picks: Codebook(picks=picks), [0, -4, 2.0, None], "picks must be an integer >= 1, got {}."),
        (lambda rows: Codebook(rows=rows), [0, 3, -8, 16.0, "16"], "rows must be an integer >= 4, got {}."),
        (lambda width: Stream("fc1", width), [0, -3], "the width of site 'fc1' must be an integer >= 1, got {}."),
        (lambda kind: source_named(kind, 0), ["random"], KNOWN + ", got {}."),
        (lambda kind: source_from(kind, 0, {}), ["random"], KNOWN + ", got {}."),
        (lambda masks: source_named(masks, 0), [17], KNOWN + ", or a source object, got {}."),
    ],
    ids=["counter", "volatile", "codebook", "block", "picks", "rows", "width", "name", "recipe", "object"],
)
def test_values_that_no_mask_can_have_are_rejected(make, values, message):
    for value in values:
        with pytest.raises(MaskError, match=re.escape(message.format(repr(value)))):
            make(value)


@pytest.mark.parametrize(("rows", "fitting"), [(4097, 4096), (7, 4), (2**31, 2**31 - 4)])
def test_rows_that_do_not_divide_into_shelves_are_rejected_with_a_number_that_does(rows, fitting):
    text = f"rows must be a multiple of picks=4 below 2**31, got {rows}. Give rows={fitting}."
    with pytest.raises(MaskError, match=re.escape(text)):
        Codebook(rows=rows)
    assert Codebook(rows=fitting).rows == fitting


@pytest.mark.parametrize(("block", "width"), [(2**27, 64), (2**20, 6000), (2**80, 1)])
def test_volatile_block_that_outgrows_its_stream_is_rejected_before_any_work(block, width):
    text = (
        f"site 'fc1' has {width} units, too many for volatile masks with block={block}: a block's "
        "stream has 2**32 words. Use a smaller block, or masks='counter'."
    )
    streams = [Stream("fc1", width)] if block > 2**30 else [Stream("small", 1), Stream("fc1", width)]
    with pytest.raises(MaskError, match=re.escape(text)):
        Volatile(block=block).words(torch.arange(3), streams)


def test_mask_errors_are_value_errors_of_turnover():
    assert issubclass(MaskError, TurnOverError)
    assert issubclass(MaskError, ValueError)


@pytest.mark.parametrize("keep", [0.1, 0.3, 0.5, 0.9, 1e-30, 1 - 1e-16])
def test_rounded_keep_is_a_multiple_of_the_resolution_next_to_keep(keep):
    rate = rounded_keep(keep)
    assert 0 < rate < 1
    assert rate * 2**24 == round(rate * 2**24)
    assert abs(rate - keep) <= 2**-24
