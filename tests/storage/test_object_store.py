"""Stores in an object store, by an S3 server on this machine: whole objects, one writer by a lease, the same bytes."""

import gc
import logging
import threading
import time
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import torch

pytest.importorskip("s3fs", reason="needs the extra s3")
pytest.importorskip("zarr", reason="needs the extra store")
pytest.importorskip("moto", reason="needs moto[server], of the extra test")

import s3fs
from moto.server import ThreadedMotoServer

import turnover
from tests.influence.models import mlp, trained
from tests.storage.sample import ATTRIBUTES, IDENTITY, SHORT, expected, fill, make, open_store, parts_of
from turnover.errors import MissingExtraError, StoreError, StoreLockedError
from turnover.storage import TileStore, open_folder
from turnover.storage.folders import Lease

pytestmark = pytest.mark.filterwarnings("ignore")  # of the server and of the client for S3


@pytest.fixture(scope="module")
def bucket():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("scores")
        yield "s3://scores"
        for client in list(s3fs.S3FileSystem._cache.values()):
            s3fs.S3FileSystem.close_session(client.loop, client._s3)
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()
    with warnings.catch_warnings():  # zarr does not close its client
        warnings.simplefilter("ignore")
        del client
        gc.collect()


@pytest.fixture
def short_lease(monkeypatch):
    monkeypatch.setattr(Lease, "seconds", 1.0)
    monkeypatch.setattr(Lease, "renewed_every", 0.2)
    monkeypatch.setattr(Lease, "looked_at_every", 0.1)
    monkeypatch.setattr(Lease, "settles_in", 0.1)


def objects(url: str) -> dict[str, bytes]:
    folder = open_folder(url)
    return {name: folder.read(name) or b"" for name in sorted(folder.sizes(""))}


def files(path) -> dict[str, bytes]:
    found = sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in found}


def test_a_store_of_objects_holds_the_bytes_of_a_folder(bucket, tmp_path):
    url = f"{bucket}/whole"
    make(url, SHORT)
    assert objects(url) == files(make(tmp_path / "local", SHORT))
    stored = TileStore.open_for_reading(url)
    assert stored.complete
    assert stored.attributes == ATTRIBUTES
    assert np.array_equal(stored.read("values"), expected("values", SHORT))
    assert float(stored.array("values")[2, 1]) == float(expected("values", SHORT)[2, 1])


def test_a_second_writer_is_named_the_first_and_a_dead_one_is_taken_over(bucket, tmp_path, short_lease):
    url = f"{bucket}/lease"
    first = open_store(url, SHORT)
    first.write(0, parts_of(0, SHORT))
    with pytest.raises(StoreLockedError, match=r"is being written by the process with pid \d+ on .* since"):
        open_store(url, SHORT)
    first._lock._ended.set()  # as if it had been killed: nobody renews the lease
    first._lock._renewing.join()
    with open_store(url, SHORT) as second:
        assert second.pending() == [1]
        fill(second)
    assert objects(url) == files(make(tmp_path / "local", SHORT))


def test_a_renewal_that_is_under_way_does_not_outlive_the_release(bucket, short_lease, monkeypatch):
    store = open_store(f"{bucket}/released", SHORT)
    renewing, write = threading.Event(), type(store.folder).write

    def slow(folder, name, data):
        if threading.current_thread() is store._lock._renewing:
            renewing.set()
            time.sleep(0.3)
        write(folder, name, data)

    monkeypatch.setattr(type(store.folder), "write", slow)
    assert renewing.wait(10)
    store.close()
    time.sleep(0.4)
    assert "writer.json" not in objects(f"{bucket}/released")


def test_a_writer_that_lost_its_lease_stops(bucket, short_lease):
    store = open_store(f"{bucket}/lost", SHORT)
    open_folder(f"{bucket}/lost").write("writer.json", b'{"token": "of another", "pid": 1, "host": "h", "since": "s"}')
    store._lock._renewing.join()
    with pytest.raises(StoreError, match="is closed, or was opened by another process"):
        store.write(0, parts_of(0, SHORT))


def test_of_two_that_create_an_object_one_succeeds(bucket):
    folder = open_folder(f"{bucket}/created")
    assert folder.create("name", b"first")
    assert not folder.create("name", b"second")
    assert folder.read("name") == b"first"


def test_a_damaged_object_is_computed_again(bucket):
    url = f"{bucket}/damaged"
    make(url, SHORT)
    open_folder(url).write("arrays/values/c.1.0", b"short")
    with pytest.raises(StoreError, match=r"missing or damaged: 'arrays/values/c.1.0'"):
        TileStore.open_for_reading(url)
    with open_store(url, SHORT) as store:
        assert len(store.pending()) == 1
        fill(store)
    assert np.array_equal(TileStore.open_for_reading(url).read("values"), expected("values", SHORT))


def test_objects_of_something_else_are_rejected(bucket):
    url = f"{bucket}/other"
    make(url, SHORT)
    with pytest.raises(StoreError, match="keep"):
        open_store(url, SHORT, identity={**IDENTITY, "keep": 0.75})
    open_folder(f"{bucket}/foreign").write("notes.txt", b"mine")
    with pytest.raises(StoreError, match=r"must be empty or a store of turnover, but holds 'notes.txt'"):
        open_store(f"{bucket}/foreign")


def test_scores_are_written_to_a_bucket_and_read_from_it(bucket, tmp_path):
    inf = turnover.Influence(trained(mlp(), at=["1", "3"]))
    queries = torch.randn(4, 6), torch.arange(4) % 3
    local = inf.pairwise(queries, ids=range(60), out=tmp_path / "scores")
    remote = inf.pairwise(queries, ids=range(60), out=f"{bucket}/pairs")
    assert np.array_equal(remote.values, local.values)
    assert objects(f"{bucket}/pairs") == files(tmp_path / "scores")
    opened = turnover.Scores.open(f"{bucket}/pairs")
    assert opened.top(3).equals(local.top(3))
    local.save(f"{bucket}/saved")
    assert np.array_equal(turnover.Scores.open(f"{bucket}/saved").values, local.values)


def test_a_bucket_that_is_not_there_is_named(bucket):
    with pytest.raises(StoreError, match=r"cannot write to 's3://no-such-bucket/x'"):
        open_store("s3://no-such-bucket/x")


@pytest.mark.skipif(find_spec("gcsfs") is not None, reason="gcsfs is installed")
def test_a_package_that_is_missing_is_named():
    with pytest.raises(MissingExtraError, match=r"'gs://bucket/x' needs .*pip install 'turnover\[gs\]'"):
        open_folder("gs://bucket/x")
