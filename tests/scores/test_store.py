"""Scores in folders: nothing is lost, only what is asked for is read, and what is not finished is not opened."""

import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.scores import made_up
from turnover.errors import StoreDamagedError, StoreError
from turnover.scores import OutOfSample, Scores, finish_store
from turnover.storage import ArraySpec, TileStore


def files_of(folder, name="values"):
    return sorted((Path(folder) / "arrays" / name).glob("c.*"))


@pytest.fixture
def tiled(tmp_path):
    values = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    values[5, 1] = np.nan
    ids = np.arange(10)[::-1] + 100
    arrays = {"values": ArraySpec(shape=(10, 4), dtype="float32", tile=(4, 3))}
    about = {"ids": ids, "queries": ["a", "b", "c", "d"], "unit": "margin", "offset": [1.0, 2.0, 3.0, 4.0]}
    about |= {"null": np.random.default_rng(1).normal(size=(8, 4)), "path": "generic", "provenance": {"seed": 0}}
    with TileStore.open_for_writing(tmp_path / "run", identity={"seed": 0}, arrays=arrays) as store:
        for tile in store.pending():
            store.write(tile, {"values": values[store.region("values", tile)]})
        finish_store(store, **about)
    return tmp_path / "run", Scores(values, **about)


@given(scores=made_up.scores(unique=False))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_folder_and_a_file_keep_everything(scores, tmp_path):
    if scores.queries is None:
        scores = scores.with_tokens([[float(row)] * (row % 3) for row in range(len(scores))])
    for name in ("folder", "file.npz"):
        scores.save(tmp_path / name)
        assert Scores.open(tmp_path / name).equals(scores)
        assert Scores.open(tmp_path / name).top(2).equals(scores.top(2))
    shutil.rmtree(tmp_path / "folder")


@pytest.mark.parametrize("labels", [None, [0, 1]])
@pytest.mark.parametrize("name", ["folder", "file.npz"])
def test_predictions_keep_everything(name, labels, tmp_path):
    predictions = np.random.default_rng(0).random((3, 2, 2))
    result = OutOfSample(predictions, ids=[7, 8], labels=labels, path="one pass", provenance={"seed": 0})
    result.save(tmp_path / name)
    assert OutOfSample.open(tmp_path / name).equals(result)
    with pytest.raises(StoreError, match=r"must hold scores, got 'out_of_sample'"):
        Scores.open(tmp_path / name)


