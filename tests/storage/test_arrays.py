"""Tiles cover an array once, whatever their shape, and everything agrees about their numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.sample import open_store
from turnover.errors import StoreError
from turnover.storage import ArraySpec, TileStore
from turnover.storage.store import _DTYPES, tiles_of


@st.composite
def specs(draw):
    shape = draw(st.lists(st.integers(0, 7), max_size=3))
    tile = [draw(st.integers(1, 9)) for _ in shape]
    return ArraySpec(tuple(shape), draw(st.sampled_from(sorted(_DTYPES))), tuple(tile))


def random_array(spec):
    return np.random.default_rng(0).integers(0, 100, spec.shape).astype(spec.dtype)


@given(specs())
def test_every_element_lies_in_exactly_one_tile(spec):
    hits = np.zeros(spec.shape, int)
    for tile in range(spec.tiles):
        hits[spec.region(tile)] += 1
        assert hits[spec.region(tile)].shape == spec.part_shape(tile)
    assert (hits == 1).all()
    assert spec.tiles == math.prod(spec.grid)


@given(specs())
@settings(max_examples=15)
def test_arrays_come_back_as_they_were_whatever_the_tiles(new_folder, spec):
    folder, array = new_folder(), random_array(spec)
    with open_store(folder, {"values": spec}) as store:
        for tile in reversed(store.pending()):
            store.write(tile, {"values": array[spec.region(tile)]})
        store.finish({}, whole={"same": array})
    stored = TileStore.open_for_reading(folder)
    for name in ("values", "same"):
        read, lazy = stored.read(name), stored.array(name)[...]
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array, strict=True)
        np.testing.assert_array_equal(lazy, array)


@pytest.mark.parametrize("part", [np.array([np.nan] * 2), np.zeros(2, int), np.zeros(2, bool)])
def test_a_tile_of_nothing_but_the_fill_value_has_a_file_too(new_folder, part):
    spec, folder = ArraySpec((2,), part.dtype.name, (2,)), new_folder()
    with open_store(folder, {"values": spec}) as store:
        store.write(0, {"values": part})
    assert (folder / "arrays/values/c.0").stat().st_size == spec.file_bytes


@pytest.mark.parametrize(
    ("shape", "dtype", "tile", "message"),
    [
        ((3, 3), "float32", (2,), "cannot be cut into tiles"),
        ((3,), "float32", (0,), "tiles of at least 1"),
        ((-1,), "float32", (1,), "cannot be cut"),
        ((3,), "complex64", (1,), "dtype must be one of .*got 'complex64'"),
        ((3,), "<f4", (1,), "dtype must be one of bool, float16"),
    ],
)
def test_impossible_geometry_is_rejected(shape, dtype, tile, message):
    with pytest.raises(StoreError, match=message):
        ArraySpec(shape, dtype, tile)


def test_arrays_share_a_grid_up_to_trailing_ones():
    rows = ArraySpec((7,), "int64", (3,))
    values = ArraySpec((7, 5), "float32", (3, 5))
    assert tiles_of({"rows": rows, "values": values}) == 3
    assert tiles_of({}) == 0
    with pytest.raises(StoreError, match=r"same grid of tiles, got 'rows' \(3,\), 'values' \(3, 2\).*whole="):
        tiles_of({"rows": rows, "values": ArraySpec((7, 5), "float32", (3, 3))})
