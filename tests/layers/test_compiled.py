"""torch.compile: the same bits as eager, with changing ids, without recompiling."""

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

import turnover
from tests.layers.models import (
    IDS,
    Branch,
    Transposing,
    assert_same,
    both_kinds,
    dropout_mlp,
    gradients,
    run,
    wrapped_mlp,
)
from turnover.errors import (
    BatchSizeError,
    InstancesError,
    SiteNotReachedError,
)
from turnover.layers import masking_of
from turnover.layers.dropout import mask_words

# torch's own: the compiler looks at every tensor that enters a graph, also at those within a model.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

MODELS = [wrapped_mlp, dropout_mlp, both_kinds]
BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: nn.Module, backend: str = "aot_eager", **options) -> tuple[nn.Module, CompileCounterWithBackend]:
    counter = CompileCounterWithBackend(backend)
    return torch.compile(model, backend=counter, **options), counter


def outputs_and_gradients(model: nn.Module, x: Tensor, ids: Tensor, view="keep") -> list[Tensor]:
    output = run(model, x, ids, view=view)
    output.square().sum().backward()
    return [output.detach(), *gradients(model)]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_training_pass_equals_eager_in_one_graph_for_changing_ids_and_views(make, backend):
    model = make().train()
    fast, counter = compiled(model, backend, fullgraph=True)
    small = {"rtol": 1e-5, "atol": 1e-6}
    for batch in range(4):
        x, ids = torch.randn(5, 6), torch.randint(0, 2**62, (5,))
        view = ["keep", "flip", ["keep", "flip", "full", "flip", "keep"], "full"][batch]
        assert_same(outputs_and_gradients(fast, x, ids, view), outputs_and_gradients(model, x, ids, view), **small)
    assert counter.frame_count == 1


