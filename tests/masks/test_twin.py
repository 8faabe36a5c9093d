"""The torch code gives the bits that docs/format.md defines, as the slow twin computes them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import mask_twin
from turnover.masks import Codebook, Counter, Stream, Volatile, unpack
from turnover.masks.hashing import id_words, key_words, mix_, numerator_of
from turnover.masks.sources import primitive_keep

EDGES = [0, 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1]

seeds = st.integers(-(2**63), 2**64) | st.integers(-(10**60), 10**60)
sites = st.text(max_size=20) | st.sampled_from(["", "fc1", "encoder.layer.3.größe", "层\t😀\x7f"])
id_lists = st.lists(st.integers(0, 2**63 - 1) | st.sampled_from(EDGES), min_size=1, max_size=3)
widths = st.integers(1, 100)
keeps = st.floats(0, 1, exclude_min=True, exclude_max=True) | st.sampled_from(
    [0.1, 0.25, 0.5, 0.75, 0.9, 2**-24, 1 - 2**-24, 1e-12, 1 - 1e-12, 5e-324]
)


def codebook_of(seed, picks, shelf):
    return Codebook(seed, rows=picks * shelf, picks=picks)


SOURCES = {
    "counter": st.builds(Counter, seeds),
    "volatile": st.builds(Volatile, seeds, block=st.integers(1, 64) | st.sampled_from([1024, 4096])),
    "codebook": st.builds(codebook_of, seeds, st.integers(1, 5), st.integers(1, 40) | st.sampled_from([1024])),
}


@pytest.mark.parametrize("kind", SOURCES)
@given(data=st.data(), site=sites, ids=id_lists, width=widths, keep=keeps)
@settings(max_examples=60)
def test_every_source_equals_its_twin(kind, data, site, ids, width, keep):
    source = data.draw(SOURCES[kind])
    (words,) = source.words(torch.tensor(ids), [Stream(site, width, keep)])
    assert words.dtype == torch.int32
    options = {"seed": source.seed, "options": source.options()}
    twin = mask_twin.twin_bits(kind, site=site, keep=keep, ids=ids, width=width, **options)
    assert np.array_equal(unpack(words, width).numpy(), twin)


@given(seed=seeds, site=sites)
def test_key_words_equal_twin(seed, site):
    ours = [word % 2**32 for word in key_words("counter", seed, site)[:3]]
    assert tuple(ours) == mask_twin.key_words("counter", seed, site)


@pytest.mark.parametrize("code", range(0, 0x3000, 0x400))
def test_every_character_of_a_site_is_escaped_as_defined(code):
    site = "".join(chr(c) for c in range(code, code + 0x400))
    ours = [word % 2**32 for word in key_words("counter", 0, site)[:3]]
    assert tuple(ours) == mask_twin.key_words("counter", 0, site)


@given(words=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_mixer_equals_twin_on_signed_and_unsigned_words(words):
    signed = torch.tensor([word - 2**32 if word >= 2**31 else word for word in words])
    mixed = mix_(signed.to(torch.int32))
    assert [int(word) % 2**32 for word in mixed] == [mask_twin.triple32(word) for word in words]


def test_mixer_has_the_published_inverse():
    # The inverse multipliers are printed beside triple32 in the hash prospector's README.
    words = torch.randint(-(2**31), 2**31, (10_000,)).to(torch.int32)
    x = mix_(words.clone()).numpy().view(np.uint32).astype(np.uint64)
    x ^= x >> 14 ^ x >> 28
    x = x * 0x32B21703 & 0xFFFFFFFF
    x ^= x >> 15 ^ x >> 30
    x = x * 0x469E0DB1 & 0xFFFFFFFF
    x ^= x >> 11 ^ x >> 22
    x = x * 0x79A85073 & 0xFFFFFFFF
    x ^= x >> 17
    assert np.array_equal(x.astype(np.uint32), words.numpy().view(np.uint32))


@given(ids=st.lists(st.integers(0, 2**63 - 1) | st.sampled_from(EDGES), min_size=1, max_size=20))
def test_ids_enter_as_two_words_without_loss(ids):
    low, high = id_words(torch.tensor(ids))
    assert low.dtype == high.dtype == torch.int32
    joined = [(int(h) % 2**32) << 32 | int(w) % 2**32 for w, h in zip(low, high, strict=True)]
    assert joined == ids


@given(keep=keeps)
def test_keep_is_rounded_as_defined(keep):
    assert numerator_of(keep) == mask_twin.numerator(keep)


@pytest.mark.parametrize("numerator", [1, 2, 3, 8_388_607, 16_777_214])
def test_keep_halfway_between_two_steps_goes_to_the_even_one(numerator):
    even = numerator + numerator % 2
    assert numerator_of((numerator + 0.5) / 2**24) == even


@given(keep=keeps, picks=st.integers(1, 12))
def test_primitive_rate_is_the_root_as_defined(keep, picks):
    assert primitive_keep(keep, picks) * 2**24 == mask_twin.primitive_numerator(keep, picks)
