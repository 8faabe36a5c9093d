"""The plan: what wrap would do, seen before it does."""

import warnings

import pytest
import torch
from torch import nn

import turnover
from turnover.errors import PlanError, TurnOverWarning


def cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 12, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 10),
    )


class Branchy(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 4))
        self.unused = nn.Dropout()

    def forward(self, x):
        return self.block(x) if x.sum() > 0 else self.block(-x)


def test_a_mask_before_batch_norm_is_warned_of_with_the_module_to_use_instead():
    with pytest.warns(TurnOverWarning, match=r"site '0': BatchNorm2d '1' follows.*Use '2' instead"):
        turnover.wrap(cnn(), at=["0"])


@pytest.mark.parametrize(
    ("after", "keeps"),
    [
        (nn.ReLU(), True),
        (nn.GELU(), True),
        (nn.Tanh(), True),
        (nn.Identity(), True),
        (nn.Sigmoid(), False),
        (nn.Softmax(-1), False),
        (nn.LayerNorm(8), False),
        (nn.BatchNorm1d(8), False),
        (nn.GroupNorm(1, 8), False),
        (nn.RMSNorm(8), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_zero_stays_zero_or_not_up_to_the_next_weights(after, keeps):
    plan = turnover.plan(nn.Sequential(nn.Linear(4, 8), after, nn.Linear(8, 2)), at=["0"])
    assert plan.sites[0].zero.keeps is keeps
    # What the plan says is what happens: a zero unit reaches the next weights as a zero or not.
    if isinstance(after, nn.BatchNorm1d):
        after.running_mean.fill_(0.5)
    zero = after.eval()(torch.tensor([[0.0, 1, 2, 3, 4, 5, 6, 7]]))[0, 0]
    assert (zero == 0).item() is keeps


def test_functions_in_a_users_forward_are_followed():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x):
            x = torch.relu(self.a(x)).flatten(1)
            return self.c(torch.sigmoid(self.b(x)))

    sites = turnover.plan(Net(), at=["a", "b"]).sites
    assert sites[0].zero.keeps is True
    assert sites[1].zero.keeps is False
    assert "sigmoid() follows" in sites[1].zero.reason


def test_a_residual_addition_breaks_the_zero():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.b(x + self.a(x))

    assert "added to something else" in turnover.plan(Net(), at=["a"]).sites[0].zero.reason


def test_what_cannot_be_traced_is_followed_within_its_block_or_said_to_be_unknown():
    plan = turnover.plan(Branchy(), at=["block.0", "block.2"])
    assert plan.sites[0].zero.keeps is False
    assert plan.sites[1].zero.keeps is None
    assert "cannot be traced" in plan.sites[1].zero.reason


def test_transformer_layers_of_torch_are_known():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
    plan = turnover.plan(encoder)
    assert {site.path.rpartition(".")[2]: site.zero.keeps for site in plan.sites} == {
        "dropout": True,
        "dropout1": False,
        "dropout2": False,
    }


def test_the_plan_prints_as_a_table():
    text = str(turnover.plan(cnn(), at={"2": "channels", "4": "channels", "6": "features"}))
    assert "3 sites, counter masks, seed 0" in text
    for line in (
        "2     ReLU     channels",
        "would leak",
        "bias without a mask: 7.bias",
        "normalization: 1.weight, 1.bias",
    ):
        assert line in text


def test_a_plan_with_an_example_measures_widths_and_leaks_and_leaves_the_model_alone():
    model = cnn().train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    plan = turnover.plan(model, at={"2": "channels", "4": "channels"}, example=torch.randn(4, 3, 9, 9))
    assert [site.width for site in plan.sites] == [8, 12]
    assert all(site.runs for site in plan.sites)
    assert plan.leaks_measured
    assert {leak.name for leak in plan.leaks} == {"7.bias", "1.running_mean", "1.running_var"} | {
        leak.name for leak in plan.leaks if leak.cause == "normalization"
    }
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not torch.equal(random, torch.get_rng_state())  # the example itself drew numbers; the plan must not
    before = torch.get_rng_state()
    turnover.plan(model, at={"2": "channels"}, example=torch.zeros(4, 3, 9, 9))
    assert torch.equal(before, torch.get_rng_state())


def test_an_example_shows_which_sites_never_run():
    plan = turnover.plan(Branchy(), example=torch.ones(3, 4))
    assert plan.sites[0].runs is False
    assert "never called on this example: 'unused'" in plan.problems[0]


def test_an_example_that_does_not_fit_says_so():
    with pytest.raises(PlanError, match="the model fails on the example"):
        turnover.plan(cnn(), at={"2": "channels"}, example=torch.zeros(4, 5))
    with pytest.raises(PlanError, match="the example has no rows"):
        turnover.plan(cnn(), at={"2": "channels"}, example="text")
    with pytest.raises(PlanError, match=r"the example has no rows.*example=x\[:4\]"):
        turnover.plan(cnn(), at={"2": "channels"}, example=torch.zeros(0, 3, 9, 9))


def test_a_parameter_free_module_with_four_dimensions_needs_to_be_told():
    plan = turnover.plan(cnn(), at=["4"], example=torch.randn(2, 3, 9, 9))
    assert "at={'4': 'channels'}" in plan.problems[0]


def test_batch_dimension_is_1_below_a_module_with_batch_first_false():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1, enable_nested_tensor=False)
    assert turnover.plan(encoder, at=["layers.0.dropout"]).sites[0].batch_dim == 1


def test_a_quantized_network_in_which_nothing_learns_is_warned_of_with_the_cure():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces another library
        packed = torch.ao.quantization.quantize_dynamic(net, {nn.Linear})
    with pytest.warns(TurnOverWarning, match=r"'0', '2': quantized already.*Load the weights in float32"):
        turnover.wrap(packed, at=["1"])


def test_a_site_of_one_unit_is_warned_of_by_wrap_and_where_only_an_example_tells_by_the_plan():
    net = nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.warns(TurnOverWarning, match=r"site '0' has one unit.*all or nothing.*Mask a wider module"):
        turnover.wrap(net, at=["0"])
    assert not turnover.plan(net, at=["1"]).warnings  # a ReLU does not say how wide it is
    (warning,) = turnover.plan(net, at=["1", "3"], example=torch.randn(3, 4)).warnings
    assert warning.startswith("site '1' has one unit")


def tied():
    net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 2))
    net[2].weight = net[0].weight
    net[4].bias.requires_grad_(False)
    return net


