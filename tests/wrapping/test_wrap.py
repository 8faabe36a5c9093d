"""wrap and unwrap: the right sites, a model that is otherwise the same."""

import copy

import pytest
import torch
from torch import nn

import turnover
from tests.plain_ids import plain_str
from tests.wrapping.models import mlp
from turnover.errors import MaskError, ModelError, PlanError, TurnOverWarning
from turnover.layers import masking_of


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(x + self.down(self.act(self.up(x))))


def sites_of(model: nn.Module) -> list[str]:
    return [site.path for site in masking_of(model).recipe.sites]


def test_wrap_returns_a_copy_and_leaves_the_model_alone():
    model = mlp()
    before = copy.deepcopy(model.state_dict())
    wrapped = turnover.wrap(model, at=["1"])
    assert wrapped is not model
    assert list(model.state_dict()) == list(before)
    assert not model[1]._forward_hooks
    model.train()(torch.zeros(2, 6))  # still trains without ids


def test_in_place_changes_the_model_itself():
    model = mlp()
    assert turnover.wrap(model, at=["1"], in_place=True) is model
    assert sites_of(model) == ["1"]


@pytest.mark.parametrize("at", [["1", "3"], ["3", "1"], "[13]", {"1": "features", "3": "features"}], ids=plain_str)
def test_paths_globs_and_mappings_name_the_same_sites_in_the_order_of_the_model(at):
    assert sites_of(turnover.wrap(mlp(), at=at)) == ["1", "3"]


def test_one_star_stays_within_a_part_and_two_cross_parts():
    model = nn.ModuleDict({"a": mlp(), "b": mlp()})
    model.forward = lambda x: x
    assert sites_of(turnover.wrap(model, at=["*.1"])) == ["a.1", "b.1"]
    assert sites_of(turnover.wrap(model, at=["**.3"])) == ["a.3", "b.3"]
    with pytest.raises(PlanError, match=r"at='3' matches no module. Near misses: 'a.3', 'b.3'"):
        turnover.wrap(model, at=["3"])


def test_without_at_every_dropout_is_replaced_and_keeps_its_place():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Conv1d(1, 2, 1), nn.Dropout2d(0.2))
    wrapped = turnover.wrap(model, keep=0.7)
    assert sites_of(wrapped) == ["1", "3"]
    assert isinstance(wrapped[1], turnover.TurnOverDropout)
    recipe = masking_of(wrapped).recipe
    assert [site.dim for site in recipe.sites] == ["features", "channels"]
    assert [site.keep for site in recipe.sites] == [0.7, 0.7]


def test_a_dropout_shared_by_two_parents_is_replaced_in_both():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            drop = nn.Dropout()
            self.a, self.b = nn.Sequential(nn.Linear(4, 8), drop), nn.Sequential(nn.Linear(8, 8), drop)

        def forward(self, x):
            return self.b(self.a(x))

    wrapped = turnover.wrap(Two())
    assert wrapped.a[1] is wrapped.b[1]
    assert sites_of(wrapped) == ["a.1"]
    assert sites_of(turnover.wrap(Two(), at=["b.1"])) == ["a.1"]
    with turnover.instances([1, 2]):
        wrapped(torch.randn(2, 4))


def test_a_layer_placed_by_hand_becomes_a_site_with_its_own_keep_rate():
    model = nn.Sequential(nn.Linear(4, 8), turnover.TurnOverDropout(keep=0.3), nn.ReLU(), turnover.TurnOverDropout())
    recipe = masking_of(turnover.wrap(model, at=["2"], keep=0.6)).recipe
    assert [(site.path, site.place, site.keep) for site in recipe.sites] == [
        ("1", "layer", 0.3),
        ("2", "output", 0.6),
        ("3", "layer", 0.6),
    ]


def test_attention_dropouts_that_are_read_as_numbers_are_left_alone():
    transformers = pytest.importorskip("transformers", reason="needs the extra text")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = transformers.BertForSequenceClassification(config)
    with pytest.warns(TurnOverWarning, match="added to something else"):
        wrapped = turnover.wrap(model)
    left = [path for path in dict(model.named_modules()) if path.endswith("attention.self.dropout")]
    assert left
    assert not set(left) & set(sites_of(wrapped))
    assert "never called as modules: " + ", ".join(left) in str(turnover.plan(model))
    batch = {"input_ids": torch.randint(50, (3, 7)), "attention_mask": torch.ones(3, 7, dtype=torch.int64)}
    with turnover.instances([4, 5, 6]):
        assert wrapped(**batch).logits.shape == (3, 2)


