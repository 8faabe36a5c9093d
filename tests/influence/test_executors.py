"""Executors: the same bytes from worker processes as from this one; what cannot leave a process is named."""

import os
import pickle
import signal
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from tests.influence.models import mlp, trained
from turnover.errors import InfluenceError, TurnOverWarning
from turnover.influence import Bundles, Curvature, ProcessExecutor, Several, TurnOver, in_order, packed
from turnover.influence._rows import TrainRows

IDS = range(96)


@pytest.fixture(scope="module")
def workers():
    with ProcessExecutor(2) as executor:
        yield executor


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr("turnover.influence._answers._IDS_PER_STORED_TILE", 32)
    monkeypatch.setattr("turnover.influence._answers._IDS_PER_TILE", 32)


def margin(outputs, targets):
    return -functional.cross_entropy(outputs, targets, reduction="none")


def rows(count: int = 4, seed: int = 5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 6, generator=generator), torch.arange(count) % 3


def train_rows(count: int = 96):
    return (*rows(count, seed=7), torch.arange(count))


def last_layer() -> nn.Module:
    return trained(mlp(), at=["3"], replicas=2)


def two_sites() -> nn.Module:
    return trained(mlp(), at=["1", "3"])


CASES = {
    "last layer": (last_layer, {}),
    "two sites": (two_sites, {}),
    "a measure of one's own": (two_sites, {"measure": margin, "estimator": TurnOver(against="full")}),
    "curvature": (two_sites, {"train": True, "estimator": Curvature(temperature=2.0)}),
}


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("case", CASES)
def test_processes_give_the_bytes_of_one_process(case, workers, tmp_path):
    make, options = CASES[case]
    options = {**options, **({"train": train_rows()} if "train" in options else {})}
    model = make()
    alone, together = (turnover.Influence(model, executor=one, **options) for one in (None, workers))
    ids = {} if "train" in options else {"ids": IDS}
    for inf, name in ((alone, "alone"), (together, "together")):
        inf.pairwise(rows(), **ids, out=tmp_path / name)
    assert content(tmp_path / "together") == content(tmp_path / "alone")
    assert np.array_equal(together.mean(rows(), **ids).values, alone.mean(rows(), **ids).values)
    assert together.top(rows(), k=3, **ids).equals(alone.top(rows(), k=3, **ids))
    assert np.array_equal(together.pairwise(rows(), **ids).values, alone.pairwise(rows(), **ids).values)


def data_set():
    x, y, _ = train_rows()
    return turnover.with_instance_ids(TensorDataset(x, y))


FORMS = {
    "tensors": train_rows,
    "a data set": data_set,
    "a loader": lambda: DataLoader(data_set(), batch_size=10),
    "groups": lambda: (*rows(96, seed=7), torch.arange(96) % 20),
}


@pytest.mark.parametrize("form", ["tensors", "a data set", "a loader", "groups"])
def test_segments_that_are_read_apart_have_the_batches_of_one_pass(form):
    train = TrainRows(FORMS[form](), None)
    streamed = [list(train.batches_of(part, 16)) for part in train.segments(16, 32, streamed=True)]
    apart = [list(train.batches_of(part, 16)) for part in train.segments(16, 32, streamed=False)]
    assert len(streamed) == len(apart) > 2
    for one, other in zip(streamed, apart, strict=True):
        assert [batch.rows for batch in one] == [batch.rows for batch in other]
        assert all(torch.equal(a.args[0], b.args[0]) for a, b in zip(one, other, strict=True))
        assert all(torch.equal(a.ids, b.ids) for a, b in zip(one, other, strict=True))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("queries_per_block", [4, 2], ids=["one block", "two blocks"])
@pytest.mark.parametrize("form", ["tensors", "a loader", "groups"])
def test_passes_over_training_rows_give_the_bytes_of_one_process(
    form, queries_per_block, workers, tmp_path, monkeypatch
):
    monkeypatch.setattr("turnover.influence.curvature.estimator._MOST_QUERIES", queries_per_block)
    monkeypatch.setattr("turnover.influence.curvature.estimator._MOST_ROWS", 16)
    monkeypatch.setattr("turnover.influence.curvature.estimator._ROWS_PER_SEGMENT", 32)
    model, found = two_sites(), []
    for name, executor in (("alone", None), ("together", workers)):
        options = {"train": FORMS[form](), "estimator": Curvature(), "executor": executor}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TurnOverWarning)  # the model was not trained
            inf = turnover.Influence(model, **options)
            inf.pairwise(rows(), out=tmp_path / name)
        inf.keep_fit(tmp_path / f"fit {name}")
        found.append({**content(tmp_path / name), **content(tmp_path / f"fit {name}")})
    assert found[0] == found[1]


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@dataclass(frozen=True)
class KillsItsWorkerOnce:
    marker: Path

    def __call__(self, item: int) -> int:
        if item == 5 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item


