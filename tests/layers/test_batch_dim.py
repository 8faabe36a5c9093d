"""The batch dimension of each site is found, not guessed, also where a sequence is as long as the batch."""

import copy

import pytest
import torch
from torch import Tensor, nn

import turnover
from tests.layers.models import IDS, Transposing, run, seen_at, watched
from tests.reference import forward_twin
from turnover.errors import BatchSizeError
from turnover.layers import masking_of
from turnover.masks import Counter

pytestmark = pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")

N = len(IDS)
LENGTHS = [3, N]  # a sequence as long as the batch is the hard case


def assert_batch_in(seen: Tensor, dim: int, site: str, keep: float = 0.5) -> None:
    """Check that units are zero for all positions of an instance, along the right dimension."""
    for row, id in enumerate(IDS):
        bits = forward_twin.unit_bits(Counter(), site, seen.shape[-1], keep, id)
        dropped = ~torch.tensor(bits)
        part = seen.select(dim, row)
        assert torch.equal(part[..., dropped], torch.zeros_like(part[..., dropped]))
        assert (part[..., ~dropped] != 0).all()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("training", [True, False])
def test_a_module_that_transposes_inside_without_saying_so(length, training):
    model = turnover.wrap(Transposing(), at=["fc", "act"]).train(training)
    seen = seen_at(model, ["fc", "act"], torch.randn(N, length, 6))
    assert_batch_in(seen["fc"], 1, "fc")
    assert (seen["act"].abs().sum((0, 2)) > 0).any()
    assert masking_of(model).learned.batch_dims == ([1, 1] if training else [None, None])


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.rnn, self.fc = nn.LSTM(6, 8, num_layers=2, batch_first=batch_first), nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.rnn(x)[0])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_transformer_encoder(length, batch_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation=nn.Identity(), batch_first=batch_first)
    model = turnover.wrap(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), at=["layers.*.linear1"])
    x = torch.randn(N, length, 8)
    seen = seen_at(model.eval(), ["layers.0.linear1", "layers.1.linear1"], x if batch_first else x.transpose(0, 1))
    for path, activation in seen.items():
        assert_batch_in(activation, 0 if batch_first else 1, path)


def test_a_batch_of_one_is_expanded_below_batch_first_false():
    model = turnover.wrap(Recurrent(False), at=["rnn"]).eval()
    x = torch.randn(3, 1, 6)
    torch.testing.assert_close(run(model, x, view="flip"), run(model, x.expand(3, N, 6), view="flip"))


@pytest.mark.parametrize("view", ["keep", "full"])
def test_a_batch_of_one_is_expanded_in_the_learned_dimension(view):
    model = turnover.wrap(Transposing(), at=["fc", "act"])
    run(model.train(), torch.randn(N, 3, 6))
    model.eval()
    x = torch.randn(1, N, 6)
    torch.testing.assert_close(run(model, x, view=view), run(model, x.expand(N, N, 6), view=view))


@pytest.mark.parametrize("make", [Transposing, lambda: nn.Sequential(nn.Linear(6, 16), nn.Identity())])
def test_a_batch_of_one_with_as_many_positions_as_ids_is_expanded_also_in_an_untrained_model(make):
    at = ["fc", "act"] if make is Transposing else ["0", "1"]
    model = turnover.wrap(make(), at=at).eval()
    x = torch.randn(1, N, 6)
    torch.testing.assert_close(run(model, x), run(model, x.expand(N, N, 6)))


def test_one_id_and_one_row_work_in_either_dimension():
    model = turnover.wrap(Transposing(), at=["fc", "act"]).train()
    model.norm.eval()  # rejects a single value
    for length in (1, 4):
        seen = seen_at(model, ["fc"], torch.randn(1, length, 6), [IDS[0]])
        assert seen["fc"].shape == (length, 1, 16)
        bits = forward_twin.unit_bits(Counter(), "fc", 16, 0.5, IDS[0])
        assert torch.equal(seen["fc"][:, 0] != 0, torch.tensor(bits).expand(length, 16))
    assert masking_of(model).learned.batch_dims == [1, 1]


class Pooled(nn.Module):
    """Says batch_first=False and masks an activation without a time dimension."""

    batch_first = False

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.head = nn.Linear(6, 16), nn.Linear(16, 12)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.fc(x).mean(0))


