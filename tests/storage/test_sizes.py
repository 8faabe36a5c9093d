"""Sizes that a file declares are compared with what it holds, and with free memory, before anything is unpacked."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest

from turnover.errors import StoreDamagedError, TooLargeError
from turnover.storage import (
    ArraySpec,
    KeptArrays,
    TileStore,
    check_stored,
    open_arrays,
    read_array,
    to_record,
)

HUGE = (10**6, 10**6, 100)


def _npy(shape, *, content=b""):
    """Return an npy file whose header declares a shape, whatever follows it."""
    held = io.BytesIO()
    np.lib.format.write_array_header_1_0(held, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return held.getvalue() + content


def test_an_array_that_declares_more_than_it_has_is_damaged(tmp_path):
    (tmp_path / "a.npy").write_bytes(_npy(HUGE, content=bytes(80)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("a.npy", _npy(HUGE, content=bytes(80)))
    with pytest.raises(ValueError, match=r"a\.npy is damaged"):
        read_array(tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"a\.npz is damaged"), open_arrays(tmp_path / "a.npz") as arrays:
        _ = arrays["a"]
    assert KeptArrays(tmp_path, "a.npz", {}).read() is None


@pytest.mark.parametrize("header", [b"\0" * 118, b"(" * 118, b"{'descr': '<f8'".ljust(118)])
def test_a_header_of_something_else_is_a_value_error(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("a.npy", np.lib.format.MAGIC_PREFIX + b"\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(ValueError), open_arrays(tmp_path / "a.npz") as arrays:  # noqa: PT011 - any of NumPy's own
        _ = arrays["a"]


def test_what_unpacks_to_more_than_the_free_memory_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**6))
    assert (tmp_path / "a.npz").stat().st_size < 20_000
    with open_arrays(tmp_path / "a.npz") as arrays:
        assert arrays["a"].shape == (10**6,)
    monkeypatch.setattr("turnover.storage.files.free_memory", lambda: 10**6)
    with pytest.raises(TooLargeError, match=r"unpacks to 8\.0 MB, and 1\.0 MB"), open_arrays(tmp_path / "a.npz"):
        pass


def test_weights_that_are_compressed_or_listed_twice_are_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "stored.pt", "w") as packed:
        packed.writestr("data/0", bytes(10**6))
    with zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("data/0", bytes(10**6))
    check_stored(tmp_path / "stored.pt")
    with pytest.raises(ValueError, match=r"would unpack to 1\.0 MB"):
        check_stored(tmp_path / "packed.pt")


def _finished(folder):
    spec = ArraySpec((6, 3), "float32", (2, 3))
    with TileStore.open_for_writing(folder, identity={}, arrays={"values": spec}) as store:
        for tile in store.pending():
            store.write(tile, {"values": np.ones((2, 3), np.float32)})
        store.finish({}, whole={"offset": np.zeros(3)})
    return folder


def _rewritten(file, change):
    """Change a manifest as somebody would who can also write its checksum."""
    content = json.loads(file.read_bytes())
    del content["checksum"]
    change(content)
    file.write_bytes(to_record(content))


MANIFESTS = {
    "a shape of texts": ("turnover-store.json", lambda m: m["arrays"]["values"].update(shape=["a", "b"])),
    "a shape of lists": ("turnover-store.json", lambda m: m["arrays"]["values"].update(shape=[[6], 3])),
    "no shape": ("turnover-store.json", lambda m: m["arrays"]["values"].pop("shape")),
    "too many dimensions": (
        "turnover-store.json",
        lambda m: m["arrays"]["values"].update(shape=[1] * 99, tile=[1] * 99),
    ),
    "a dtype of Python": ("turnover-store.json", lambda m: m["arrays"]["values"].update(dtype="object")),
    "a number as dtype": ("turnover-store.json", lambda m: m["arrays"]["values"].update(dtype=3)),
    "a tile of nothing": ("turnover-store.json", lambda m: m["arrays"]["values"].update(tile=[0, 0])),
    "more tiles than are there": ("turnover-store.json", lambda m: m["arrays"]["values"].update(shape=[10**15, 3])),
    "larger tiles than are there": ("turnover-store.json", lambda m: m["arrays"]["values"].update(tile=[2, 10**12])),
    "arrays as a list": ("turnover-store.json", lambda m: m.update(arrays=[1])),
    "a name with a path": ("tiles.json", lambda m: m["whole"].update({"../x": m["whole"]["offset"]})),
    "a whole array of another size": ("tiles.json", lambda m: m["whole"]["offset"].update(shape=[10**12])),
    "no tiles": ("tiles.json", lambda m: m.update(tiles={})),
    "tiles of numbers": ("tiles.json", lambda m: m.update(tiles={"0": 3})),
    "attributes as a number": ("tiles.json", lambda m: m.update(attributes=3)),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_store_whose_manifest_declares_something_else_is_rejected_before_memory_is_taken(tmp_path, name):
    file, change = MANIFESTS[name]
    folder = _finished(tmp_path / "store")
    _rewritten(folder / file, change)
    with pytest.raises(StoreDamagedError):
        TileStore.open_for_reading(folder)


def test_an_array_that_does_not_fit_into_memory_is_not_read_whole_but_in_parts(tmp_path, monkeypatch):
    stored = TileStore.open_for_reading(_finished(tmp_path / "store"))
    monkeypatch.setattr("turnover.storage.files.free_memory", lambda: 50)
    with pytest.raises(TooLargeError, match="Read parts of it"):
        stored.read("values")
    assert float(stored.array("values")[0, 0]) == 1
