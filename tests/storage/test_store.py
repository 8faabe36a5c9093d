"""A store is made, resumed, rejected by name, and recovers from damage to any of its files."""

import json
import os
import shutil
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.sample import ARRAYS, fill, make, open_store, parts_of, tree
from turnover.errors import MissingExtraError, StoreDamagedError, StoreError
from turnover.storage import ArraySpec, TileStore, sha256_of

TILES = 9
UNFINISHED = [
    *(f"arrays/{name}" for name in "values/c.0.1 counts/c.0.1 counts/zarr.json zarr.json".split()),
    "tiles.json",
]


@pytest.fixture(scope="module")
def made(new_folder):
    return make(new_folder())


@pytest.fixture(scope="module")
def whole(made):
    return tree(made)


@pytest.fixture(scope="module")
def begun(new_folder):
    folder = new_folder()
    with open_store(folder) as store:
        for tile in range(4):
            store.write(tile, parts_of(tile))
    return folder


def resumed(folder):
    return tree(make(folder))


def test_a_resumed_store_has_the_bytes_of_an_uninterrupted_one(tmp_path, whole):
    with open_store(tmp_path) as store:
        for tile in (7, 2, 3):
            store.write(tile, parts_of(tile))
    with open_store(tmp_path) as store:
        assert store.pending() == [0, 1, 4, 5, 6, 8]
        store.write(8, parts_of(8))
    assert resumed(tmp_path) == whole
    assert "writer.lock" not in [path.name for path in tmp_path.iterdir()]


def test_a_complete_store_has_nothing_pending_and_is_left_as_it_is(tmp_path):
    make(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    with open_store(tmp_path) as store:
        assert store.complete
        assert store.pending() == []
        with pytest.raises(StoreError, match="is complete"):
            store.write(0, parts_of(0))
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}


def test_the_format_is_these_bytes(whole):
    # A change here needs a new format number and a way to read the old one.
    assert sha256_of(json.dumps(whole).encode()) == "4e9c864536cc47d10d7b8e2098987cc73b4a8287b86fa45a4abc9e5cf2b43bb8"


def damages():
    """Every file of a store, each damaged in every way."""
    names = [f"{name}/{spec.key(tile)}" for name, spec in ARRAYS.items() for tile in (0, TILES - 1)]
    names += ["values/zarr.json", "zarr.json", "offset/zarr.json", "offset/c.0", "scalar/c"]
    names = [f"arrays/{name}" for name in names] + ["tiles.json"]
    return [(name, damage) for name in names for damage in ("removed", "truncated", "flipped")]


def do_damage(path, damage):
    data = bytearray(path.read_bytes())
    if damage == "removed":
        path.unlink()
        return
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    path.write_bytes({"truncated": data[:-1], "emptied": b"", "flipped": data}[damage])


@pytest.mark.parametrize(("name", "damage"), damages())
def test_a_damaged_file_of_a_complete_store_is_found_and_replaced(tmp_path, made, whole, name, damage):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    do_damage(tmp_path / name, damage)
    with open_store(tmp_path) as store:
        assert store.complete == name.endswith("zarr.json")  # which is for others, and written again at once
        if "/c." in name and name.split("/")[1] in ARRAYS:
            assert store.pending() == [0 if name.endswith("c.0.0") else TILES - 1]
        elif name != "tiles.json":
            assert store.pending() == []
        fill(store)
    assert tree(tmp_path) == whole


@pytest.mark.parametrize("damage", ["removed", "truncated", "flipped"])
@pytest.mark.parametrize("name", UNFINISHED)
def test_a_damaged_file_of_an_unfinished_store_is_found_and_replaced(tmp_path, begun, whole, name, damage):
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    do_damage(tmp_path / name, damage)
    with open_store(tmp_path) as store:
        if "/c." in name:
            assert store.pending() == [1, *range(4, TILES)]
        fill(store)
    assert tree(tmp_path) == whole


