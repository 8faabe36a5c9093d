"""Curvature against loops over parameters and exact curvature where theory has it; coverage, streaming, bad input."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnover
from tests.influence.models import mlp
from tests.reference import curvature_twin
from turnover.errors import InfluenceError, TurnOverError, TurnOverWarning
from turnover.influence import Curvature

ROWS, QUERIES = 40, 5


class Tokens(nn.Module):
    """Embedding, a Linear layer over positions, one target per token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(11, 6), nn.Linear(6, 9), nn.Linear(9, 4)

    def forward(self, tokens):
        return self.head(self.hidden(self.embed(tokens)).tanh())


class FirstToken(nn.Module):
    """Layers over positions, the last of which has a gradient at the first position alone."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.last, self.head = nn.Linear(6, 7), nn.Linear(7, 9), nn.Linear(9, 3)

    def forward(self, x):
        hidden = self.mix(x.unflatten(1, (3, 6))).tanh()
        return self.head(self.last(hidden + hidden.mean(1, keepdim=True)).tanh()[:, 0])


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 8, 3, stride=2, groups=2, bias=False),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(32, 3),
    )


def series() -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(4, 6, 3, padding=1, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(24, 3))


def _data(kind: str, rows: int, seed: int):
    random = torch.Generator().manual_seed(seed)
    if kind == "tokens":
        tokens = torch.randint(11, (rows, 5), generator=random)
        targets = (tokens + (torch.rand(tokens.shape, generator=random) < 0.3)) % 4
        targets[::3, 3:] = -100
        return tokens, targets
    shapes = {"mlp": (6,), "first_token": (18,), "convolutions": (3, 6, 6), "series": (4, 8), "linear": (6,)}
    x = torch.randn(rows, *shapes[kind], generator=random)
    if kind == "linear":
        return x, x[:, 0] + torch.randn(rows, generator=random)
    noise = torch.randn(rows, 3, generator=random)
    return x, (x.flatten(1)[:, :3] + 0.5 * noise).argmax(1)


BUILDERS = {
    "mlp": mlp,
    "convolutions": convolutions,
    "series": series,
    "tokens": Tokens,
    "first_token": FirstToken,
    "linear": lambda: nn.Linear(6, 1),
}


def built(kind: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    model = BUILDERS[kind]()
    rows, optimizer = _data(kind, ROWS, 1), torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):  # enough for the temperature to lie within its range
        outputs = model(rows[0])
        if kind == "linear":
            loss = (outputs[:, 0] - rows[1]).square().mean()
        else:
            loss = nn.functional.cross_entropy(outputs.flatten(0, -2), rows[1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("kind", BUILDERS)
def test_scores_equal_those_of_loops_over_parameters(kind):
    model, rows, queries = built(kind), _data(kind, ROWS, 1), _data(kind, QUERIES, 2)
    estimator = Curvature(temperature=1.5, damping=0.7)
    scores = turnover.Influence(model, train=rows, estimator=estimator).pairwise(queries)
    expected = curvature_twin.scores(model, rows, queries, temperature=1.5, damping=0.7)
    scale = float(expected.abs().max())
    np.testing.assert_allclose(scores.values, expected.numpy(), atol=2e-3 * scale)


def test_a_layer_with_many_inputs_and_few_outputs_is_taken_in_blocks():
    random = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(1100, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    rows, queries = ((torch.randn(n, 1100, generator=random), torch.arange(n) % 3) for n in (12, 1))
    scores = turnover.Influence(model, train=rows, estimator=Curvature(temperature=1.5)).pairwise(queries)
    expected = curvature_twin.scores(model, rows, queries, temperature=1.5, damping=5.0, widest=1024)
    np.testing.assert_allclose(scores.values, expected.numpy(), atol=2e-3 * float(expected.abs().max()))


def test_one_linear_layer_has_the_exact_curvature_of_least_squares():
    model, (x, y), (qx, qy) = built("linear"), _data("linear", ROWS, 1), _data("linear", QUERIES, 2)
    scores = turnover.Influence(model, train=(x, y), estimator=Curvature(damping=2.0)).pairwise((qx, qy)).values
    with torch.no_grad():
        inputs, query_inputs = (torch.cat([v, torch.ones(len(v), 1)], 1).double() for v in (x, qx))
        residuals, query_residuals = ((model(v)[:, 0] - t).double() for v, t in ((x, y), (qx, qy)))
    hessian = inputs.T @ inputs / len(inputs)
    inverse = torch.linalg.inv(hessian + 2.0 * hessian.trace() / len(hessian) * torch.eye(len(hessian)).double())
    exact = (residuals[:, None] * inputs) @ inverse @ (query_residuals[:, None] * query_inputs).T
    # Influence functions with the exact Hessian, up to the size of each query, which standardized scores leave open.
    for column in range(QUERIES):
        assert np.corrcoef(scores[:, column], exact[:, column].numpy())[0, 1] > 1 - 1e-6


def test_the_mean_of_queries_equals_the_mean_of_their_columns():
    for kind in ("mlp", "convolutions", "tokens"):
        rows, queries = _data(kind, ROWS, 1), _data(kind, QUERIES, 2)
        columns, other, mean, both = (
            getattr(turnover.Influence(built(kind), train=rows, estimator=Curvature(1.0, **dampings)), what)(
                queries
            ).values
            for dampings, what in (
                ({}, "pairwise"),
                ({"damping": 100.0}, "pairwise"),
                ({}, "mean"),
                ({"mean_damping": 100.0}, "mean"),
            )
        )
        np.testing.assert_allclose(mean, columns.mean(1), atol=1e-4 * np.abs(columns).max())
        expected = (columns.mean(1) + other.mean(1)) / 2
        np.testing.assert_allclose(both, expected, atol=1e-3 * np.abs(columns).max())


@pytest.mark.parametrize("kind", ["mlp", "convolutions", "first_token"])
def test_rows_that_are_multiplied_in_parts_have_the_same_scores(kind, monkeypatch):
    rows, queries = _data(kind, ROWS, 1), _data(kind, QUERIES, 2)
    inf = turnover.Influence(built(kind), train=rows, estimator=Curvature(temperature=1.0))
    whole = inf.pairwise(queries).values
    monkeypatch.setattr("turnover.influence.curvature._kronecker._VALUES_AT_ONCE", 1)
    np.testing.assert_allclose(inf.pairwise(queries).values, whole, atol=1e-4 * np.abs(whole).max())


@pytest.mark.parametrize("memory", [1, 2**14, 2**28])
def test_memory_changes_no_score(memory):
    rows, queries = _data("convolutions", ROWS, 1), _data("convolutions", QUERIES, 2)
    whole = turnover.Influence(built("convolutions"), train=rows, estimator=Curvature(temperature=1.0))
    parts = turnover.Influence(built("convolutions"), train=rows, estimator=Curvature(temperature=1.0), memory=memory)
    # The drawn labels depend on the order of rows alone.
    np.testing.assert_allclose(parts.pairwise(queries).values, whole.pairwise(queries).values, atol=1e-3)


def test_rows_of_one_instance_add_up():
    x, y = _data("mlp", ROWS, 1)
    ids = torch.arange(ROWS) // 2
    model = turnover.wrap(mlp(), at=["1"])
    with turnover.instances(range(ROWS)):
        model(x)
    estimator = Curvature(temperature=1.0)
    single = turnover.Influence(model, train=(x, y, torch.arange(ROWS)), estimator=estimator)
    grouped = turnover.Influence(model, train=(x, y, ids), estimator=estimator)
    queries = _data("mlp", QUERIES, 2)
    pairs = single.pairwise(queries).values
    np.testing.assert_allclose(grouped.pairwise(queries).values, pairs[::2] + pairs[1::2], rtol=1e-4, atol=1e-4)


def test_replicas_are_averaged_and_give_standard_errors():
    x, y = _data("mlp", ROWS, 1)
    model = turnover.wrap(mlp(), at=["1", "3"], replicas=4)
    with turnover.instances(range(ROWS)):
        model(x)
    scores = turnover.Influence(model, train=(x, y, torch.arange(ROWS)), estimator=Curvature(temperature=1.0)).pairwise(
        _data("mlp", QUERIES, 2)
    )
    assert scores.replicas == 4
    assert scores.stderr is not None
    assert scores.null is None
    low, high = scores.interval()
    assert bool((low < scores.values).all() & (scores.values < high).all())


def _falling(*parts: tuple[int, float, float]) -> torch.Tensor:
    """Return eigenvalues that fall: so many each, from one power of ten to another."""
    return torch.cat([torch.logspace(first, last, count) for count, first, last in parts]).double()[None]


SPECTRA = {
    "small": (_falling((10, 0, -4)), _falling((65, 0, -4))),
    "flat": (_falling((96, 0, -1.5)), _falling((130, 0, -1.5))),
    "steep": (_falling((96, 0, -10)), _falling((130, 0, -10))),
    "few classes": (_falling((9, 0, -1), (503, -9, -16)), _falling((513, 0, -8))),
}


@pytest.mark.parametrize("damping", [0.1, 5.0, 5000.0])
@pytest.mark.parametrize(("sigma", "alpha"), SPECTRA.values(), ids=SPECTRA)
def test_the_inverse_is_a_sum_of_as_few_products_as_there_can_be(sigma, alpha, damping):
    from turnover.influence.curvature._kronecker import _TOLERANCE, _terms

    inverse = 1 / (sigma[:, :, None] * alpha[:, None, :] + damping * sigma.mean() * alpha.mean())
    roots = sigma.sqrt()[:, :, None] * alpha.sqrt()[:, None, :]
    values = torch.linalg.svdvals(inverse * roots)[0]
    left_out = values.square().flip(0).cumsum(0).flip(0).sqrt() / values.norm()
    terms = _terms(inverse, sigma, alpha)
    assert terms is not None
    assert terms[0].shape[1] <= int((left_out > _TOLERANCE).sum()) + 1
    error = (terms[0].transpose(1, 2) @ terms[1] - inverse) * roots
    assert float(error.norm() / values.norm()) <= 1.01 * _TOLERANCE


@pytest.mark.parametrize("used", [0, 1, 3, 40])
def test_units_that_no_row_uses_have_eigenvalues_of_zero(used):
    from turnover.influence.curvature._kronecker import _eigen

    rows = torch.zeros(30, 40, dtype=torch.float64)
    places = torch.randperm(40, generator=torch.Generator().manual_seed(0))[:used]
    rows[:, places] = torch.randn(30, used, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    matrix = rows.T @ rows
    (values,), (vectors,) = _eigen(matrix[None], torch.device("cpu"))
    assert int((values > 1e-9).sum()) == min(used, 30)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(40), atol=1e-5, rtol=0)
    torch.testing.assert_close((vectors.double() * values) @ vectors.double().T, matrix, atol=1e-5, rtol=1e-5)


def test_what_needs_masks_says_so_for_a_finished_model():
    train = _data("mlp", ROWS, 1)
    with pytest.raises(turnover.errors.ModelError, match=r"held-out prediction needs masks.*turnover.wrap"):
        turnover.Influence(built("mlp"), train=train).out_of_sample()
    with pytest.raises(InfluenceError, match=r"is that of its loss, got measure='margin'"):
        turnover.Influence(built("mlp"), train=train, measure="margin").self_influence()


@pytest.mark.parametrize("kind", ["mlp", "convolutions", "tokens"])
def test_self_influence_of_a_finished_model_equals_that_of_loops_over_parameters(kind):
    model, rows = built(kind), _data(kind, ROWS, 1)
    inf = turnover.Influence(model, train=rows, estimator=Curvature(temperature=1.5, damping=0.7))
    own = inf.self_influence()
    assert (own.method, own.unit, own.stderr) == ("curvature", "loss", None)
    np.testing.assert_allclose(own.values, curvature_twin.own_scores(model, rows, 1.5, 0.7).numpy(), rtol=2e-3)
    np.testing.assert_allclose(inf.self_influence((rows[0][:4], rows[1][:4])).values, own.values[:4], rtol=1e-4)


@pytest.mark.parametrize("form", ["tuple", "loader", "dict"])
def test_finished_models_need_no_ids(form):
    (x, y), queries = _data("mlp", ROWS, 1), _data("mlp", QUERIES, 2)
    data = {"tuple": (x, y), "loader": DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True), "dict": None}[form]
    model = built("mlp")
    if form == "dict":
        inner = model

        class Named(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, values):
                return self.inner(values)

        model, data, queries = Named().eval(), {"values": x, "labels": y}, {"values": queries[0], "labels": queries[1]}
    scores = turnover.Influence(model, train=data).pairwise(queries)
    expected = turnover.Influence(built("mlp"), train=(x, y)).pairwise(_data("mlp", QUERIES, 2))
    assert scores.ids.tolist() == list(range(ROWS))
    assert np.corrcoef(scores.values.ravel(), expected.values.ravel())[0, 1] > 0.98


class _StopError(Exception):
    pass


@pytest.mark.parametrize("factors", ["whole", "damaged", "missing"])
def test_an_interrupted_folder_resumes_from_its_factors_to_the_same_bytes(factors, tmp_path, monkeypatch):
    from turnover.influence.curvature.estimator import FittedCurvature
    from turnover.storage import TileStore

    monkeypatch.setattr("turnover.influence._answers._IDS_PER_STORED_TILE", 16)
    rows, queries = _data("mlp", ROWS, 1), _data("mlp", QUERIES, 2)
    members = [built("mlp", seed) for seed in range(3)]

    def scored(folder: str) -> dict[str, bytes]:
        turnover.Influence(members, train=rows).pairwise(queries, out=tmp_path / folder)
        arrays = tmp_path / folder / "arrays"
        return {str(file.relative_to(arrays)): file.read_bytes() for file in arrays.rglob("*") if file.is_file()}

    expected = scored("straight")
    mark = TileStore.mark
    monkeypatch.setattr(TileStore, "mark", lambda store, tile, sums: stop() if tile else mark(store, tile, sums))

    def stop() -> None:
        raise _StopError

    with pytest.raises(_StopError):
        scored("stopped")
    monkeypatch.setattr(TileStore, "mark", mark)
    kept = tmp_path / "stopped" / "factors.npz"
    if factors == "whole":
        monkeypatch.setattr(FittedCurvature, "_factorize", lambda *_: pytest.fail("the curvature was computed again"))
    elif factors == "damaged":
        kept.write_bytes(kept.read_bytes()[:-2000])
    else:
        kept.unlink()
    assert scored("stopped") == expected


def test_factors_of_other_rows_or_weights_are_not_taken(tmp_path):
    rows, queries = _data("mlp", ROWS, 1), _data("mlp", QUERIES, 2)
    folder = tmp_path / "scores"
    turnover.Influence(built("mlp"), train=rows).pairwise(queries, out=folder)
    kept = (folder / "factors.npz").read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    for model, train in ((built("mlp", 1), rows), (built("mlp"), _data("mlp", ROWS, 3))):
        expected = turnover.Influence(model, train=train).pairwise(queries).values
        (other / "factors.npz").write_bytes(kept)
        fitted = turnover.Influence(model, train=train)
        with pytest.raises(turnover.errors.StoreError):  # there is a file that the store did not write
            fitted.pairwise(queries, out=other)
        np.testing.assert_array_equal(fitted.pairwise(queries).values, expected)


def test_a_later_process_takes_the_fit_that_was_kept(tmp_path, monkeypatch):
    from turnover.influence.curvature.estimator import FittedCurvature

    rows, queries = _data("mlp", ROWS, 1), _data("mlp", QUERIES, 2)
    first = turnover.Influence(built("mlp"), train=rows)
    first.keep_fit(tmp_path / "run")
    expected = first.top(queries, k=3)
    other = turnover.Influence(built("mlp", 1), train=rows)
    other.take_fit(tmp_path / "run")
    np.testing.assert_array_equal(
        other.pairwise(queries).values, turnover.Influence(built("mlp", 1), train=rows).pairwise(queries).values
    )
    monkeypatch.setattr(FittedCurvature, "_factorize", lambda *_: pytest.fail("the curvature was computed again"))
    later = turnover.Influence(built("mlp"), train=rows)
    later.take_fit(tmp_path / "run")
    np.testing.assert_array_equal(later.top(queries, k=3).helpful_scores, expected.helpful_scores)


def test_top_holds_the_ends_of_every_column():
    inf = turnover.Influence(built("mlp"), train=_data("mlp", ROWS, 1))
    queries = _data("mlp", QUERIES, 2)
    top, scores = inf.top(queries, k=3), inf.pairwise(queries)
    assert np.array_equal(top.helpful_ids, scores.top(3).helpful_ids)
    np.testing.assert_allclose(inf.pairwise(queries, ids=[7, 3]).values, scores.select(ids=[7, 3]).values, atol=1e-5)


class Scaled(nn.Module):
    """A network most of whose gradient lies in a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.gain = nn.Linear(6, 3), nn.Parameter(torch.tensor(0.01))

    def forward(self, x):
        return self.inner(x) * self.gain


