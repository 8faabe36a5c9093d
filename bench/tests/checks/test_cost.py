"""What a method costs."""

from functools import partial

import numpy as np
import pytest
import torch

from turnover_bench.checks.cost import PeakResident, resident_bytes, stored_bytes

needs_proc = pytest.mark.skipif(resident_bytes() is None, reason="needs Linux's /proc")


def use_and_free(size):
    return float(np.ones(size // 8).sum())


@needs_proc
@pytest.mark.parametrize("make", [np.ones, lambda size: torch.ones(size, dtype=torch.float64)], ids=["numpy", "torch"])
def test_memory_that_is_freed_before_the_end_counts(make):
    with PeakResident() as peak:
        for _ in range(5):  # long enough to be seen
            make(10_000_000).sum()
    assert 70e6 < peak.bytes < 200e6


@needs_proc
def test_memory_of_an_earlier_block_does_not_count():
    with PeakResident():
        use_and_free(200_000_000)
    with PeakResident() as peak:
        pass
    assert peak.bytes < 20e6


def test_storage_is_what_a_method_says_or_what_it_holds_without_the_data():
    class Says:
        storage_bytes = 12

    class Holds:
        def __init__(self, data):
            self.model = torch.nn.Linear(3, 2, bias=False)
            self.again = [self.model.weight.detach(), {"view": self.model.weight[:1]}]
            self.loss = partial(lambda scale, value: scale * value, np.zeros(5))
            self.data = data
            self.itself = self

    data = torch.zeros(1000, 3)
    assert stored_bytes(Says()) == 12
    assert stored_bytes(Holds(data), without=[data]) == 24 + 40
    assert stored_bytes(Holds(data[10:]), without=[data]) == 24 + 40
