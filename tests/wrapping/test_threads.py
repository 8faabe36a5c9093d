"""wrap beside other threads: a trace replaces nn.Module.__call__ for the whole process while it runs."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.models import mlp


class Traced(nn.Module):
    """Calls a function at the beginning of its forward pass."""

    def __init__(self, begin: Callable[[], object]) -> None:
        super().__init__()
        self.begin, self.layers = begin, mlp()

    def forward(self, x):
        self.begin()
        return self.layers(x)


@pytest.fixture(autouse=True)
def own_module_class(monkeypatch):
    """What a trace leaves behind is gone after the test."""
    for name in ("__call__", "__getattr__"):
        monkeypatch.setattr(nn.Module, name, getattr(nn.Module, name))


def test_a_model_that_another_thread_calls_during_wrap_computes_as_ever():
    model, x = mlp().eval(), torch.randn(4, 6)
    expected, computed = model(x), []

    def call_elsewhere() -> None:
        with ThreadPoolExecutor(1) as threads:
            computed.append(threads.submit(model, x))

    turnover.wrap(Traced(call_elsewhere), at=["layers.1"])
    assert computed
    assert all(torch.equal(future.result(), expected) for future in computed)


def test_models_that_two_threads_wrap_at_the_same_time_leave_modules_as_they_were():
    before = nn.Module.__call__, nn.Module.__getattr__
    second_traces, first_ended = threading.Event(), threading.Event()

    def trace_second() -> None:
        second_traces.set()
        first_ended.wait(5)

    def trace_first() -> None:
        if not wrapped:
            wrapped.append(threads.submit(turnover.wrap, Traced(trace_second), at=["layers.1"]))
            second_traces.wait(0.3)

    wrapped = []
    with ThreadPoolExecutor(1) as threads:
        turnover.wrap(Traced(trace_first), at=["layers.1"])
        first_ended.set()
        wrapped[0].result()
    assert (nn.Module.__call__, nn.Module.__getattr__) == before