class Ones(nn.Module):
    """Hands out the activations of both sites; without masks they are all 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Identity(), nn.Identity()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.first(x), self.second(torch.ones_like(x))


@pytest.mark.parametrize("keep", [0.5, 0.3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_bits_are_the_eager_bits_at_both_sites(backend, keep):
    model = turnover.wrap(Ones(), at=["first", "second"], keep=keep).train()
    fast, counter = compiled(model, backend)
    x = torch.ones(7, 100)
    for _ in range(3):
        ids = torch.randint(0, 2**62, (7,))
        for view in ("keep", "flip"):
            assert_same(run(fast, x, ids, view), run(model, x, ids, view))
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_smaller_last_batch_works(backend):
    model = both_kinds().train()
    fast, counter = compiled(model, backend)
    for rows in (5, 5, 3, 4, 1, 5):
        x, ids = torch.randn(rows, 6), torch.randint(0, 2**62, (rows,))
        assert_same(outputs_and_gradients(fast, x, ids), outputs_and_gradients(model, x, ids), rtol=1e-5, atol=1e-6)
    assert counter.frame_count <= 3  # the first size, any size, one


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_evaluation_equals_eager_in_one_graph_for_changing_ids_and_views(backend):
    model = both_kinds().eval()
    fast, counter = compiled(model, backend, fullgraph=True)
    x = torch.randn(5, 6)
    for view in ("keep", "flip", "full", ["keep", "flip", "full", "flip", "keep"]):
        ids = torch.randint(0, 2**62, (5,))
        torch.testing.assert_close(run(fast, x, ids, view), run(model, x, ids, view), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(fast(x), turnover.unwrap(model)(x), rtol=1e-5, atol=1e-6)
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_one_is_expanded_in_a_compiled_model_without_recompiling(backend):
    model = both_kinds().eval()
    fast, counter = compiled(model, backend)
    x = torch.randn(1, 6)
    graphs = []
    for view in ("keep", "flip", "full", ["keep", "flip", "full", "flip", "keep"]):
        ids = torch.randint(0, 2**62, (5,))
        torch.testing.assert_close(run(fast, x, ids, view), run(model, x, ids, view), rtol=1e-5, atol=1e-6)
        graphs.append(counter.frame_count)
    assert graphs == graphs[:1] * 4
    assert torch.equal(fast(x), turnover.unwrap(model)(x))


def test_compiled_training_stays_one_graph_after_evaluation():
    model = both_kinds()
    runs: list[int] = []

    def backend(graph: torch.fx.GraphModule, example: list[Tensor]):
        def run(*args):
            runs.append(len(graph.graph.nodes))
            return graph(*args)

        return run

    fast = torch.compile(model, backend=backend)
    x = torch.randn(5, 6)
    trained = []
    for _ in range(3):
        runs.clear()
        with turnover.instances(IDS):
            fast.train()(x).sum().backward()
        trained.append(list(runs))
        fast.eval()
        run(fast, x[:1], view="flip")
        run(fast, x, view="flip")
        fast(x)
    assert len(trained[0]) == 1
    assert trained == trained[:1] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_model_without_ids_in_training_mode_raises_our_error(backend):
    model = wrapped_mlp().train()
    fast, _ = compiled(model, backend)
    x = torch.randn(5, 6)
    with pytest.raises(InstancesError, match="site 'relu1' ran in training mode without instance ids"):
        fast(x)
    run(fast, x)
    with pytest.raises(InstancesError, match="site 'relu1'"):
        fast(x)


@pytest.mark.parametrize("training", [True, False])
def test_a_compiled_model_checks_the_number_of_ids(training):
    fast, _ = compiled(wrapped_mlp().train(training), "eager")
    with pytest.raises(BatchSizeError, match="5 instance ids, but site 'relu1' got a batch of 4 rows"):
        run(fast, torch.randn(4, 6))
    run(fast, torch.randn(5, 6))


def test_a_compiled_model_that_skips_a_site_raises():
    fast, _ = compiled(turnover.wrap(Branch(), at=["first", "second"]).train(), "eager")
    x = torch.randn(5, 6)
    run(fast, x)
    with (
        pytest.raises(SiteNotReachedError, match="1 of 2 sites did not run in this forward pass: 'second'"),
        turnover.instances(IDS),
    ):
        fast(x, skip=True)


def test_a_context_inside_a_compiled_function_has_the_right_ids():
    model = both_kinds().train()
    counter = CompileCounterWithBackend("eager")

    @torch.compile(backend=counter)
    def step(x: Tensor, ids: Tensor) -> Tensor:
        with turnover.instances(ids):
            return model(x).square().sum()

    graphs = []
    for _ in range(3):
        x, ids = torch.randn(5, 6), torch.randint(0, 2**62, (5,))
        found = step(x, ids)
        torch.testing.assert_close(found, run(model, x, ids).square().sum())
        graphs.append(counter.frame_count)
    assert graphs == graphs[:1] * 3


class Checkpointed(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.first, self.second, self.options = nn.Linear(6, 40), nn.Linear(40, 3), options

    def forward(self, x: Tensor) -> Tensor:
        def part(h: Tensor) -> Tensor:
            return torch.relu(self.second(torch.relu(self.first(h))))

        return checkpoint(part, x, use_reentrant=False, **self.options)


@pytest.mark.skipif(
    torch.__version__.startswith("2.8."), reason="torch 2.8 compiles checkpoints with dispatch modes as contexts only"
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_checkpoints_equal_eager_ones_with_checkpoint_contexts(backend, recwarn):
    model = turnover.wrap(Checkpointed(context_fn=turnover.checkpoint_contexts), at=["first", "second"]).train()
    fast, counter = compiled(model, backend)
    for batch in range(3):
        x, ids = torch.randn(5, 6), torch.arange(5) + 10 * batch
        assert_same(outputs_and_gradients(fast, x, ids), outputs_and_gradients(model, x, ids), rtol=1e-5, atol=1e-6)
    assert counter.frame_count == 1


def test_compiled_checkpoints_without_checkpoint_contexts_raise():
    fast, _ = compiled(turnover.wrap(Checkpointed(), at=["first", "second"]).train())
    loss = run(fast, torch.randn(5, 6)).sum()
    with pytest.raises(InstancesError, match=r"context_fn=turnover\.checkpoint_contexts"):
        loss.backward()


def test_the_operator_keeps_what_it_promises_the_compiler():
    model = wrapped_mlp().train()
    handle = masking_of(model).handle
    with turnover.instances(IDS):
        for training in (True, False):
            torch.library.opcheck(mask_words, (torch.randn(5, 40), handle, 0, 0, 1, training))
        model(torch.randn(5, 6))


def test_cuda_graphs_never_replay_the_operator():
    assert torch.Tag.cudagraph_unsafe in torch.ops.turnover.mask_words.default.tags


@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")
@pytest.mark.parametrize("length", [3, 5])  # 5: as long as the batch
def test_a_compiled_model_takes_the_dimension_that_an_eager_pass_has_learned(length):
    model = turnover.wrap(Transposing(), at=["fc", "act"]).train()
    fast = torch.compile(model, backend="eager")
    x = torch.randn(5, length, 6)
    message = "cannot tell which dimension is the batch at site 'fc'.*call the model once in training mode before"
    with pytest.raises(BatchSizeError, match=message):
        run(fast, x)
    expected = run(model, x)
    torch.testing.assert_close(run(fast, x), expected)


def test_a_compiled_model_learns_where_the_shape_is_clear_and_raises_where_it_is_not():
    model = turnover.wrap(nn.Sequential(nn.Linear(6, 16), nn.Identity()), at=["0", "1"]).train()
    fast = torch.compile(model, backend="eager", dynamic=True)
    with pytest.raises(BatchSizeError, match="cannot tell which dimension"):
        run(fast, torch.randn(5, 5, 6))
    run(fast, torch.randn(5, 3, 6))
    assert masking_of(model).learned.batch_dims == [0, 0]
    run(fast, torch.randn(5, 5, 6))