def test_a_file_needs_numpy_alone_has_the_same_bytes_again_and_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    file = tmp_path / "new" / "scores.npz"
    Scores([1.0], ids=[7]).save(file)
    before = file.read_bytes()
    Scores([2.0], ids=[7]).save(file)
    assert Scores.open(file).values.tolist() == [2.0]
    Scores([1.0], ids=[7]).save(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK nothing"])
def test_a_damaged_file_is_named(damage, tmp_path):
    file = tmp_path / "scores.npz"
    Scores([1.0], ids=[7]).save(file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(StoreDamagedError, match=r"scores.npz.*damaged") as caught:
        Scores.open(file)
    assert str(caught.value) == f"{caught.value.problem}. {caught.value.cure}"


def test_tiles_of_any_shape_are_opened(tiled):
    folder, scores = tiled
    assert Scores.open(folder).equals(scores)


def test_a_part_is_read_without_the_rest(tiled):
    folder, scores = tiled
    opened = Scores.open(folder)
    # Rows 0 to 3, columns 0 to 2 are one tile; without all others only that can be read.
    for file in files_of(folder)[1:]:
        file.write_bytes(b"")
    part = opened.select(ids=[108, 109, 108], queries=["c", "a"])
    assert part.equals(scores.select(ids=[108, 109, 108], queries=["c", "a"]))
    assert part.folder is None
    assert opened.folder == str(folder)
    with pytest.raises(StoreDamagedError, match=r"'values' in .* cannot be read"):
        opened.select(ids=[100])


def test_lists_and_means_keep_nothing_in_memory(tiled):
    folder, scores = tiled
    opened = Scores.open(folder)
    assert opened.top(3).equals(scores.top(3))
    assert opened.top(3, query="b").equals(scores.top(3, query="b"))
    assert opened.mean().equals(scores.mean())
    assert "not read yet, in" in repr(opened)
    assert opened.folder == str(folder)
    assert np.array_equal(opened.rank(), scores.rank())
    assert opened.folder is None
    assert repr(opened) == repr(scores)
    assert opened.select(ids=[105]).equals(scores.select(ids=[105]))
    assert opened.top(3).equals(scores.top(3))


def test_opened_scores_go_to_other_processes_by_their_folder(tiled):
    folder, scores = tiled
    data = pickle.dumps(Scores.open(folder))
    assert pickle.loads(data).equals(scores)


def test_opened_scores_can_be_saved_elsewhere_without_being_read_as_a_whole(tiled, tmp_path):
    folder, scores = tiled
    opened = Scores.open(folder)
    opened.save(tmp_path / "copy")
    assert opened.folder == str(folder)
    assert Scores.open(tmp_path / "copy").equals(scores)


def test_the_same_scores_may_be_saved_again_and_others_not(tmp_path):
    scores = Scores([[1.0], [np.nan]], ids=[7, 8])
    scores.save(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    scores.save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    for other in ({"unit": "margin"}, {"offset": 1.0}, {"stderr": [[1.0], [1.0]]}, {"queries": ["a"]}):
        with pytest.raises(StoreError, match="holds results of something else"):
            Scores([[1.0], [np.nan]], ids=[7, 8], **other).save(tmp_path)
    with pytest.raises(StoreError):
        Scores([[1.0], [2.0]], ids=[7, 8]).save(tmp_path)


def test_saving_again_repairs_what_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover.scores._files._TILE", 2**10)
    scores = Scores(np.random.default_rng(0).normal(size=(60, 40)), ids=range(60))
    scores.save(tmp_path)
    assert len(files_of(tmp_path)) > 1
    files_of(tmp_path)[1].write_bytes(b"")
    with pytest.raises(StoreDamagedError, match="missing or damaged"):
        Scores.open(tmp_path)
    scores.save(tmp_path)
    assert Scores.open(tmp_path).equals(scores)


@pytest.mark.parametrize("use", [lambda s: s.values, lambda s: s.top(1), lambda s: s.select(ids=[7])])
def test_a_flipped_bit_is_found(use, tmp_path):
    Scores([[1.0], [2.0]], ids=[7, 8]).save(tmp_path)
    file = files_of(tmp_path)[0]
    content = bytearray(file.read_bytes())
    content[1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreDamagedError, match=r"values.*Run the call that made"):
        use(Scores.open(tmp_path))


def test_scores_that_are_not_finished_are_not_opened(tmp_path):
    arrays = {"values": ArraySpec(shape=(4, 2), dtype="float32", tile=(2, 2))}
    with TileStore.open_for_writing(tmp_path, identity={}, arrays=arrays) as store:
        store.write(0, {"values": np.zeros((2, 2), np.float32)})
    with pytest.raises(StoreError, match=r"not finished: 1 of 2 tiles are done.*again with out=.*it resumes there"):
        Scores.open(tmp_path)


def test_what_does_not_fit_the_tiles_is_refused_before_the_end(tmp_path):
    arrays = {"values": ArraySpec(shape=(1, 2), dtype="float32", tile=(1, 2))}
    with TileStore.open_for_writing(tmp_path, identity={}, arrays=arrays) as store:
        store.write(0, {"values": np.zeros((1, 2), np.float32)})
        with pytest.raises(ValueError, match="there are 2 ids and 1 rows"):
            finish_store(store, ids=[7, 8])
        finish_store(store, ids=[7])
    assert Scores.open(tmp_path).shape == (1, 2)


def test_folders_of_other_things_are_rejected(tmp_path):
    for name, message in (("nothing", "there is no store"), ("nothing.npz", "there is no file")):
        with pytest.raises(StoreError, match=message):
            Scores.open(tmp_path / name)
    for name, attributes, message in (
        ("other", {"kind": "predictions"}, "must hold scores, got 'predictions'"),
        ("unknown", {}, "must hold scores, got 'something else'"),
        ("new", {"kind": "scores", "format": 2}, "have format 2; this version of turnover reads format 1"),
        ("half", {"kind": "scores", "format": 1, "unit": "loss"}, "have no values, ids, queries, path"),
    ):
        with TileStore.open_for_writing(tmp_path / name, identity={}, arrays={}) as store:
            store.finish(attributes)
        with pytest.raises(StoreError, match=message):
            Scores.open(tmp_path / name)


@pytest.mark.parametrize("path", [3, None, b"scores", ["scores"], "", "a\0b", "a\0.npz", "\ud800"], ids=repr)
def test_what_is_no_path_is_rejected_with_what_to_type(path):
    predictions = OutOfSample([[0.5, 0.5]], ids=[1])
    for call in (Scores([1.0], ids=[7]).save, Scores.open, predictions.save, OutOfSample.open):
        with pytest.raises(StoreError, match="must be given by its path, got"):
            call(path)