def test_parameters_that_are_not_covered_are_named_with_their_share():
    train = _data("mlp", ROWS, 1)
    with pytest.warns(TurnOverWarning, match=r"covers \d+%.*gain \(\d+\.\d%\)"):
        scores = turnover.Influence(Scaled(), train=train, estimator=Curvature(temperature=1.0)).pairwise(train)
    assert "of the squared gradient" in scores.path


class Attention(nn.Module):
    """Attention over three positions, by torch's packed module or by four Linear layers."""

    def __init__(self, *, packed: bool, batch_first: bool, separate: bool) -> None:
        super().__init__()
        self.packed, self.batch_first, self.head = packed, batch_first, nn.Linear(6, 3)
        sizes = {"kdim": 5, "vdim": 4} if separate else {}
        self.whole = nn.MultiheadAttention(6, 2, batch_first=batch_first, **sizes)
        self.widths = (sizes.get("kdim", 6), sizes.get("vdim", 6))
        if not packed:
            whole, self.whole = self.whole, None
            self.q, self.k, self.v = (nn.Linear(width, 6) for width in (6, *self.widths))
            self.out = nn.Linear(6, 6)
            weights = [whole.q_proj_weight, whole.k_proj_weight, whole.v_proj_weight]
            parts = (self.q, self.k, self.v)
            for part, weight, bias in zip(
                parts, weights if separate else whole.in_proj_weight.chunk(3), whole.in_proj_bias.chunk(3), strict=True
            ):
                part.weight, part.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
            self.out.weight, self.out.bias = whole.out_proj.weight, whole.out_proj.bias

    def forward(self, x):
        x = x.unflatten(1, (3, 6))
        given = x, x[..., : self.widths[0]], x[..., : self.widths[1]]
        padding = torch.tensor([[False, False, True]]).expand(len(x), 3)
        if self.packed:
            turned = given if self.batch_first else [value.transpose(0, 1) for value in given]
            mixed = self.whole(*turned, key_padding_mask=padding, need_weights=False)[0]
            mixed = mixed if self.batch_first else mixed.transpose(0, 1)
        else:
            q, k, v = (
                part(value).unflatten(-1, (2, 3)).transpose(1, 2)
                for part, value in zip((self.q, self.k, self.v), given, strict=True)
            )
            weights = (q @ k.transpose(2, 3) / 3**0.5).masked_fill(padding[:, None, None], -torch.inf).softmax(-1)
            mixed = self.out((weights @ v).transpose(1, 2).flatten(2))
        return self.head(mixed.tanh().sum(1))


