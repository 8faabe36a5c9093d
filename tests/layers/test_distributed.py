"""DistributedDataParallel with two real processes equals one process on the joint batch."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import turnover
from tests.layers.models import assert_same, both_kinds, gradients, run
from turnover.errors import ModelError
from turnover.layers import masking_of

WORLD = 2
ROWS = 4
IDS = [7, 2**61 + 5, 30, 31, 7, 9, 10, 11]


def make() -> nn.Module:
    torch.manual_seed(0)
    return both_kinds().train()


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(WORLD * ROWS, 6, generator=generator), torch.randn(WORLD * ROWS, 3, generator=generator)


def train_in_parallel(rank: int, folder: str) -> None:
    """Two steps of one process; writes gradients and state."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting, patience = f"file://{folder}/meeting", timedelta(minutes=2)
    torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=WORLD, timeout=patience)
    try:
        model = DistributedDataParallel(make())
        x, y = (values[rank * ROWS : (rank + 1) * ROWS] for values in batch())
        steps = []
        for view in ("keep", "flip"):
            loss = (run(model, x, IDS[rank * ROWS : (rank + 1) * ROWS], view=view) - y).square().mean()
            loss.backward()
            steps.append(gradients(model))
        state = model.state_dict()
        model.load_state_dict(state)
        try:
            other = turnover.wrap(turnover.unwrap(make()), at=["4"], seed=1)
            model.load_state_dict({f"module.{name}": value for name, value in other.state_dict().items()})
            rejected = False
        except ModelError:
            rejected = True
        result = {
            "steps": steps,
            "state": state,
            "rejected": rejected,
            "passes": masking_of(model.module).learned.passes,
        }
        torch.save(result, Path(folder) / f"{rank}.pt")
    finally:
        torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("ddp")
    # One more process is enough: this one is the first of the two.
    second = torch.multiprocessing.get_context("spawn").Process(target=train_in_parallel, args=(1, str(folder)))
    second.start()
    train_in_parallel(0, str(folder))
    second.join()
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


def test_gradients_of_two_processes_equal_those_of_one_on_the_joint_batch(results):
    model = make()
    x, y = batch()
    for step, view in enumerate(("keep", "flip")):
        loss = (run(model, x, IDS, view) - y).square().mean()
        loss.backward()
        expected = gradients(model)
        for result in results:
            assert_same(result["steps"][step], expected, rtol=1e-5, atol=1e-7)


def test_the_prefix_of_the_state_dict_changes_no_bit(results):
    state = results[0]["state"]
    assert all(name.startswith("module.") for name in state)
    model = make()
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    x, _ = batch()
    found = run(model, x, IDS, "flip")
    with turnover.instances(IDS, view="flip"):
        assert torch.equal(found, make()(x))


def test_what_was_learned_travels_and_another_recipe_is_rejected_under_the_prefix(results):
    assert [result["passes"] for result in results] == [1, 1]
    assert all(result["rejected"] for result in results)
