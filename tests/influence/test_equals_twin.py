"""The engine equals its slow twin: two plain forward passes per pair."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from tests.influence.models import Cat, Encoder, ResNet, bert, cnn, mlp, trained
from tests.reference.influence_twin import twin_scores
from turnover.influence import TurnOver

IDS = [0, 3, 7, 2**31 + 5, 2**53 + 1, 2**61]


def cross_entropy(outputs: Tensor, target: Tensor) -> Tensor:
    return -functional.cross_entropy(outputs.double(), target)


def check(model, queries, rows, row_value=cross_entropy, *, twin=None, masks=None, tolerance=1e-5, **options) -> str:
    estimator = TurnOver(center=False, **(masks or {}))
    inf = turnover.Influence(model, estimator=estimator, **options)
    found = inf.pairwise(queries, ids=IDS)
    for precision in (torch.float32, torch.float64):
        expected = twin_scores(model, rows, IDS, row_value, dtype=precision, **(twin or {}))
        assert expected.abs().max() > 1e-3  # scores that are all 0 would prove nothing
        losses = max(abs(float(row_value(*_full(model, row, precision)))) for row in rows)
        assert torch.allclose(
            torch.tensor(found.values).double(), expected, rtol=tolerance, atol=tolerance * (1 + losses)
        )
    return found.path


def _full(model: nn.Module, row, precision) -> tuple[Tensor, Tensor]:
    args, kwargs, target = row
    with torch.no_grad():
        outputs = model(*args, **kwargs)
    return getattr(outputs, "logits", outputs), target


def rows_of(x: Tensor, y: Tensor) -> list[tuple[tuple, dict, Tensor]]:
    return [((x[i : i + 1],), {}, y[i : i + 1]) for i in range(len(x))]


def vectors(classes: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(4, 6), torch.arange(4) % classes


def images() -> tuple[Tensor, Tensor]:
    return torch.randn(3, 3, 8, 8), torch.tensor([0, 3, 1])


@pytest.mark.parametrize("masks", ["counter", "volatile", "codebook"])
@pytest.mark.parametrize("keep", [0.3, 0.5, 0.9])
def test_mlp_with_masks_of_all_kinds_and_rates(masks, keep):
    model = trained(mlp(), at=["1", "3"], masks=masks, keep=keep, seed=4)
    queries = vectors()
    assert check(model, queries, rows_of(*queries)) == "broadcast at the first site"


def test_last_layer_is_one_matrix_product():
    model = trained(mlp(), at=["3"], keep=0.6)
    queries = vectors()
    assert check(model, queries, rows_of(*queries)) == "last layer, one matrix product"


def test_last_layer_without_a_bias():
    model = trained(nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 3, bias=False)), at=["1"])
    queries = vectors()
    assert check(model, queries, rows_of(*queries)) == "last layer, one matrix product"


@pytest.mark.parametrize("measure", ["probability", "margin"])
@pytest.mark.parametrize("at", [["3"], ["1", "3"]], ids=["last layer", "generic"])
def test_other_measures(measure, at):
    def row_value(outputs, target):
        probabilities = outputs.double().softmax(-1)[:, int(target)]
        return probabilities if measure == "probability" else (probabilities / (1 - probabilities)).log()

    model, queries = trained(mlp(), at=at), vectors()
    check(model, queries, rows_of(*queries), row_value, measure=measure)


def test_a_measure_of_the_users_own():
    def second_logit(outputs, targets):
        return outputs[:, 1]

    model, queries = trained(mlp(), at=["1", "3"]), vectors()
    check(model, queries, rows_of(*queries), lambda o, t: o.double()[:, 1], measure=second_logit)
    assert turnover.Influence(model, measure=second_logit).pairwise(queries, ids=IDS).unit == "second_logit"


def test_a_loss_of_the_users_own():
    loss = nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)
    model, queries = trained(mlp(), at=["1", "3"]), vectors()
    check(model, queries, rows_of(*queries), lambda o, t: -loss(o.double(), t), loss=loss)


@pytest.mark.parametrize("at", [["3"], ["1", "3"]], ids=["last layer", "generic"])
def test_regression_has_squared_error(at):
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = torch.randn(4, 6), torch.randn(4, 1)
    check(trained(net, at=at), (x, y), rows_of(x, y), lambda o, t: -(o.double() - t).square().mean())


@pytest.mark.parametrize("at", [["3"], ["1", "3"]], ids=["last layer", "generic"])
def test_against_the_full_network(at):
    model, queries = trained(mlp(), at=at), vectors()
    check(model, queries, rows_of(*queries), twin={"against": "full"}, masks={"against": "full"})


def test_only_some_sites_are_flipped():
    model, queries = trained(mlp(), at=["1", "3"]), vectors()
    check(model, queries, rows_of(*queries), twin={"flip_only": ("3",)}, masks={"sites": ["3"]})


def test_cnn_with_batch_norm_and_channel_masks():
    model = trained(cnn(), at={"2": "channels", "4": "channels", "6": "features"})
    queries = images()
    assert check(model, queries, rows_of(*queries)) == "broadcast at the first site"


def test_residual_network():
    model = trained(ResNet(), at={"act1": "channels", "act2": "channels"})
    queries = images()
    assert check(model, queries, rows_of(*queries)) == "broadcast at the first site"


def test_torch_encoder_with_padding_is_repeated_where_it_cannot_grow():
    model = trained(Encoder(), at=["encoder.layers.*.dropout"])
    tokens = torch.randint(30, (3, 7))
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = padding[2, 3:] = True
    target = torch.tensor([0, 1, 2])
    rows = [((tokens[i : i + 1], padding[i : i + 1]), {}, target[i : i + 1]) for i in range(3)]
    path = check(model, (tokens, padding, target), rows)
    assert "expanded" in path or "broadcast" in path


def test_concatenation_with_a_branch_that_stays_at_one_row_is_repeated():
    model, queries = trained(Cat(), at=["act"]), vectors()
    assert check(model, queries, rows_of(*queries)) == "expanded batch"


@pytest.mark.parametrize("at", [["bert.encoder.layer.*.intermediate"], ["dropout"]], ids=["generic", "last layer"])
def test_hugging_face_bert_with_dict_batches(at):
    pytest.importorskip("transformers", reason="needs the extra text")
    model = trained(bert(), at=at)
    batch = {"input_ids": torch.randint(50, (3, 6)), "attention_mask": torch.ones(3, 6, dtype=torch.int64)}
    batch["attention_mask"][1, 4:] = 0
    labels = torch.tensor([0, 2, 1])
    rows = [((), {name: value[i : i + 1] for name, value in batch.items()}, labels[i : i + 1]) for i in range(3)]
    path = check(model, {**batch, "labels": labels}, rows)
    assert path.startswith("last layer" if at == ["dropout"] else "broadcast")


def test_bfloat16_is_near():
    model, queries = trained(mlp(64), at=["1", "3"]), vectors()
    check(model, queries, rows_of(*queries), tolerance=3e-2, dtype=torch.bfloat16)


def test_compiled_is_the_same():
    model, queries = trained(mlp(), at=["1", "3"]), vectors()
    check(model, queries, rows_of(*queries), compile=True)


def test_an_ensemble_is_the_mean_with_the_spread_of_its_members():
    torch.manual_seed(3)
    models = [trained(mlp(), at=["1", "3"], seed=seed) for seed in (1, 2, 3)]
    queries = vectors()
    each = torch.stack([twin_scores(m, rows_of(*queries), IDS, cross_entropy) for m in models])
    found = turnover.Influence(models, estimator=TurnOver(center=False)).pairwise(queries, ids=IDS)
    assert torch.allclose(torch.tensor(found.values).double(), each.mean(0), rtol=1e-5, atol=2e-5)
    assert torch.allclose(torch.tensor(found.stderr).double(), each.std(0) / 3**0.5, rtol=1e-4, atol=2e-5)
    assert found.replicas == 3


def test_centring_subtracts_the_mean_of_never_trained_ids():
    model, queries = trained(mlp(), at=["1", "3"], keep=0.8), vectors()
    raw = turnover.Influence(model, estimator=TurnOver(center=False)).pairwise(queries, ids=IDS)
    null = turnover.Influence(model, estimator=TurnOver(center=False)).null(queries)
    centered = turnover.Influence(model).pairwise(queries, ids=IDS)
    assert torch.allclose(torch.tensor(raw.values - null.values.mean(0)), torch.tensor(centered.values), atol=1e-5)
    assert torch.allclose(torch.tensor(centered.offset), torch.tensor(null.values.mean(0)), atol=1e-5)
    assert torch.allclose(torch.tensor(centered.stderr[0]), torch.tensor(null.values.std(0, ddof=1)), rtol=1e-4)


@pytest.mark.filterwarnings("ignore:the self-influence of these")  # this model was not really trained
def test_self_influence_and_out_of_sample_equal_the_twin():
    model = trained(mlp(), at=["1", "3"])
    x, y = vectors()
    ids = torch.tensor([5, 9, 2**40, 1])
    twin = twin_scores(model, rows_of(x, y), ids.tolist(), cross_entropy)
    inf = turnover.Influence(model, estimator=TurnOver(center=False))
    scores = inf.self_influence((x, y, ids))
    assert torch.allclose(torch.tensor(scores.values).double(), twin.diagonal(), rtol=1e-5, atol=1e-5)
    assert scores.ids.tolist() == ids.tolist()
    unseen = inf.out_of_sample((x, y, ids))
    with torch.no_grad(), turnover.instances(ids, view="flip"):
        expected = model(x).softmax(-1)
    assert torch.allclose(torch.tensor(unseen.probs), expected, atol=1e-6)
    assert unseen.label_quality.tolist() == pytest.approx(expected[torch.arange(4), y].tolist(), abs=1e-6)