@pytest.mark.parametrize(("batch_first", "separate"), [(True, False), (False, False), (False, True)])
def test_packed_attention_scores_as_four_linear_layers(batch_first, separate):
    rows, queries = _data("first_token", 6, 1), _data("first_token", QUERIES, 2)  # twice as many rows as positions
    values = []
    for packed in (True, False):
        torch.manual_seed(0)
        model = Attention(packed=packed, batch_first=batch_first, separate=separate).eval()
        inf = turnover.Influence(model, train=rows, estimator=Curvature(temperature=1.0))
        values.append(inf.pairwise(queries).values)
        assert inf._fit[2].covered == 1
        assert not packed or "forward" not in vars(model.whole)
    np.testing.assert_allclose(*values, atol=1e-4 * np.abs(values[1]).max())


@pytest.mark.parametrize("parts", [["whole"], ["leading", "rest"]], ids=len)
@pytest.mark.parametrize("classes", [2, 3, 40])
def test_the_fisher_matrix_is_that_of_all_classes_even_where_the_network_is_certain(classes, parts):
    from turnover.influence.curvature._calibration import Objectives
    from turnover.influence.measures import Measure

    logits = torch.zeros(classes)
    logits[1] = 8.0 + np.log(classes)  # a drawn label would be another one in one row of 3,000
    outputs = (logits + torch.linspace(0, 1, classes)).repeat(4000, 1).requires_grad_(True)
    objective = Objectives(Measure("loss", None), 2.0)
    estimates = []
    for seed, part in enumerate(parts):
        random = torch.Generator().manual_seed(seed)
        values = objective.fisher(outputs, torch.ones(4000, dtype=torch.long), random, part)
        (gradient,) = torch.autograd.grad(values.sum(), outputs)
        estimates.append(gradient.T @ gradient / 4000)
    probs = (outputs[0].detach() / 2).softmax(-1)
    expected = (torch.diag(probs) - torch.outer(probs, probs)) / 4
    estimate = torch.stack(estimates).mean(0)
    assert float((estimate - expected).norm() / expected.norm()) < 0.1


