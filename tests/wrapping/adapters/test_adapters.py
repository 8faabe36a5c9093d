"""Adapters in transformers of every family: near the identity at first, frozen base, masked, clean, scored."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import turnover
from tests.reference.influence_twin import twin_scores
from tests.wrapping.adapter_models import (
    BLOCKS,
    FAMILIES,
    WIDTH,
    TorchClassifier,
    batch_of,
    inputs_of,
    logits,
    make,
    moved,
)
from tests.wrapping.models import ADAM, run, train
from turnover.influence import TurnOver
from turnover.layers import masking_of
from turnover.wrapping import Adapters
from turnover.wrapping.adapters import Adapter, adapters_in

ENDS = {
    "bert": ("bert.encoder.layer.{}.attention.output.dense", "bert.encoder.layer.{}.output.dense"),
    "roberta": ("roberta.encoder.layer.{}.attention.output.dense", "roberta.encoder.layer.{}.output.dense"),
    "distilbert": ("distilbert.transformer.layer.{}.attention.out_lin", "distilbert.transformer.layer.{}.ffn.lin2"),
    "mpnet": ("mpnet.encoder.layer.{}.attention.attn.o", "mpnet.encoder.layer.{}.output.dense"),
    "vit": ("vit.layers.{}.attention.o_proj", "vit.layers.{}.mlp.fc2"),
    "torch": ("encoder.layers.{}.self_attn", "encoder.layers.{}.linear2"),
    "torch_seq_first": ("encoder.layers.{}.self_attn", "encoder.layers.{}.linear2"),
}
HEADS = {
    "bert": (["classifier"], "classifier"),
    "roberta": (["classifier"], "classifier.out_proj"),
    "distilbert": (["pre_classifier", "classifier"], "classifier"),
    "mpnet": (["classifier"], "classifier.out_proj"),
    "vit": (["classifier"], "classifier"),
    "torch": (["out"], "out"),
    "torch_seq_first": (["out"], "out"),
}


def sites(model):
    return [site.path for site in masking_of(model).recipe.sites]


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_follow_attention_and_feed_forward_of_every_block(family):
    model = turnover.wrap(make(family), adapters=8)
    ends = ENDS[family]
    if family == "vit" and hasattr(model.vit, "encoder"):  # before transformers renamed its parts
        ends = "vit.encoder.layer.{}.attention.output.dense", "vit.encoder.layer.{}.output.dense"
    expected = [end.format(number) for number in range(BLOCKS) for end in ends]
    assert set(adapters_in(model)) == {f"{path}.adapter" for path in expected}
    _, output = HEADS[family]
    assert set(sites(model)) == {*(f"{path}.adapter.activation" for path in expected), f"{output}.masked_input"}
    assert {module.down.out_features for module in model.modules() if isinstance(module, Adapter)} == {8}


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_at_the_start_are_nearly_those_of_the_base(family):
    base, inputs = make(family), inputs_of(family)
    model = turnover.wrap(base, adapters=8)
    expected, found = logits(base, inputs), logits(model, inputs)
    assert not torch.equal(found, expected)  # the adapters are there
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_only_adapters_and_output_layers_learn_and_the_given_model_is_not_touched(family):
    base = make(family)
    before = copy.deepcopy(base.state_dict())
    model = turnover.wrap(base, adapters=8)
    assert all(parameter.requires_grad for parameter in base.parameters())
    assert base.state_dict().keys() == before.keys()
    heads, output = HEADS[family]
    learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    own = {name for name in dict(model.named_parameters()) if ".adapter." in name or name.split(".")[0] in heads}
    assert learns == own - {f"{output}.bias"}
    train(model.train(), [batch_of(family)])
    for name, value in before.items():
        assert torch.equal(value, base.state_dict()[name])
        if name not in own:
            assert torch.equal(value, model.state_dict()[name]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_site_runs_and_changes_the_outputs_in_every_view(family):
    model, inputs = moved(turnover.wrap(make(family), adapters=8)), inputs_of(family)
    plan = turnover.plan(make(family), adapters=8, example=inputs)
    assert not plan.problems
    assert all(site.runs for site in plan.sites)
    full = logits(model, inputs)
    for view in ("keep", "flip"):
        with turnover.instances(range(5), view=view):
            assert not torch.isclose(logits(model, inputs), full).all(1).any()
    model.train()
    with turnover.instances(range(5)):
        assert logits(model, inputs).shape == full.shape


@pytest.mark.parametrize("family", FAMILIES)
def test_the_audit_finds_nothing_and_a_step_on_z_leaves_its_flip_outputs_bit_identical(family):
    model = moved(turnover.wrap(make(family), adapters=8))
    report = turnover.audit(model, batch_of(family))
    assert report.clean, str(report)
    assert report.parameters == sum(p.numel() for p in model.parameters() if p.requires_grad)

    def flipped(instance):
        return run(model.eval(), inputs_of(family), [instance] * 5, "flip")

    own, other = flipped(100), flipped(101)
    train(model.train(), [batch_of(family, 1)], ADAM)
    assert torch.equal(flipped(100), own)
    assert not torch.equal(flipped(101), other)


@pytest.mark.parametrize(
    ("options", "causes"),
    [
        ({"head_bias": True}, {"bias without a mask"}),
        ({"bias": True}, {"bias without a mask"}),
        ({"norms": True}, {"normalization"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["bert", "torch"])
def test_what_the_options_let_learn_without_a_mask_leaks_as_plan_and_audit_say(family, options, causes):
    asked = Adapters(size=8, **options)
    model = moved(turnover.wrap(make(family), adapters=asked))
    report, plan = turnover.audit(model, batch_of(family)), turnover.plan(make(family), adapters=asked)
    assert set(report.by_cause) == causes
    assert {leak.cause for leak in plan.leaks} == causes
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {leak.name for leak in report.leaks} <= {leak.name for leak in plan.leaks} <= learning
    (setting,) = [f"{name}=False" for name in options]
    assert f"nothing would leak with adapters=Adapters(size=8, {setting})" in str(plan)
    assert turnover.plan(make(family), adapters=8).leaks == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_influence_equals_the_plain_computation_pair_by_pair(family):
    model = train(moved(turnover.wrap(make(family), adapters=8)).train(), [batch_of(family)], ADAM).eval()
    queries, labels, ids = inputs_of(family, 2), torch.tensor([0, 2]), [100, 102, 7]
    scores = turnover.Influence(model, estimator=TurnOver(center=False)).pairwise(
        {**queries, "labels": labels}, ids=ids
    )
    rows = [((), {name: value[row : row + 1] for name, value in queries.items()}, labels[row]) for row in range(2)]
    expected = twin_scores(model, rows, ids, lambda outputs, label: -functional.cross_entropy(outputs[0], label))
    torch.testing.assert_close(torch.tensor(scores.values).double(), expected, atol=1e-5, rtol=1e-3)
    assert expected.abs().max() > 1e-2


def test_a_padding_mask_of_a_torch_encoder_works_in_every_mode():
    base = TorchClassifier()
    tokens, padding = inputs_of("torch")["tokens"], torch.zeros(5, 6, dtype=torch.bool)
    padding[1, 3:] = True
    model = moved(turnover.wrap(base, adapters=8)).eval()
    with turnover.instances(range(5)):
        eval_keep = model(tokens, padding)
    with torch.no_grad(), turnover.instances(range(5)):
        torch.testing.assert_close(model(tokens, padding), eval_keep)
    bare = turnover.unwrap(model)
    with torch.no_grad():
        torch.testing.assert_close(bare(tokens, padding), model(tokens, padding))
    assert not torch.isclose(bare(tokens, padding), base.eval()(tokens, padding)).all()


def test_unwrap_keeps_the_adapters_and_they_can_be_masked_again():
    model = moved(turnover.wrap(make("bert"), adapters=8))
    inputs, bare = inputs_of("bert"), turnover.unwrap(model)
    assert torch.equal(logits(bare, inputs), logits(model, inputs))
    again = turnover.wrap(bare, at=["**.adapter.activation", "**.masked_input"])
    assert sites(again) == sites(model)
    assert torch.equal(run(again, inputs, range(5)), run(model, inputs, range(5)))


@pytest.mark.parametrize(
    ("layers", "blocks"), [(None, [0, 1]), (1, [1]), (2, [0, 1]), ([0], [0]), ([-1], [1]), (range(2), [0, 1])], ids=str
)
def test_layers_are_the_top_ones_or_those_that_are_named(layers, blocks):
    model = turnover.wrap(make("bert"), adapters=Adapters(size=8, layers=layers))
    assert sorted({int(path.split(".")[3]) for path in adapters_in(model)}) == blocks
    assert turnover.audit(moved(model), batch_of("bert")).clean


def test_sites_named_beside_adapters_are_added_to_theirs():
    own = sites(turnover.wrap(make("bert"), adapters=8))
    for at in (["bert.pooler.activation"], "bert.pooler.activation", {"bert.pooler.activation": "features"}):
        model = turnover.wrap(make("bert"), adapters=8, at=at)
        assert set(sites(model)) == {*own, "bert.pooler.activation"}
    with turnover.instances(range(5)):
        logits(model, inputs_of("bert"))


def test_adapters_can_be_placed_and_the_output_layer_named_by_hand():
    base = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    model = turnover.wrap(base, adapters=Adapters(size=4, after=["2"], head="4", activation="relu"))
    assert sites(model) == ["2.adapter.activation", "4.masked_input"]
    batch = torch.randn(5, 6), torch.arange(5) % 3, torch.arange(5)
    assert turnover.audit(moved(model), batch).clean
    found = turnover.wrap(base, adapters=Adapters(size=4, after=["2"]))  # the head is what comes behind
    assert sites(found) == sites(model)


def test_output_layers_side_by_side_have_all_their_inputs_masked():
    class TwoHeads(TorchClassifier):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(WIDTH, 2)
            self.other = nn.Linear(WIDTH, 1)

        def forward(self, tokens):
            x = self.encoder(self.embed(tokens)).mean(1)
            return torch.cat([self.out(x), self.other(input=x)], 1)

    model = moved(turnover.wrap(TwoHeads(), adapters=8))
    assert sites(model)[-2:] == ["out.masked_input", "other.masked_input"]
    assert turnover.audit(model, batch_of("torch")).clean


@pytest.mark.parametrize("between", [nn.LayerNorm(16), nn.Sigmoid()], ids=lambda module: type(module).__name__)
def test_a_head_in_which_zero_does_not_stay_zero_is_masked_before_every_layer_and_clean(between):
    base = make("torch")
    base.out = nn.Sequential(nn.Linear(WIDTH, 16), between, nn.Linear(16, 3))
    model = moved(turnover.wrap(base, adapters=8))
    assert sites(model)[-2:] == ["out.0.masked_input", "out.2.masked_input"]
    assert turnover.audit(model, batch_of("torch")).clean
    assert turnover.plan(base, adapters=8).leaks == ()


def test_the_plan_counts_what_learns_and_leaves_model_and_random_state_alone():
    base = make("bert")
    keys, state = list(base.state_dict()), torch.get_rng_state()
    plan = turnover.plan(base, adapters=8)
    assert torch.equal(state, torch.get_rng_state())
    assert list(base.state_dict()) == keys
    assert all(parameter.requires_grad for parameter in base.parameters())
    model = turnover.wrap(base, adapters=8)
    assert plan.trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert plan.parameters == sum(p.numel() for p in model.parameters())
    assert all(site.zero.keeps and site.width for site in plan.sites)
    adapters = 4 * (2 * 8 * WIDTH + 8)
    assert f"{adapters:,} parameters in 4 adapters, {3 * WIDTH} in classifier learn" in str(plan)
    assert f"{adapters + 3 * WIDTH:,} of" in str(plan)


def test_adapters_take_the_dtype_of_the_model():
    model = turnover.wrap(make("bert").to(torch.bfloat16), adapters=8)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    with turnover.instances(range(5)):
        assert logits(model, inputs_of("bert")).dtype == torch.bfloat16