@given(st.data())
@settings(max_examples=40)
def test_any_flipped_bit_in_any_tile_is_found(new_folder, made, data):
    folder = new_folder()
    shutil.copytree(made, folder, dirs_exist_ok=True)
    tile = data.draw(st.integers(0, TILES - 1))
    path = folder / "arrays/values" / ARRAYS["values"].key(tile)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match=str(path.relative_to(folder))):
        TileStore.open_for_reading(folder).read("values")
    with open_store(folder) as store:
        assert store.pending() == [tile]


def test_what_a_killed_writer_leaves_half_written_is_removed(tmp_path, whole):
    with open_store(tmp_path) as store:
        store.write(0, parts_of(0))
    (tmp_path / "arrays/values/.c.0.1.part").write_bytes(b"half")
    (tmp_path / ".tiles.json.part").write_bytes(b"half")
    (tmp_path / "arrays/values/c.0.1").write_bytes(b"not marked")
    with open_store(tmp_path) as store:
        assert store.pending() == list(range(1, TILES))
        assert not list(tmp_path.rglob(".*"))
        assert not (tmp_path / "arrays/values/c.0.1").exists()
        fill(store)
    assert tree(tmp_path) == whole


def test_a_store_stays_where_it_was_opened(tmp_path, whole, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("here") as store:
        store.write(0, parts_of(0))
        os.chdir("/")
        fill(store)
    assert tree(tmp_path / "here") == whole


def test_a_tile_may_be_written_again_before_the_end(tmp_path, whole):
    with open_store(tmp_path) as store:
        store.write(0, {name: part * 0 for name, part in parts_of(0).items()})
        store.write(0, parts_of(0))
    assert resumed(tmp_path) == whole


def test_tiles_may_come_from_several_threads(tmp_path, whole):
    with open_store(tmp_path) as store:
        threads = [threading.Thread(target=lambda t=t: store.write(t, parts_of(t))) for t in store.pending()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fill(store)
    assert tree(tmp_path) == whole


def test_the_identity_may_be_given_in_any_order_and_with_tuples(tmp_path, whole):
    with open_store(tmp_path, identity={"keep": np.float64(0.5), "model": {"at": ("fc1", "fc2"), "seed": 0}}) as store:
        store.write(0, parts_of(0))
    assert resumed(tmp_path) == whole


def test_another_identity_is_rejected_and_every_difference_named(tmp_path):
    make(tmp_path)
    before = tree(tmp_path)
    other = {"model": {"seed": 1, "at": ["fc1", "fc3"]}, "data": "abc"}
    with pytest.raises(StoreError) as caught:
        open_store(tmp_path, identity=other)
    message = str(caught.value)
    assert repr(str(tmp_path)) in message
    assert "\n  model.seed: stored 0, given 1\n" in message
    assert '\n  model.at[1]: stored "fc2", given "fc3"\n' in message
    assert "\n  keep: stored 0.5, given nothing\n" in message
    assert '\n  data: stored nothing, given "abc"\n' in message
    assert "Choose another folder" in message
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (ArraySpec((7, 5), "float32", (3, 3)), r"arrays.values.tile\[1\]: stored 2, given 3"),
        (ArraySpec((7, 5), "float64", (3, 2)), 'arrays.values.dtype: stored "float32", given "float64"'),
        (ArraySpec((8, 5), "float32", (3, 2)), r"arrays.values.shape\[0\]: stored 7, given 8"),
    ],
)
def test_another_geometry_is_rejected(tmp_path, spec, line):
    with open_store(tmp_path, {"values": ARRAYS["values"]}):
        pass
    with pytest.raises(StoreError, match=line):
        open_store(tmp_path, {"values": spec})


def test_a_folder_with_other_content_is_rejected_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"must be empty or a store of turnover.*'thesis.tex'"):
        open_store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_rejected(tmp_path):
    path = tmp_path / "out"
    path.write_text("")
    with pytest.raises(StoreError, match="must be a folder, but is a file"):
        open_store(path)
    with pytest.raises(StoreError, match=r"cannot write to .*Not a directory"):
        open_store(path / "below")