def test_frozen_layers_take_no_part():
    model, rows, queries = built("mlp"), _data("mlp", ROWS, 1), _data("mlp", QUERIES, 2)
    model[0].requires_grad_(False)
    scores = turnover.Influence(model, train=rows).pairwise(queries)
    assert "curvature of 2 layers" in scores.path
    model.requires_grad_(False)  # all frozen: a model that is finished
    assert "curvature of 3 layers" in turnover.Influence(model, train=rows).pairwise(queries).path


def test_modes_and_gradients_of_the_model_are_left_as_they_were():
    model = built("mlp").train()
    model[2].requires_grad_(False)
    turnover.Influence(model, train=_data("mlp", ROWS, 1)).pairwise(_data("mlp", QUERIES, 2))
    assert model.training
    assert [value.requires_grad for value in model.parameters()] == [True, True, False, False, True, True]
    assert all(value.grad is None or bool(value.grad.isfinite().all()) for value in model.parameters())


def test_one_output_for_two_classes_ranks_rows_as_two_outputs_do():
    torch.manual_seed(0)
    x, queries = torch.randn(200, 6), torch.randn(10, 6)
    y = (x[:, 0] + torch.randn(200) > 0).long()
    one = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(one.parameters(), lr=0.5)
    for _ in range(50):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(one(x)[:, 0], y.float()).backward()
        optimizer.step()
    two = nn.Linear(6, 2)
    with torch.no_grad():
        two.weight.copy_(torch.cat([-one.weight, one.weight]) / 2)
        two.bias.copy_(torch.cat([-one.bias, one.bias]) / 2)

    def loss(outputs, targets):
        return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets.float(), reduction="none")

    asked = queries, (queries[:, 0] > 0).long()
    by_one = turnover.Influence(one, train=(x, y), loss=loss).pairwise(asked).values
    by_two = turnover.Influence(two, train=(x, y), estimator=Curvature(temperature=1.0)).pairwise(asked).values
    for column, other in zip(by_one.T, by_two.T, strict=True):
        assert np.corrcoef(column, other)[0, 1] > 0.98


