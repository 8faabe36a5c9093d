"""Arrays that a later run may take: only whole, only under the same identity."""

import numpy as np
import pytest

from turnover.errors import StoreError
from turnover.storage import KeptArrays

ARRAYS = {"0/layer.1/left": np.arange(6.0).reshape(2, 3), "rows": np.array([1, 2])}


def test_arrays_come_back_under_their_identity_alone(tmp_path):
    KeptArrays(tmp_path, "kept.npz", {"weights": "a", "memory": 1}).write(ARRAYS)
    found = KeptArrays(tmp_path, "kept.npz", {"memory": 1, "weights": "a"}).read()
    assert found is not None
    assert found.keys() == ARRAYS.keys()
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    assert KeptArrays(tmp_path, "kept.npz", {"weights": "b", "memory": 1}).read() is None


@pytest.mark.parametrize("damage", ["missing", "empty", "half", "flipped", "text", "pickle"])
def test_what_is_damaged_is_not_there(tmp_path, damage):
    file = tmp_path / "kept.npz"
    kept = KeptArrays(tmp_path, "kept.npz", {"seed": 0})
    kept.write(ARRAYS)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "pickle":
        np.savez(file, identity=np.array('{"seed": 0}'), rows=np.array([object()], dtype=object))
    else:
        place = content.index(b"\x93NUMPY") + 200
        changed = content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]
        file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "flipped": changed, "text": b"?"}[damage])
    assert kept.read() is None


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "in the way").write_text("")
    with pytest.raises(StoreError, match="cannot write to"):
        KeptArrays(tmp_path / "in the way", "kept.npz", {"seed": 0}).write(ARRAYS)
    assert [file.name for file in tmp_path.iterdir()] == ["in the way"]
