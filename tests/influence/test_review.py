"""Traps that gave wrong scores without a word, or an error that named nothing; each must stay closed."""

import functools
import threading

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset

import turnover
from tests.influence.models import mlp, trained
from tests.influence.test_equals_twin import check, rows_of, vectors
from turnover.errors import BatchError, InfluenceError
from turnover.influence.ensemble import Member
from turnover.influence.fingerprint import fingerprint_of
from turnover.influence.measures import Measure

IDS = range(6)


def squared(outputs: Tensor, target: Tensor) -> Tensor:
    return -(outputs.double().squeeze() - target.squeeze()).square()


# Measures


def test_a_model_that_returns_one_number_a_row_works():
    model = trained(nn.Sequential(*mlp()[:4], nn.Linear(32, 1), nn.Flatten(0)), at=["1", "3"])
    x, y = torch.randn(4, 6), torch.randn(4)
    check(model, (x, y), rows_of(x, y), squared)


def test_a_loss_that_compares_every_row_with_every_target_is_named():
    judge = Measure("loss", nn.MSELoss(reduction="none"))
    with (
        pytest.warns(UserWarning, match="broadcast"),
        pytest.raises(BatchError, match="every row with every target"),
    ):
        judge(torch.zeros(4, 1), torch.zeros(4))


def test_squared_error_of_unlike_shapes_is_named():
    with pytest.raises(BatchError, match=r"shape \[4, 2\] and targets \[4, 3\]"):
        Measure("loss", None)(torch.zeros(4, 2), torch.zeros(4, 3))


@pytest.mark.parametrize("measure", ["loss", "probability", "margin"])
def test_ignored_tokens_do_not_count(measure):
    judge, scores = Measure(measure, None), torch.randn(2, 5, 7)
    targets = torch.randint(0, 7, (2, 5))
    padded = torch.cat([targets, torch.full((2, 3), -100)], 1)
    longer = torch.cat([scores, torch.randn(2, 3, 7)], 1)
    assert torch.allclose(judge(longer, padded), judge(scores, targets), atol=1e-6)


@pytest.mark.parametrize("measure", ["loss", "probability", "margin"])
@pytest.mark.parametrize("bad", [-1, 3])
def test_a_target_that_is_no_class_is_named(measure, bad):
    with pytest.raises(InfluenceError, match=f"classes from 0 to 2.* got {bad}"):
        Measure(measure, None)(torch.zeros(2, 3), torch.tensor([0, bad]))


def test_class_targets_for_a_single_logit_are_refused():
    with pytest.raises(InfluenceError, match="one class"):
        Measure("loss", None)(torch.zeros(2, 1), torch.tensor([0, 0]))


# The shortcut


class Clamps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.act, self.b, self.c = nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(self.a(x))
        hidden.clamp_(max=6.0)
        return self.c(self.b(hidden).relu())


def test_what_is_written_in_place_behind_a_site_does_not_share_the_product():
    x, y = vectors()
    x[2:] *= 30  # the first query does not show the difference
    assert check(trained(Clamps(), at=["act"]), (x, y), rows_of(x, y)) == "broadcast at the first site"


class CosineLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 5 * functional.linear(functional.normalize(x, dim=-1), self.weight, self.bias)


def test_a_class_derived_from_linear_does_not_share_the_product_even_where_scores_are_small():
    net = mlp()
    net[2] = CosineLinear(32, 32)
    model, (x, y) = trained(net, at=["1", "3"]), vectors()
    small = turnover.Influence(model, loss=lambda o, t: 1e-5 * functional.cross_entropy(o, t, reduction="none"))
    usual = turnover.Influence(model).pairwise((x, y), ids=IDS).values
    assert np.allclose(small.pairwise((x, y), ids=IDS).values * 1e5, usual, atol=1e-3)


class RunsTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.act, self.b = nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.b(self.act(self.a(x))).relu())


def test_a_layer_that_runs_twice_is_no_last_layer():
    queries = vectors()
    assert check(trained(RunsTwice(), at=["act"]), queries, rows_of(*queries)) == "broadcast at the first site"


def test_a_masked_product_is_broadcast():
    model, queries = trained(mlp(), at=["1", "2"]), vectors()
    assert check(model, queries, rows_of(*queries)) == "broadcast at the first site"


def test_the_product_is_not_shared_where_float32_is_too_coarse():
    model = trained(mlp(256), at=["1", "3"], keep=0.99)
    queries = vectors()
    assert check(model, queries, rows_of(*queries)) == "broadcast at the first site"


# Threads


def test_threads_that_ask_one_model_get_their_own_scores_and_leave_its_mode():
    model, queries = trained(mlp(256), at=["1", "3"]).train(), vectors()
    wanted = turnover.Influence(model).pairwise(queries, ids=range(300)).values
    found = []

    def ask() -> None:
        found.extend(turnover.Influence(model).pairwise(queries, ids=range(300)).values for _ in range(3))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 9
    assert all(np.allclose(values, wanted, atol=1e-5) for values in found)
    assert model.training


# Queries and rows


def test_targets_of_another_length_are_named():
    inf = turnover.Influence(trained(mlp(), at=["1", "3"]))
    with pytest.raises(BatchError, match="3 targets, but the inputs have 4 rows"):
        inf.pairwise((torch.randn(4, 6), torch.randn(3)), ids=IDS)


class Stream(IterableDataset):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.rows = list(zip(x, y, strict=True))

    def __iter__(self):
        return iter(self.rows)


