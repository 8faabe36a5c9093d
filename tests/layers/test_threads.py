"""Threads and asyncio tasks have active instances of their own."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import turnover
from tests.layers.models import IDS, run, wrapped_mlp
from turnover.errors import InstancesError

OTHERS = [11, 12, 13, 14, 15]


def test_two_threads_with_different_ids_do_not_see_each_other():
    model = wrapped_mlp().eval()
    x = torch.randn(5, 6)
    expected = []
    for ids in (IDS, OTHERS):
        expected.append(run(model, x, ids))
    inside = threading.Barrier(2)

    def in_thread(ids: list[int]) -> list[torch.Tensor]:
        outputs = []
        for _ in range(20):
            with turnover.instances(ids):
                inside.wait()
                outputs.append(model(x))
                inside.wait()
        return outputs

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(in_thread, (IDS, OTHERS)))
    for outputs, output in zip(found, expected, strict=True):
        assert all(torch.equal(one, output) for one in outputs)


def test_a_thread_without_a_context_sees_the_full_network():
    model = wrapped_mlp().eval()
    x = torch.randn(5, 6)
    plain = model(x)
    with ThreadPoolExecutor(1) as pool, turnover.instances(IDS):
        model(x)
        assert torch.equal(pool.submit(model, x).result(), plain)


def test_tasks_with_different_ids_do_not_see_each_other():
    model = wrapped_mlp().eval()
    x = torch.randn(5, 6)
    plain = model(x)
    expected = []
    for ids in (IDS, OTHERS):
        expected.append(run(model, x, ids))

    async def in_task(ids: list[int]) -> torch.Tensor:
        with turnover.instances(ids):
            await asyncio.sleep(0.01)
            output = model(x)
            await asyncio.sleep(0.01)
        return output

    async def without() -> torch.Tensor:
        await asyncio.sleep(0.005)
        return model(x)

    async def main() -> list[torch.Tensor]:
        return await asyncio.gather(in_task(IDS), in_task(OTHERS), without())

    found = asyncio.run(main())
    assert all(torch.equal(a, b) for a, b in zip(found, [*expected, plain], strict=True))


def test_a_nested_context_raises_and_leaves_the_outer_one_active():
    model = wrapped_mlp().eval()
    x = torch.randn(5, 6)
    with turnover.instances(IDS):
        expected = model(x)
        with (
            pytest.raises(InstancesError, match=r"inside another one.*one view per row"),
            turnover.instances(OTHERS),
        ):
            pass
        assert torch.equal(model(x), expected)