@pytest.mark.parametrize("length", LENGTHS)
def test_in_two_dimensions_the_batch_is_the_first(length):
    model = turnover.wrap(Pooled(), at=["fc", "head"])
    seen = seen_at(model, ["fc", "head"], torch.randn(length, N, 6))
    assert_batch_in(seen["fc"], 1, "fc")
    assert_batch_in(seen["head"], 0, "head")


def test_the_learned_dimension_is_saved_and_loaded():
    model, other = (turnover.wrap(Transposing(), at=["fc", "act"]).train() for _ in range(2))
    run(model, torch.randn(N, 3, 6))
    other.load_state_dict(model.state_dict())
    assert masking_of(other).learned.batch_dims == [1, 1]
    runs = []
    other.act.register_forward_hook(lambda *_: runs.append(1))
    seen = seen_at(other, ["fc"], torch.randn(N, N, 6))
    assert_batch_in(seen["fc"], 1, "fc")
    assert len(runs) == 1  # no dry run is needed any more


class Windows(nn.Module):
    """Puts windows and batch into one dimension, so that no dimension is the batch."""

    def __init__(self, windows_first: bool) -> None:
        super().__init__()
        self.fc, self.windows_first = nn.Linear(6, 16), windows_first

    def forward(self, x: Tensor) -> Tensor:
        h = x.reshape(-1, x.shape[1] // 2, 6)
        return self.fc(h if self.windows_first else h.transpose(0, 1))


@pytest.mark.parametrize("windows_first", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_dimension_that_is_only_by_chance_as_long_as_the_batch_is_not_taken(windows_first, training):
    model = turnover.wrap(Windows(windows_first), at=["fc"]).train(training)
    x = torch.randn(N, 2 * N, 6)
    if windows_first:
        message = r"cannot tell which dimension is the batch at site 'fc'.*batch_first = True"
        with pytest.raises(BatchSizeError, match=message):
            run(model, x)
    else:
        # Here dimension 0 fits by chance and the rule says the same: the next batch of another size tells.
        with pytest.raises(BatchSizeError, match="batch of 4 rows"):
            run(model, torch.randn(N, 8, 6))


class RejectsOneRow(Transposing):
    def forward(self, x: Tensor) -> Tensor:
        if len(x) != N:
            raise ValueError("always five rows")
        return super().forward(x)


def test_where_the_dry_run_fails_a_clear_shape_is_enough_and_an_unclear_one_raises():
    model = turnover.wrap(RejectsOneRow(), at=["fc", "act"]).train()
    message = r"cannot tell which dimension is the batch at site 'fc': 5 instance ids, shape \[5, 5, 16\].*batch_first"
    with pytest.raises(BatchSizeError, match=message):
        run(model, torch.randn(N, N, 6))
    seen = seen_at(model, ["fc"], torch.randn(N, 3, 6))
    assert_batch_in(seen["fc"], 1, "fc")
    run(model, torch.randn(N, N, 6))


def test_a_dry_run_leaves_buffers_random_state_and_modes_as_they_were():
    probed = turnover.wrap(Transposing(rate=0.3), at=["fc"])
    probed.act.eval()
    known = copy.deepcopy(probed)
    masking_of(known).learn_batch_dim(0, 1)
    x = torch.randn(N, N, 6)
    runs, outputs = [], []
    for model in (probed, known):
        counts = []
        model.act.register_forward_hook(lambda *_, counts=counts: counts.append(torch.rand(1)))
        torch.manual_seed(3)
        outputs.append(run(model, x))
        outputs.append(torch.get_rng_state())
        runs.append(len(counts))
    assert runs == [2, 1]  # a dry run, and none
    assert torch.equal(outputs[0], outputs[2])  # ordinary dropout drew the same numbers
    assert torch.equal(outputs[1], outputs[3])
    assert [module.training for module in probed.modules()] == [module.training for module in known.modules()]
    assert not probed.act.training
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(getattr(probed.norm, name), getattr(known.norm, name))


class Inputs(nn.Module):
    """Takes its rows in a dictionary, a list and a keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 16)

    def forward(self, batch: dict[str, Tensor], pair: tuple[Tensor, ...], *, scale: Tensor) -> Tensor:
        return self.fc((batch["x"] + pair[0]).transpose(0, 1) * scale[None, :, None])


def test_a_dry_run_cuts_rows_out_of_nested_inputs():
    model = turnover.wrap(Inputs(), at=["fc"])
    x = torch.randn(N, N, 6)
    with watched(model, "fc") as seen, turnover.instances(IDS):
        model({"x": x, "name": "a"}, (x, None), scale=torch.ones(N))
    assert_batch_in(seen["fc"], 1, "fc")