def test_tied_weights_are_named_by_the_plan_and_the_audit_agrees():
    plan = turnover.plan(tied(), at=["1", "3"])
    (note,) = plan.notes
    assert note.startswith("'0.weight' is tied to '2.weight'")
    assert "config.tie_word_embeddings = False" in note
    assert {(leak.name, leak.cause) for leak in plan.leaks} == {(f"{place}.weight", "tied weights") for place in (0, 2)}
    batch = torch.randn(6, 8), torch.randint(2, (6,)), torch.arange(6)
    report = turnover.audit(turnover.wrap(tied(), at=["1", "3"]), batch)
    assert [(leak.name, leak.cause) for leak in report.leaks] == [("0.weight", "tied weights")]
    assert "untie them" in report.verdict


def test_weights_that_are_tied_and_frozen_or_of_a_module_used_twice_are_not_named():
    frozen = tied()
    frozen[0].weight.requires_grad_(False)
    assert not turnover.plan(frozen, at=["1", "3"]).notes
    twice = tied()
    twice[2] = twice[0]
    assert not turnover.plan(twice, at=["1", "3"]).notes


@pytest.mark.parametrize("lazy", [nn.LazyLinear, nn.LazyBatchNorm1d])
@pytest.mark.parametrize("options", [{"at": ["1"]}, {"at": ["1"], "replicas": 2}, {"adapters": 4}], ids=str)
def test_lazy_modules_must_have_run_before(lazy, options):
    model = nn.Sequential(lazy(8) if lazy is nn.LazyLinear else lazy(affine=False), nn.ReLU(), nn.Linear(8, 2))
    for call in (turnover.plan, turnover.wrap):
        with pytest.raises(PlanError, match=r"'0': lazy modules whose weights have no shape yet.*model\(x\)"):
            call(model, **options)
    model(torch.zeros(2, 8))
    turnover.plan(model, at=["1"])


def test_replicas_that_do_not_fit_into_memory_are_a_problem_of_the_plan():
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    planned = turnover.plan(model, at=["1"], replicas=10**9)
    assert "1,000,000,000 replicas take 1.8 TB" in planned.problems[0]


@pytest.mark.parametrize("split", [3, ["0"], nn.ReLU(), "2.weight"], ids=lambda split: type(split).__name__)
def test_a_split_that_is_no_path_of_a_module_is_a_problem(split):
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    assert "`split` must be the path" in turnover.plan(model, at=["1"], replicas=2, split=split).problems[0]
