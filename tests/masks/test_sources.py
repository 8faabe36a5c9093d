"""What holds for every source: bits are a function of seed, site, id and unit, and of nothing else."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnover.masks import (
    Codebook,
    Counter,
    MaskSource,
    Stream,
    Volatile,
    hashing,
    source_from,
    source_named,
    unpack,
)
from turnover.masks import sources as source_files

SOURCES = {
    "counter": Counter(seed=3),
    "volatile": Volatile(seed=3, block=16),
    "codebook": Codebook(seed=3, rows=64, picks=2),
}
each_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
sources = st.sampled_from(list(SOURCES.values()))
id_lists = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 40), min_size=1, max_size=20)
streams = st.builds(
    Stream,
    site=st.sampled_from(["fc1", "fc2", "größe"]),
    width=st.integers(1, 100),
    keep=st.sampled_from([0.5, 0.1, 0.9, 0.7000001]),
)


def bits_of(source, ids, stream):
    (words,) = source.words(torch.as_tensor(ids), [stream])
    return unpack(words, stream.width)


@given(source=sources, ids=id_lists, stream=streams, data=st.data())
def test_bits_do_not_depend_on_the_order_or_the_rest_of_the_batch(source, ids, stream, data):
    whole = bits_of(source, ids, stream)
    places = data.draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=10))
    part = bits_of(source, [ids[place] for place in places], stream)
    assert torch.equal(part, whole[places])


@given(source=sources, ids=id_lists, expected=st.lists(streams, min_size=1, max_size=5))
@settings(max_examples=50)
def test_bits_do_not_depend_on_other_streams_of_the_same_call(source, ids, expected):
    together = source.words(torch.tensor(ids), expected)
    for words, stream in zip(together, expected, strict=True):
        assert words.dtype == torch.int32
        assert words.shape == (len(ids), -(-stream.width // 32))
        assert torch.equal(unpack(words, stream.width), bits_of(source, ids, stream))


@given(source=sources, ids=id_lists, stream=streams, more=st.integers(1, 200))
@settings(max_examples=50)
def test_bits_of_a_narrow_site_are_the_first_bits_of_a_wide_one(source, ids, stream, more):
    wide = bits_of(source, ids, Stream(stream.site, stream.width + more, stream.keep))
    assert torch.equal(bits_of(source, ids, stream), wide[:, : stream.width])


@given(
    source=sources,
    ids=id_lists,
    rates=st.lists(st.floats(0.001, 0.999), min_size=2, max_size=2),
)
@settings(max_examples=50)
def test_what_is_kept_at_one_rate_is_kept_at_every_higher_one(source, ids, rates):
    lower, higher = sorted(rates)
    few = bits_of(source, ids, Stream("fc1", 100, lower))
    many = bits_of(source, ids, Stream("fc1", 100, higher))
    assert not (few & ~many).any()


@pytest.mark.parametrize("source", [Counter(), Volatile(), Codebook()], ids=lambda s: s.kind)
def test_bits_do_not_depend_on_the_number_of_threads(source):
    # Large enough for torch to use its threads, also within one block.
    stream = Stream("fc1", 3000, 0.75)
    ids = torch.arange(2048)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(bits_of(source, ids, stream))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@each_source
def test_bits_are_right_when_several_threads_ask_at_once(source):
    stream = Stream("threads", 200)
    batches = [torch.arange(start, start + 50) for start in range(0, 400, 50)]
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda ids: bits_of(source, ids, stream), batches))
    assert torch.equal(torch.cat(parts), bits_of(source, range(400), stream))


@each_source
def test_asking_leaves_ids_and_random_state_alone(source):
    ids, state = torch.arange(100), torch.get_rng_state()
    bits_of(source, ids, Stream("fc1", 100, 0.3))
    assert torch.equal(ids, torch.arange(100))
    assert torch.equal(state, torch.get_rng_state())


@each_source
def test_writing_into_an_answer_does_not_change_the_next_one(source):
    stream = Stream("fc1", 100)
    (words,) = source.words(torch.arange(50), [stream])
    before = words.clone()
    words.fill_(-1)
    assert torch.equal(source.words(torch.arange(50), [stream])[0], before)


@each_source
def test_default_dtype_and_autocast_change_no_bit(source):
    stream = Stream("fc1", 100, 0.3)
    plain = bits_of(source, range(50), stream)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(bits_of(source, range(50), stream), plain)
    finally:
        torch.set_default_dtype(before)


@each_source
def test_masks_first_made_in_inference_mode_can_be_trained_with_later(source):
    for cached in (hashing.key_tensor, source_files._layout, source_files._block_counters, source_files._book):
        cached.cache_clear()
    stream = Stream("inference first", 64)
    with torch.inference_mode():
        first = bits_of(source, range(8), stream).clone()
    later = bits_of(source, range(8), stream)
    assert torch.equal(first, later)
    weights = torch.ones(64, requires_grad=True)
    (weights * later.float()).sum().backward()
    assert torch.equal(weights.grad, first.sum(0).float())


@given(seed=st.integers(-(2**70), 2**70))
@settings(max_examples=20)
def test_equal_sources_give_equal_bits_and_other_seeds_others(seed):
    stream = Stream("fc1", 256)
    for kind in SOURCES:
        bits = bits_of(source_from(kind, seed, {}), [5], stream)
        assert torch.equal(bits, bits_of(source_named(kind, seed), [5], stream))
        assert not torch.equal(bits, bits_of(source_named(kind, seed + 1), [5], stream))


def test_options_change_the_bits_and_so_they_belong_to_the_recipe():
    stream, ids = Stream("fc1", 256), [5000]
    pairs = [
        (Volatile(block=16), Volatile(block=32)),
        (Codebook(rows=64), Codebook(rows=128)),
        (Codebook(rows=64, picks=2), Codebook(rows=64, picks=4)),
    ]
    for one, other in pairs:
        assert one.options() != other.options()
        assert not torch.equal(bits_of(one, ids, stream), bits_of(other, ids, stream))


@each_source
def test_a_source_comes_back_from_what_a_recipe_keeps_of_it(source):
    assert source_from(source.kind, source.seed, source.options()) == source


@each_source
def test_every_source_meets_the_protocol_and_passes_through_by_itself(source):
    assert isinstance(source, MaskSource)
    assert source_named(source, seed=99) is source
    assert all(isinstance(note, str) for note in source.notes(0.5))
