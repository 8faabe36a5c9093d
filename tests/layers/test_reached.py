"""A site that does not run is an error, and fused paths do not go around sites."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from tests.layers.models import IDS, Branch, run, wrapped_mlp
from turnover.errors import SiteNotReachedError


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("view", ["keep", "flip", ["keep", "flip", "full", "flip", "keep"]], ids=str)
def test_a_skipped_branch_raises_and_names_the_site(training, view):
    model = turnover.wrap(Branch(), at=["first", "second"]).train(training)
    x = torch.randn(5, 6)
    run(model, x, view=view)
    message = r"1 of 2 sites did not run in this forward pass: 'second'\. Likely causes.*turnover\.plan"
    with pytest.raises(SiteNotReachedError, match=message), turnover.instances(IDS, view=view):
        model(x, skip=True)


def test_the_error_comes_from_the_forward_pass_that_skipped():
    model = turnover.wrap(Branch(), at=["first", "second"]).eval()
    x = torch.randn(5, 6)
    with turnover.instances(IDS):
        model(x)
        with pytest.raises(SiteNotReachedError, match="'second'"):
            model(x, skip=True)


def test_the_full_view_needs_no_site():
    model = turnover.wrap(Branch(), at=["first", "second"]).eval()
    with turnover.instances(IDS, view="full"):
        model(torch.randn(5, 6), skip=True)
    with turnover.instances(IDS, view=["full"] * 5):
        pass


def test_calling_only_a_part_of_the_model_raises_at_the_end_of_the_context():
    model = wrapped_mlp().eval()
    with pytest.raises(SiteNotReachedError, match=r"1 of 2 sites.*'relu2'"), turnover.instances(IDS):
        model.relu1(model.fc1(torch.randn(5, 6)))


def test_calling_the_parts_one_after_the_other_is_fine():
    model = wrapped_mlp().train()
    x = torch.randn(5, 6)
    expected = run(model, x)
    with turnover.instances(IDS):
        for part in model:
            x = part(x)
    assert torch.equal(x, expected)


@pytest.mark.parametrize("call", [lambda x: None, nn.Linear(6, 2)], ids=["nothing", "a plain model"])
def test_a_context_in_which_no_masked_module_ran_raises(call):
    with pytest.raises(SiteNotReachedError, match=r"no masked module ran.*turnover\.wrap"):
        run(call, torch.randn(5, 6))


def test_an_error_inside_the_context_is_not_hidden_and_the_next_context_works():
    model = wrapped_mlp().train()
    with pytest.raises(ZeroDivisionError), turnover.instances(IDS):
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        run(model, torch.randn(5, 7))
    assert run(model, torch.randn(5, 6)).shape == (5, 3)


def encoder(**options) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=20, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2)


@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")
@pytest.mark.parametrize(
    "at", [["layers.*.linear1"], ["layers.*.self_attn"], None, ["layers.0.linear2", "layers.1"]], ids=str
)
@pytest.mark.parametrize("padded", [True, False])
def test_an_encoder_in_eval_mode_without_gradients_reaches_its_sites(at, padded):
    model = turnover.wrap(encoder(), at=at).eval()
    x = torch.randn(5, 4, 8)
    padding = torch.zeros(5, 4, dtype=torch.bool)
    padding[:, 3:] = True
    options = {"src_key_padding_mask": padding} if padded else {}
    for view in ("keep", "flip"):
        with torch.enable_grad(), turnover.instances(IDS, view=view):
            expected = model(x, **options)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode(), turnover.instances(IDS, view=view):
                torch.testing.assert_close(model(x, **options), expected)


class ReadsNumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop, self.call = nn.Linear(6, 8), nn.Dropout(0.2), False

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        if self.call:
            return self.drop(h)
        return functional.dropout(h, self.drop.p, self.training)


def test_a_module_that_reads_the_rate_of_a_replaced_dropout_raises():
    model = turnover.wrap(ReadsNumber())
    with pytest.raises(SiteNotReachedError, match="reads the p of the dropout 'drop' as a number"):
        run(model, torch.randn(5, 6))
    model.call = True
    run(model, torch.randn(5, 6))
