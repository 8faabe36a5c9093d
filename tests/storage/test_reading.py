"""Readers need no lock, see what is done, and never take damage for data."""

import numpy as np
import pytest
import zarr

from tests.storage.sample import ARRAYS, WHOLE, expected, fill, make, open_store, parts_of
from turnover.errors import StoreDamagedError, StoreError
from turnover.storage import TileStore


def test_all_arrays_are_read_whole_and_lazily(tmp_path):
    stored = TileStore.open_for_reading(make(tmp_path))
    assert stored.complete
    assert stored.done == list(range(stored.tiles)) == list(range(9))
    assert sorted(stored.arrays) == ["counts", "empty", "offset", "scalar", "values"]
    for name in stored.arrays:
        content = expected(name) if name in ARRAYS else WHOLE[name]
        np.testing.assert_array_equal(stored.read(name), content, strict=True)
        np.testing.assert_array_equal(stored.array(name)[...], content)
    assert stored.array("values")[6, 4] == expected("values")[6, 4]


def test_the_folder_is_a_zarr_group_for_anyone(tmp_path):
    group = zarr.open_group(make(tmp_path) / "arrays", mode="r")
    assert sorted(name for name, _ in group.arrays()) == ["counts", "empty", "offset", "scalar", "values"]


def test_a_reader_sees_what_a_writer_at_work_has_done(tmp_path):
    with open_store(tmp_path) as store:
        store.write(4, parts_of(4))
        stored = TileStore.open_for_reading(tmp_path)
        assert (stored.complete, stored.done, stored.tiles, stored.attributes) == (False, [4], 9, {})
        lazy = stored.array("values")[...]
        assert np.isnan(lazy).sum() == 35 - 6
        np.testing.assert_array_equal(lazy[store.region("values", 4)], parts_of(4)["values"])
        with pytest.raises(StoreError, match="is not complete: 1 of 9 tiles are done"):
            stored.read("values")
        fill(store)
        assert TileStore.open_for_reading(tmp_path).complete


def test_a_damaged_tile_of_an_unfinished_store_is_merely_not_done(tmp_path):
    with open_store(tmp_path) as store:
        store.write(0, parts_of(0))
        store.write(1, parts_of(1))
    (tmp_path / "arrays/values/c.0.0").unlink()
    assert TileStore.open_for_reading(tmp_path).done == [1]


@pytest.mark.parametrize("name", ["values/c.0.1", "counts/c.2.2", "offset/c.0", "scalar/c"])
def test_missing_and_truncated_tiles_are_found_on_opening(tmp_path, name):
    file = make(tmp_path) / "arrays" / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StoreDamagedError, match=f"missing or damaged: 'arrays/{name}'. Run the call"):
        TileStore.open_for_reading(tmp_path)
    file.unlink()
    with pytest.raises(StoreDamagedError, match=f"missing or damaged: 'arrays/{name}'"):
        TileStore.open_for_reading(tmp_path)


@pytest.mark.parametrize("name", ["values/c.0.1", "offset/c.0", "scalar/c"])
def test_flipped_bytes_are_found_on_reading(tmp_path, name):
    file = make(tmp_path) / "arrays" / name
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)
    stored = TileStore.open_for_reading(tmp_path)
    with pytest.raises(StoreDamagedError, match=f"missing or damaged: 'arrays/{name}'"):
        stored.read(name.split("/")[0])
    with pytest.raises(ValueError, match="checksum"):
        stored.array(name.split("/")[0])[...]
    np.testing.assert_array_equal(stored.read("counts"), expected("counts"))


def test_a_tile_in_the_place_of_another_is_found(tmp_path):
    make(tmp_path)
    (tmp_path / "arrays/values/c.0.0").write_bytes((tmp_path / "arrays/values/c.1.1").read_bytes())
    stored = TileStore.open_for_reading(tmp_path)
    with pytest.raises(StoreDamagedError, match=r"arrays/values/c\.0\.0"):
        stored.read("values")
    with pytest.raises(ValueError, match=r"c\.0\.0 .*checksum"):
        stored.array("values")[0]


@pytest.mark.parametrize(
    ("name", "other"), [("turnover-store.json", "tiles.json"), ("tiles.json", "turnover-store.json")]
)
def test_a_list_in_the_place_of_another_is_found(tmp_path, name, other):
    make(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / other).read_bytes())
    with pytest.raises(StoreDamagedError, match=f"{name} in .* is damaged"):
        TileStore.open_for_reading(tmp_path)


@pytest.mark.parametrize("damage", [lambda text: text.replace("little", "big"), lambda text: text[:-9]])
def test_a_damaged_description_which_others_read_changes_nothing_here(tmp_path, damage):
    file = make(tmp_path) / "arrays/values/zarr.json"
    file.write_text(damage(file.read_text()))
    np.testing.assert_array_equal(TileStore.open_for_reading(tmp_path).read("values"), expected("values"))


def test_a_folder_without_a_store_is_rejected(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(StoreError, match="there is no store at"):
            TileStore.open_for_reading(folder)
    assert not list(tmp_path.iterdir())


def test_an_unknown_array_is_rejected_and_the_known_ones_named(tmp_path):
    stored = TileStore.open_for_reading(make(tmp_path))
    with pytest.raises(StoreError, match=r"no array 'value'; it has .*'values'"):
        stored.read("value")