@pytest.mark.parametrize("scale", [20.0, -1.0])
def test_rows_that_are_all_learned_can_be_calibrated_and_rows_without_any_cannot(scale):
    x = torch.randn(30, 6)
    y = (x[:, 0] > 0).long()
    model = nn.Linear(6, 2)
    with torch.no_grad():
        model.weight.zero_()
        model.weight[1, 0] = scale
        model.bias.zero_()
    inf = turnover.Influence(model, train=(x, y))
    if scale > 0:
        assert "temperature" in inf.pairwise((x[:2], y[:2])).path
        return
    with pytest.warns(TurnOverWarning, match=r"cannot be calibrated.*no better than chance"):
        inf.pairwise((x[:2], y[:2]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"train": None, "estimator": "curvature"}, "there is no train"),
        ({"train": None}, "this model was never wrapped"),
        ({"estimator": "tod"}, "needs masks"),
        ({"estimator": "kfac"}, "estimator='kfac' is unknown"),
        ({"estimator": Curvature}, r"got the class Curvature. Call it: Curvature\(\)"),
        ({"loss": lambda outputs, targets: outputs.detach()[:, 0]}, "no gradient with respect to the outputs"),
        (
            {"measure": lambda outputs, targets: (outputs.argmax(1) == targets).float()},
            "or the measure, has no gradient",
        ),
        ({"train": torch.randn(8, 6)}, "labels of the training rows"),
    ],
)
def test_what_cannot_be_scored_is_said(options, said):
    with pytest.raises(TurnOverError, match=said):
        turnover.Influence(built("mlp"), **{"train": _data("mlp", ROWS, 1), **options}).pairwise(_data("mlp", 2, 2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": 0}, "temperature=\\) must be a number > 0, got 0"),
        ({"damping": -1.0}, "damping=\\) must be a number > 0"),
        ({"seed": -1}, "seed=\\) must be an integer >= 0"),
    ],
)
def test_bad_options_are_rejected(options, said):
    with pytest.raises(InfluenceError, match=said):
        Curvature(**options)


@pytest.mark.parametrize("temperature", [1.0, None])
def test_values_that_are_not_finite_are_named(temperature):
    x, y = _data("mlp", ROWS, 1)
    x[3, 0] = torch.nan
    data = turnover.with_instance_ids(TensorDataset(x, y))
    inf = turnover.Influence(built("mlp"), train=data, estimator=Curvature(temperature=temperature))
    with pytest.raises(InfluenceError, match=r"outputs are not finite on row 3\. Look"):
        inf.pairwise(_data("mlp", 2, 2))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: [built("mlp").state_dict()] * 2, "got an object of <class 'collections.OrderedDict'>. Load each"),
        (lambda: ["epoch-1.pt", "epoch-2.pt"], r"got 'epoch-1.pt'.*one.load_state_dict\(torch.load\(file\)\)"),
    ],
    ids=["state dicts", "files"],
)
def test_checkpoints_that_are_no_models_are_rejected_without_their_weights(given, said):
    with pytest.raises(InfluenceError, match=said) as raised:
        turnover.Influence(given(), train=_data("mlp", ROWS, 1))
    assert len(str(raised.value)) < 300