@dataclass(frozen=True)
class KillsItsWorker:
    def __call__(self, item: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return item


@pytest.mark.slow  # workers start anew
def test_a_killed_worker_costs_its_running_items_only(tmp_path):
    with ProcessExecutor(2) as executor:
        assert list(executor.map(KillsItsWorkerOnce(tmp_path / "killed"), range(12))) == [n * n for n in range(12)]
    assert (tmp_path / "killed").exists()


@pytest.mark.slow  # they do so four times
def test_workers_that_always_end_are_an_error():
    with ProcessExecutor(1) as executor, pytest.raises(InfluenceError, match="workers end before their task does"):
        list(executor.map(KillsItsWorker(), [1]))


class LostError(Exception):
    """What a future raises whose worker has ended."""


def finished(item: int, *, losses: dict[int, int]) -> Future:
    future: Future = Future()
    if losses.get(item, 0) > 0:
        losses[item] -= 1
        future.set_exception(LostError(f"worker of {item}"))
    else:
        future.set_result(item)
    return future


def test_items_of_a_lost_worker_are_submitted_again_in_their_order():
    losses, restarts = {2: 1, 3: 2, 7: 3}, []
    found = in_order(
        range(9), partial(finished, losses=losses), window=3, lost=LostError, restart=lambda: restarts.append(1)
    )
    assert list(found) == list(range(9))
    assert 3 <= len(restarts) <= 6
    with pytest.raises(InfluenceError, match=r"workers end before their task does, 4 times in a row"):
        list(in_order([1], partial(finished, losses={1: 9}), window=1, lost=LostError, restart=lambda: None))


def test_no_more_items_are_taken_than_fit_into_the_window():
    taken = []
    found = in_order((taken.append(n) or n for n in range(100)), partial(finished, losses={}), window=4)
    assert next(found) == 0
    assert len(taken) <= 5


def test_questions_about_rows_and_about_queries_share_workers(workers):
    x, y, ids = train_rows()
    model = trained(mlp(), at=["3"], replicas=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TurnOverWarning)  # the model was not trained
        for estimator in ("tod", Curvature(temperature=1.0)):
            alone, together = (
                turnover.Influence(model, train=(x, y, ids), estimator=estimator, executor=one)
                for one in (None, workers)
            )
            assert np.array_equal(together.self_influence().values, alone.self_influence().values)
            assert np.array_equal(together.mean(rows()).values, alone.mean(rows()).values)


def test_what_cannot_leave_the_process_is_named(workers):
    inf = turnover.Influence(two_sites(), measure=lambda outputs, targets: outputs[:, 0], executor=workers)
    with pytest.raises(InfluenceError, match=r"cannot be sent to another process: .*lambda"):
        inf.pairwise(rows(), ids=IDS)


@pytest.mark.parametrize(
    ("ids", "most"),
    [
        (torch.arange(8192), 500),
        (torch.arange(2**62, 2**62 + 8192), 500),
        (torch.arange(10**5)[4096:8192], 500),
        (torch.arange(8192).flip(0), 9 * 8192),
        (torch.arange(0, 8192, 3), 3 * 8192),
        (torch.tensor([2**63 - 2, 2**63 - 1]), 1000),
        (torch.tensor([7]), 500),
        (torch.empty(0, dtype=torch.int64), 1000),
        (torch.arange(8192, dtype=torch.int32), 5 * 8192),
    ],
    ids=["from 0", "null ids", "a part", "backwards", "every third", "the last ids", "one", "none", "of another type"],
)
def test_ids_in_a_row_travel_as_their_range_and_others_as_they_are(ids, most):
    data = packed([ids])
    (back,) = pickle.loads(data)
    assert (back.dtype, back.tolist()) == (ids.dtype, ids.tolist())
    assert len(data) < most


def test_an_error_in_a_worker_arrives_as_it_is(workers):
    with pytest.raises(ZeroDivisionError):
        list(workers.map(reciprocal, [1, 0, 2]))


def reciprocal(item: int) -> float:
    return 1 / item


@pytest.mark.usefixtures("small_tiles")
def test_instances_in_several_tiles_get_the_scores_that_they_get_alone():
    inf = turnover.Influence(two_sites(), train=train_rows(), estimator=Curvature(temperature=2.0))
    ids = torch.cat([torch.arange(95, -1, -1), torch.arange(0, 96, 3)])
    scattered, whole = inf.pairwise(rows(), ids=ids), inf.pairwise(rows())
    assert np.array_equal(scattered.values, whole.values[ids.numpy()])


def test_bundles_hold_every_item_once_in_order_and_as_many_as_take_half_a_second():
    bundles, sizes = Bundles(range(100), workers=2), []

    def finished():
        for bundle in bundles:
            sizes.append(len(bundle))
            yield Several(lambda item: item * item)(bundle)[0], 0.1 * len(bundle)

    assert list(bundles.results(finished())) == [item * item for item in range(100)]
    assert sizes[:3] == [1, 5, 5]
    assert sizes[-1] == 1


def test_bundles_of_a_stream_are_read_only_as_they_are_asked_for():
    bundles = iter(Bundles(iter(range(10**9)), workers=2))
    assert [next(bundles) for _ in range(3)] == [[0], [1], [2]]