@pytest.mark.parametrize(
    ("model", "at"),
    [
        (mlp(), ["1", "3"]),
        (Residual(), ["act"]),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25)), None),
        (nn.Sequential(nn.Linear(4, 4), turnover.TurnOverDropout(0.3)), None),
    ],
    ids=["mlp", "residual", "replaced dropout", "layer by hand"],
)
def test_unwrap_gives_the_plain_model_back_and_it_can_be_wrapped_again(model, at):
    wrapped = turnover.wrap(model, at=at)
    plain = turnover.unwrap(wrapped)
    assert repr(plain) == repr(model)
    assert list(plain.state_dict()) == list(model.state_dict())
    assert set(plain.__dict__) == set(model.__dict__)
    for module, original in zip(plain.modules(), model.modules(), strict=True):
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks"):
            assert len(getattr(module, hooks)) == len(getattr(original, hooks))
    assert sites_of(turnover.wrap(plain, at=at)) == sites_of(wrapped)


def test_unwrap_switches_the_fused_encoder_path_back_on():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
    wrapped = turnover.wrap(encoder, at=["layers.0.dropout"])
    assert wrapped.use_nested_tensor is False
    assert turnover.unwrap(wrapped).use_nested_tensor is True


def test_unwrap_needs_the_wrapped_model_itself():
    with pytest.raises(ModelError, match="this Linear has no masks"):
        turnover.unwrap(nn.Linear(2, 2))
    outer = nn.Sequential(turnover.wrap(mlp(), at=["1"]))
    with pytest.raises(ModelError, match=r"only contains a wrapped model.*turnover.unwrap\(model.0\)"):
        turnover.unwrap(outer)


def test_wrapping_twice_is_an_error():
    wrapped = turnover.wrap(mlp(), at=["1"])
    with pytest.raises(ModelError, match="already has masks"):
        turnover.wrap(wrapped, at=["1"])
    with pytest.raises(ModelError, match="already has masks"):
        turnover.wrap(nn.Sequential(wrapped), at=["0"])


def test_all_problems_are_reported_together_and_nothing_is_changed():
    model = mlp()
    with pytest.raises(PlanError) as caught:
        turnover.wrap(model, at=["fc1", "1", "9.*"], keep=1.5, masks="nonsense", in_place=True)
    text = str(caught.value)
    assert "4 problems" in text
    for part in ("keep must be", "at='fc1' matches no module", "at='9.*' matches no module", "masks must be"):
        assert part in text
    assert len(caught.value.problems) == 4
    assert not model[1]._forward_hooks
    assert "turnover_recipe" not in model.state_dict()


@pytest.mark.parametrize(
    ("make", "at", "message"),
    [
        (mlp, None, "the model has no nn.Dropout that is called as a module and no TurnOverDropout"),
        (mlp, [], "`at` is empty"),
        (mlp, [3], "`at` must hold module paths, got 3"),
        (mlp, 3, "`at` must hold module paths, got 3"),
        (mlp, {"1": "rows"}, "give 'features' .last dimension. or 'channels'"),
        (lambda: nn.Sequential(nn.ModuleList([nn.ReLU()])), ["0"], "is a ModuleList, which is never called itself"),
    ],
    ids=plain_str,
)
def test_a_plan_that_cannot_work_says_why(make, at, message):
    with pytest.raises(PlanError, match=message):
        turnover.wrap(make(), at=at)


@pytest.mark.parametrize("keep", [0, 1, -0.5, 2, "half", True, float("nan")])
def test_a_keep_rate_outside_0_and_1_is_rejected(keep):
    with pytest.raises(PlanError, match="keep must be the share of units that stay"):
        turnover.wrap(mlp(), at=["1"], keep=keep)
    with pytest.raises(MaskError, match="keep must be the share of units that stay"):
        turnover.TurnOverDropout(keep=keep)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("not a model", "`model` must be a torch.nn.Module, got str"),
        (nn.DataParallel(mlp()), "DataParallel runs replicas in threads"),
        (torch.compile(mlp()), "the model is compiled. Wrap it first"),
    ],
    ids=plain_str,
)
def test_what_cannot_be_wrapped_says_what_to_do(model, message):
    with pytest.raises(PlanError, match=message):
        turnover.wrap(model, at=["1"])


@pytest.mark.parametrize("options", [{"at": ["1"]}, {"mode": "mixout"}], ids=str)
@pytest.mark.parametrize("how", ["in its place", "around it"])
def test_a_compiled_part_is_named_because_it_may_not_see_the_masks(options, how):
    model = mlp()
    if how == "in its place":
        model[2].compile()
    else:
        model[2] = torch.compile(model[2])
    with pytest.raises(PlanError, match=r"'2': compiled already\. Wrap the model first, then torch\.compile\(model\)"):
        turnover.wrap(model, in_place=True, **options)


def test_a_model_that_cannot_be_copied_can_be_wrapped_in_place():
    model = mlp()
    model.handle = open(__file__)  # noqa: SIM115 - something that deepcopy rejects
    with pytest.raises(PlanError, match="in_place=True"):
        turnover.wrap(model, at=["1"])
    turnover.wrap(model, at=["1"], in_place=True)
    model.handle.close()
