"""Mask bits look like independent coins: rates, correlations and collisions, on 10^7 bits each.

Every test compares standardized numbers z with `bound(comparisons)`, which perfect coins would
exceed with probability 1e-4 per test, however many numbers it looks at: 3.9 for one comparison, 4.5
for 15, 5.7 for 8,000. Seeds are fixed, so a test that passes keeps passing.
"""

from statistics import NormalDist

import numpy as np
import pytest
import torch

from tests.masks.drawn import bits_of, words_of
from turnover.masks import Counter, Volatile
from turnover.masks.hashing import mix_, signed

SOURCES = {"counter": Counter, "volatile": Volatile}
KEEPS = (0.1, 0.5, 0.9)
IDS, WIDTH = 4096, 2560  # 10.5 million bits

each_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
each_keep = pytest.mark.parametrize("keep", KEEPS)


def bound(comparisons):
    return NormalDist().inv_cdf(1 - 1e-4 / (2 * comparisons))


def assert_no_two_alike(masks):
    ordered = np.sort(masks.view(np.uint64).ravel())
    assert not (ordered[1:] == ordered[:-1]).any()


def correlation_z(a, b, keep):
    """Covariance of two 0/1 arrays around the known rate, in standard errors."""
    n = a.size
    both, ones = np.count_nonzero(a & b), np.count_nonzero(a) + np.count_nonzero(b)
    return (both - keep * ones + n * keep**2) / (keep * (1 - keep) * np.sqrt(n))


def correlations_z(a, b):
    """All correlations of a row of `a` with a row of `b`, both fair bits, in standard errors."""
    # Sums of plus and minus ones are exact in float32. By torch, which keeps to one thread here.
    a, b = (torch.from_numpy(2 * bits.astype(np.float32) - 1) for bits in (a, b))
    return (a @ b.T).numpy() / np.sqrt(a.shape[1])


def assert_uncorrelated_rows(bits):
    z = correlations_z(bits, bits)[np.triu_indices(len(bits), 1)]
    assert np.abs(z).max() < bound(z.size)
    # Also as a whole: the squares of that many independent z have mean 1.
    assert abs((z**2).sum() - z.size) < bound(1) * np.sqrt(2 * z.size)


def test_each_bit_of_a_word_flips_every_bit_of_the_mixed_word_half_the_time():
    n = 2**18
    words = torch.randint(-(2**31), 2**31, (n,)).to(torch.int32)
    z = []
    for bit in range(32):
        flipped = mix_(words.clone()) ^ mix_(words ^ signed(1 << bit))
        counts = np.unpackbits(flipped.numpy().view(np.uint8).reshape(n, 4), axis=1).sum(0)
        z.append((2.0 * counts - n) / np.sqrt(n))
    assert np.abs(z).max() < bound(32 * 32)
    # triple32's published bias, 0.0209, is that of a perfect permutation: nothing to see in 2**18.
    assert abs(np.square(z).sum() - 1024) < bound(1) * np.sqrt(2 * 1024)


@each_source
@each_keep
def test_keep_rate_is_right_within_four_standard_errors(source, keep):
    bits = bits_of(source(seed=0), range(IDS), WIDTH, keep=keep)
    z = (bits.mean() - keep) * np.sqrt(bits.size / (keep * (1 - keep)))
    assert bits.size >= 10**7
    assert abs(z) < 4


@each_source
@each_keep
def test_rates_of_single_units_and_single_ids_scatter_as_coins_do(source, keep):
    bits = bits_of(source(seed=1), range(IDS), WIDTH, keep=keep)
    for axis in (0, 1):
        n = bits.shape[axis]
        z = (bits.sum(axis) - n * keep) / np.sqrt(n * keep * (1 - keep))
        assert abs((z**2).sum() - z.size) < bound(2) * np.sqrt(2 * z.size)
        assert np.abs(z).max() < bound(2 * z.size)


@each_source
@each_keep
def test_ids_units_sites_and_seeds_are_uncorrelated(source, keep):
    ids = range(IDS + 1024)
    bits = bits_of(source(seed=2), ids, width=WIDTH + 64, keep=keep)
    here = bits[:IDS, :WIDTH]
    others = {
        "next id": bits[1 : IDS + 1, :WIDTH],
        "id 2 on": bits[2 : IDS + 2, :WIDTH],
        "id 1,024 on": bits[1024:, :WIDTH],
        "next unit": bits[:IDS, 1 : WIDTH + 1],
        "unit 32 on": bits[:IDS, 32 : WIDTH + 32],
        "unit 64 on": bits[:IDS, 64:],
        "next id and next unit": bits[1 : IDS + 1, 1 : WIDTH + 1],
        "next id and unit 32 on": bits[1 : IDS + 1, 32 : WIDTH + 32],
        "other site": bits_of(source(seed=2), ids[:IDS], WIDTH, site="fc2", keep=keep),
        "site with a prefix": bits_of(source(seed=2), ids[:IDS], WIDTH, site="module.fc1", keep=keep),
        "next seed": bits_of(source(seed=3), ids[:IDS], WIDTH, keep=keep),
        "negative seed": bits_of(source(seed=-2), ids[:IDS], WIDTH, keep=keep),
        "seed 2**32 on": bits_of(source(seed=2**32 + 2), ids[:IDS], WIDTH, keep=keep),
    }
    z = {name: correlation_z(here, other, keep) for name, other in others.items()}
    assert here.size >= 10**7
    assert max(map(abs, z.values())) < bound(len(z)), z


@each_source
def test_each_of_the_63_bits_of_an_id_flips_every_unit_half_the_time(source):
    ids, width = 10_240, 1024
    row = np.arange(ids)
    total, single = [], []
    for bit in range(63):
        # Counts on with this bit left out, so that no pair of ids comes twice.
        without = (row >> bit << (bit + 1) if bit < 14 else 0) | (row & ((1 << bit) - 1))
        flipped = bits_of(source(seed=4), without, width=width)
        flipped ^= bits_of(source(seed=4), without | (1 << bit), width=width)
        per_unit = flipped.sum(0, dtype=np.int64)
        total.append((2 * per_unit.sum() - flipped.size) / np.sqrt(flipped.size))
        single.append((2 * per_unit - ids) / np.sqrt(ids))
    assert ids * width >= 10**7
    assert np.abs(total).max() < bound(2 * 63)
    assert np.abs(single).max() < bound(2 * 63 * width)


@each_source
def test_all_pairs_of_ids_are_uncorrelated_over_units(source):
    near = range(128)
    far = [2**power + step for power in (24, 31, 32, 53, 62) for step in range(-8, 8)]
    ids = torch.tensor([*near, *far])
    source = source(seed=6) if source is Counter else source(seed=6, block=64)
    assert_uncorrelated_rows(bits_of(source, ids, width=2**16))


@each_source
def test_a_million_ids_in_each_range_never_share_a_mask(source):
    half = 500_000
    starts = [0, *(2**power - half for power in (24, 31, 53, 62))]
    ids = torch.cat([torch.arange(start, start + 2 * half) for start in starts])
    source = source(seed=10) if source is Counter else source(seed=10, block=2**16)
    # 64 units: true coins would collide once in a million such tests.
    assert_no_two_alike(words_of(source, ids, width=64))