def test_another_format_is_rejected_by_its_number(tmp_path):
    manifest = make(tmp_path) / "turnover-store.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 7}))
    with pytest.raises(StoreError, match="has format 7; this version of turnover reads and writes format 1"):
        open_store(tmp_path)
    with pytest.raises(StoreError, match="has format 7"):
        TileStore.open_for_reading(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped"])
def test_a_damaged_manifest_is_rejected(tmp_path, damage):
    do_damage(make(tmp_path) / "turnover-store.json", damage)
    before = tree(tmp_path)
    with pytest.raises(StoreDamagedError, match=r"turnover-store.json in .* is damaged.*delete this one"):
        open_store(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts.pop("counts"), r"must have parts of \['counts', 'values'\], got \['values'\]"),
        (lambda parts: parts.update(more=parts["values"]), "got .*'more'"),
        (lambda parts: parts.update(values=parts["values"][:1]), r"must be float32 of shape \(3, 2\), got float32 of"),
        (lambda parts: parts.update(values=parts["values"].astype("float64")), "got float64"),
        (lambda parts: parts.update(values=parts["values"].astype(">f4")), "got >f4"),
    ],
)
def test_parts_that_do_not_fit_are_rejected_before_anything_is_written(tmp_path, change, message):
    parts = parts_of(0)
    change(parts)
    with open_store(tmp_path) as store:
        before = tree(tmp_path)
        with pytest.raises(StoreError, match=message):
            store.write(0, parts)
        with pytest.raises(StoreError, match="tile 9 does not exist"):
            store.write(TILES, parts_of(0))
        assert tree(tmp_path) == before
        assert len(store.pending()) == TILES


def test_parts_need_not_be_contiguous(tmp_path, whole):
    with open_store(tmp_path) as store:
        store.write(0, {name: np.asfortranarray(part) for name, part in parts_of(0).items()})
    assert resumed(tmp_path) == whole


def test_a_store_with_pending_tiles_cannot_be_finished(tmp_path):
    with open_store(tmp_path) as store:
        store.write(0, parts_of(0))
        with pytest.raises(StoreError, match="8 of 9 tiles are pending, the first is 1"):
            store.finish({})
        assert not store.complete


@pytest.mark.parametrize(
    ("attributes", "whole", "message"),
    [
        ({"x": float("inf")}, {}, "attributes.x cannot be written as JSON"),
        ({}, {"values": np.zeros(1)}, "'values' is written tile by tile"),
        ({}, {"a/b": np.zeros(1)}, "name of an array must be .*got 'a/b'"),
        ({}, {"names": np.array(["a"])}, "dtype must be one of .*got 'str32'"),
        ({}, {"a": np.zeros(1, ">f8")}, "must have native byte order, got >f8"),
    ],
)
def test_an_end_that_cannot_be_stored_is_rejected_and_can_be_tried_again(tmp_path, attributes, whole, message):
    with open_store(tmp_path, {"values": ArraySpec((1,), "float32", (1,))}) as store:
        store.write(0, {"values": np.ones(1, np.float32)})
        with pytest.raises(StoreError, match=message):
            store.finish(attributes, whole=whole)
        assert not store.complete
        store.finish({})
        assert store.complete


@pytest.mark.parametrize("name", ["", "a.b", "../a", "c d", "1a", "zarr.json"])
def test_names_that_are_no_names_are_rejected_before_anything_is_made(tmp_path, name):
    with pytest.raises(StoreError, match="name of an array must be letters, digits and _"):
        open_store(tmp_path / "new", {name: ARRAYS["values"]})
    assert not (tmp_path / "new").exists()


def test_a_closed_store_writes_no_more(tmp_path):
    with open_store(tmp_path) as store:
        pass
    with pytest.raises(StoreError, match="is closed"):
        store.write(0, parts_of(0))
    with pytest.raises(StoreError, match="is closed"):
        store.finish({})


def test_without_zarr_the_extra_is_named_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingExtraError, match=r"needs zarr: pip install 'turnover\[store\]'"):
        open_store(tmp_path / "new")
    with pytest.raises(MissingExtraError, match="pip install"):
        TileStore.open_for_reading(tmp_path)
    assert not (tmp_path / "new").exists()


def test_an_old_zarr_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr("zarr.__version__", "2.18.3")
    with pytest.raises(MissingExtraError, match=r"needs zarr 3, found 2\.18\.3"):
        open_store(tmp_path)