def test_an_iterable_data_set_serves_as_training_data_and_as_queries():
    model, (x, y) = trained(mlp(), at=["1", "3"]), vectors()
    data = turnover.with_instance_ids(Stream(x, y))
    inf = turnover.Influence(model, estimator="tod", train=data)
    assert inf.pairwise(Stream(x, y)).shape == (4, 4)
    assert inf.self_influence().shape == (4,)


class Keywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, x, temperature=None, pair=None, names=None) -> Tensor:
        rows = self.net(x if pair is None else x + pair["left"])
        return rows if temperature is None else rows / temperature


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": torch.tensor(2.0)},
        {"names": ["a", "b", "c", "d"]},
        {"pair": {"left": torch.ones(4, 6)}},
    ],
    ids=["number", "strings", "mapping"],
)
def test_other_inputs_are_cut_row_by_row(more):
    model, (x, y) = trained(Keywords(), at=["net.1", "net.3"]), vectors()
    inf = turnover.Influence(model)
    first = {name: value if isinstance(value, Tensor) else _first(value) for name, value in more.items()}
    found = inf.pairwise({**more, "x": x, "labels": y}, ids=IDS).values[:, 0]
    alone = inf.pairwise({**first, "x": x[:1], "labels": y[:1]}, ids=IDS).values[:, 0]
    assert np.allclose(found, alone, atol=1e-6)


def _first(value):
    return {"left": value["left"][:1]} if isinstance(value, dict) else value[:1]


def test_an_input_without_rows_does_not_say_how_many_queries_there_are():
    model, (x, y) = trained(Keywords(), at=["net.1", "net.3"]), vectors()
    batch = {"pair": {"left": torch.zeros(1, 6)}, "x": x, "labels": y}
    assert turnover.Influence(model).pairwise(batch, ids=IDS).shape == (6, 4)


def test_rows_with_lists_of_numbers_are_tensors():
    datasets = pytest.importorskip("datasets")
    x, y = vectors()
    rows = datasets.Dataset.from_dict({"x": x.tolist(), "labels": y.tolist()})
    inf = turnover.Influence(trained(Keywords(), at=["net.1", "net.3"]))
    assert np.allclose(inf.pairwise(rows, ids=IDS).values, inf.pairwise((x, y), ids=IDS).values, atol=1e-6)


def test_training_rows_given_as_tensors_are_not_passed_all_at_once():
    sizes = []
    model = trained(mlp(), at=["1", "3"])
    model[0].register_forward_hook(lambda module, args, output: sizes.append(len(args[0])))
    inf = turnover.Influence(model)
    ids = torch.arange(500)
    assert len(inf.out_of_sample((torch.randn(500, 6), ids % 3, ids))) == 500
    assert max(sizes) <= 128


class OtherRowsEachTime(Sampler):
    passes = 0

    def __iter__(self):
        self.passes += 1
        return iter([self.passes % 4, (self.passes + 1) % 4])

    def __len__(self) -> int:
        return 2


def test_labels_of_rows_that_a_sampler_leaves_out_are_asked_for():
    model, (x, y) = trained(mlp(), at=["1", "3"]), vectors()
    data = turnover.with_instance_ids(TensorDataset(x, y))
    inf = turnover.Influence(model, estimator="tod", train=DataLoader(data, batch_size=2, sampler=OtherRowsEachTime()))
    with pytest.raises(InfluenceError, match="no label for 1 instances, 1 for one: a loader"):
        inf.top((x, y), k=1, label=0)


def test_a_group_with_different_labels_has_none_of_its_own():
    model, (x, y) = trained(mlp(), at=["1", "3"]), vectors()
    inf = turnover.Influence(model, estimator="tod", train=(x, y, torch.tensor([0, 0, 1, 1])))
    with pytest.raises(InfluenceError, match="rows of instance 0 have different labels, 0 and 1"):
        inf.top((x, y), k=1, label=0)


# What identifies a run


def weighted(outputs, targets, *, weight=1.0):
    return weight * functional.cross_entropy(outputs, targets, reduction="none")


def closure_over(value):
    return lambda outputs, targets: weighted(outputs, targets, weight=value[0])


class Method:
    def __init__(self, weight):
        self.weight = weight

    def loss(self, outputs, targets):
        return weighted(outputs, targets, weight=self.weight)

    __call__ = loss


@pytest.mark.parametrize(
    "make",
    [
        lambda weight: functools.partial(weighted, weight=weight),
        lambda weight: closure_over([weight]),
        lambda weight: Method(weight).loss,
        lambda weight: Method([weight]),
        lambda weight: nn.CrossEntropyLoss(reduction="none", label_smoothing=weight),
        lambda weight: nn.CrossEntropyLoss(reduction="none", weight=torch.tensor([weight, 1.0])),
        lambda weight: Method(closure_over([weight])),
    ],
    ids=["partial", "closure", "method", "object", "module option", "module weight", "function inside"],
)
def test_functions_with_other_constants_are_other_functions(make):
    assert fingerprint_of(make(0.25)) == fingerprint_of(make(0.25))
    assert fingerprint_of(make(0.25)) != fingerprint_of(make(0.5))


def test_a_model_with_another_activation_or_head_is_another_model():
    class Outer(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.head = inner, nn.Linear(3, 3)

    one = mlp()
    other = nn.Sequential(one[0], nn.Tanh(), *one[2:])
    wrapped = trained(one, at=["1"])
    assert Member(wrapped).digest() == Member(wrapped).digest()
    assert Member(wrapped).digest() != Member(trained(other, at=["1"])).digest()
    assert Member(Outer(wrapped)).digest() != Member(Outer(wrapped)).digest()
